"""Every name of torch that people write works here, or says what stands for it."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.base.names_of_torch import NAMES, PLACES
from treadle.base.torch import answers, missing

OBJECTS: dict[str, Any] = {
    "treadle": td,
    "treadle.data": td.data,
    "treadle.nn": td.nn,
    "treadle.nn.functional": td.nn.functional,
    "treadle.optim": td.optim,
    "treadle.optim.schedules": td.optim.schedules,
    "Module": td.nn.Linear(2, 2),
    "Optimizer": td.optim.Adam(),
    "Tensor": td.ones((2, 2)),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_name_works_or_tells_the_name_here(place: str) -> None:
    for name in PLACES[place].split():
        try:
            getattr(OBJECTS[place], name)
        except AttributeError as error:
            told = str(error)
            assert f".{name} " in told, name
            assert told.endswith(" here") or "the nearest is" in told, told


def test_there_are_enough_names() -> None:
    assert len(NAMES) == len(set(NAMES)) >= 1000


@pytest.mark.parametrize("place", OBJECTS)
def test_what_an_answer_names_is_there(place: str) -> None:
    beginnings = {"td": td, "x": td.ones(2), "opt": td.optim.Adam()}
    beginnings |= {"net": td.nn.Linear(2, 2), "v": td.Variable([1.0])}
    for here in answers(place).values():
        for path in re.findall(r"\b(?:td|x|v|net|opt)(?:\.[A-Za-z_]\w*)+", here):
            first, *rest = path.split(".")
            functools.reduce(getattr, rest, beginnings[first])


def test_other_names_are_not_there_as_python_says_it() -> None:
    with pytest.raises(AttributeError, match="module 'treadle' has no attribute 'foo'"):
        td.foo  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'foo'"):
        td.ones(2).foo  # type: ignore[attr-defined]  # noqa: B018
    assert str(missing("treadle.nn", "foo")).startswith("module 'treadle.nn'")


def test_what_is_elsewhere_is_not_listed() -> None:
    x, net = td.ones(2), td.nn.Linear(2, 2)
    assert not hasattr(x, "cuda") and "cuda" not in dir(x) and "exp" in dir(x)
    assert not hasattr(net, "half") and "half" not in dir(net) and "weight" in dir(net)
    net.to = 1  # type: ignore[attr-defined]
    assert vars(net)["to"] == 1 == net.to  # type: ignore[attr-defined]


# -- arguments ---------------------------------------------------------------------

TWO = np.arange(6.0, dtype=np.float32).reshape(2, 3)
CALLS: dict[str, tuple[Any, Any]] = {
    "sum": (lambda x: x.sum(dim=1, keepdim=True), TWO.sum(1, keepdims=True)),
    "mean": (lambda x: x.mean(dim=(0, 1)), TWO.mean()),
    "amax": (lambda x: x.amax(dim=1, keepdim=True), TWO.max(1, keepdims=True)),
    "argmax": (lambda x: x.argmax(dim=1), TWO.argmax(1)),
    "any": (lambda x: x.any(dim=1), TWO.any(1)),
    "std": (lambda x: x.std(dim=0, correction=1), TWO.std(0, ddof=1)),
    "cumsum": (lambda x: x.cumsum(dim=1), TWO.cumsum(1)),
    "unsqueeze": (lambda x: x.unsqueeze(dim=1), TWO[:, None]),
    "squeeze": (lambda x: x.unsqueeze(dim=0).squeeze(dim=0), TWO),
    "td.sum": (lambda x: td.sum(x, dim=1), TWO.sum(1)),
    "td.std": (lambda x: td.std(x, dim=0, correction=1), TWO.std(0, ddof=1)),
    "td.concat": (lambda x: td.concat([x, x], dim=1), np.concatenate([TWO, TWO], 1)),
    "td.stack": (lambda x: td.stack([x, x], dim=1), np.stack([TWO, TWO], 1)),
    "td.flip": (lambda x: td.flip(x, dims=(0, 1)), TWO[::-1, ::-1]),
    "td.roll": (lambda x: td.roll(x, 1, dims=1), np.roll(TWO, 1, 1)),
    "td.logsumexp": (
        lambda x: td.logsumexp(x, dim=1, keepdim=True),
        np.log(np.exp(TWO).sum(1, keepdims=True)),
    ),
    "td.permute_dims": (lambda x: td.permute_dims(x, dims=(1, 0)), TWO.T),
    "td.expand_dims": (lambda x: td.expand_dims(x, dim=0), TWO[None]),
    "linalg": (
        lambda x: td.linalg.vector_norm(x, dim=1, keepdim=True),
        np.linalg.norm(TWO, axis=1, keepdims=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_dim_is_axis_and_keepdim_is_keepdims(name: str) -> None:
    call, expected = CALLS[name]
    for x in (td.asarray(TWO), td.Variable(TWO)):
        for _ in range(3):  # the third one follows a plan, where there is the core
            np.testing.assert_allclose(call(x).numpy(), expected, rtol=1e-6)


def test_dim_in_a_layer_and_in_functional() -> None:
    x = td.asarray(TWO)
    functional = td.nn.functional.softmax(x, dim=0)  # type: ignore[call-arg]
    assert td.alike(functional, td.softmax(x, 0))
    assert td.alike(td.nn.Softmax(dim=0)(x), td.softmax(x, 0))


def test_where_torch_means_something_else_it_is_said() -> None:
    x: Any = td.asarray(TWO)
    calls: list[tuple[Any, str]] = [
        (lambda: x.max(dim=1), "values and their places.*td.argmax"),
        (lambda: x.min(dim=1), "values and their places.*td.argmin"),
        (lambda: x.var(dim=1), "correction=1"),
        (lambda: td.std(x, dim=1), "correction=1"),
        (lambda: td.sort(x, dim=1), "values and their places.*td.argsort"),
        (lambda: td.median(x, dim=1), "mean of two middle"),
    ]
    for call, hint in calls:
        with pytest.raises(td.CallError, match=rf"(?s)means something else.*{hint}"):
            call()


def test_other_arguments_are_what_python_says() -> None:
    x: Any = td.asarray(TWO)
    for call in (
        lambda: x.sum(dmi=1),
        lambda: td.sum(x, dim=1, axis=1),
        lambda: td.exp(x, dim=1),
    ):
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            call()
