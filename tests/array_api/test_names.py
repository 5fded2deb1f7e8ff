"""The names and parameters that the array API standard asks for."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import treadle as td
from tests.array_api.names import FUNCTIONS, METHODS
from tests.cases import by_letter, each

KEYWORD = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def function_of(name: str) -> Any:
    found: Any = td
    for part in name.split("."):
        found = getattr(found, part)
    return found


@each("name", by_letter(FUNCTIONS))
def test_a_function_has_the_parameters_of_the_standard(name: str) -> None:
    words = FUNCTIONS[name].split()
    own = list(inspect.signature(function_of(name)).parameters.values())
    if words[0].startswith("*") and len(words[0]) > 1:
        assert own[0].kind is inspect.Parameter.VAR_POSITIONAL
        words = ["*", *words[1:]]
        first: list[str] = []
    else:
        before = words.index("/") if "/" in words else 0
        first, words = words[:before], words[before + ("/" in words) :]
    # By position: in the same places, whatever they are called here.
    assert len(own) >= len(first)
    assert all(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in own[: len(first)])
    named = False
    for place, word in enumerate(words):
        if word == "*":
            named = True
        elif named:
            kinds = [p.kind for p in own if p.name == word]
            assert kinds and kinds[0] in KEYWORD, word
        else:
            p = own[len(first) + place]
            assert p.name == word and p.kind == p.POSITIONAL_OR_KEYWORD


@each("name", by_letter(METHODS))
def test_arrays_have_the_names_of_the_standard(name: str) -> None:
    assert hasattr(td.Tensor, name) and hasattr(td.Parameter, name)


def test_the_namespace_is_the_package() -> None:
    x, p = td.ones(2), td.Parameter([1.0, 2.0])
    assert x.__array_namespace__() is td is p.__array_namespace__()
    assert x.__array_namespace__(api_version="2024.12") is td
    with pytest.raises(td.ArgumentError, match=r"no version '1999\.01'"):
        x.__array_namespace__(api_version="1999.01")
    assert (td.e, td.pi, td.newaxis) == (
        pytest.approx(2.718281828),
        3.141592653589793,
        None,
    )
    assert td.inf > 0 and td.nan != td.nan


def test_there_is_one_device() -> None:
    x, info = td.ones(2), td.__array_namespace_info__()
    assert x.device == info.default_device() and (x.device,) == info.devices()
    assert x.to_device(x.device) is x and td.zeros(2, device=x.device).shape == (2,)
    for call in (
        lambda: x.to_device("cuda"),
        lambda: td.zeros(2, device="cuda"),
        lambda: td.asarray(1.0, device="cuda"),
        lambda: td.astype(x, "float64", device="cuda"),
    ):
        with pytest.raises(td.ArgumentError, match="on the device 'cpu'"):
            call()


def test_the_namespace_tells_its_dtypes() -> None:
    info = td.__array_namespace_info__()
    assert len(info.dtypes()) == 13 and set(info.capabilities()) == {
        "boolean indexing",
        "data-dependent shapes",
        "max dimensions",
    }
    assert list(info.dtypes(kind="bool")) == ["bool"]
    assert list(info.dtypes(kind=("bool", "real floating"))) == [
        "bool",
        "float32",
        "float64",
    ]
    with td.options(dtype="float64"):
        kinds = info.default_dtypes()
    assert kinds["real floating"] == td.float64
    assert kinds["complex floating"] == td.complex128
    with pytest.raises(td.ArgumentError, match="no kind of dtypes"):
        info.dtypes(kind="real")
