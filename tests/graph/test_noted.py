"""What is called with notes of its own, by the core as by Python."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import treadle as td
from treadle.graph import noted
from treadle.graph.thread import thread_state


@pytest.fixture(params=["core", "Python"], autouse=True)
def way(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    own: Any = noted.Noted.__dict__["__call__"]
    if request.param == "Python":
        monkeypatch.setattr(noted.Noted, "__call__", getattr(own, "__wrapped__", own))
    yield


class Scale(td.nn.Module):
    def __init__(self, part: td.nn.Module | None = None) -> None:
        self.factor = td.param(init=2.0)
        self.part = part

    def forward(self, x: Any, twice: bool = False, *, fails: bool = False) -> Any:
        if fails:
            raise ValueError("as asked")
        y = x * self.factor * (self.factor if twice else 1.0)
        return y if self.part is None else self.part(y)


def module_of(x: td.Tensor) -> Any:
    return x.metadata.get("module")


def test_arguments_results_and_notes() -> None:
    inner, x = Scale(), td.constant(3.0)
    outer = Scale(inner)
    for _ in range(3):
        assert float(outer(x)) == 12.0 and module_of(outer(x)) == "part"
        assert float(outer(x, True)) == float(outer(x, twice=True)) == 24.0
        assert float(outer(x=x)) == 12.0
        assert module_of(inner(x)) == "part" and module_of(x * 2.0) is None
        with td.metadata(layer=7):
            y = inner(x)
        assert y.metadata["layer"] == 7 and module_of(y) == "part"
        assert thread_state().notes is None


def test_an_error_leaves_the_notes_of_before() -> None:
    layer, x = Scale(), td.constant(1.0)
    for _ in range(3):
        layer(x)
        with pytest.raises(ValueError, match="as asked"):
            layer(x, fails=True)
        with pytest.raises(TypeError):
            layer(x, True, x, x)
        with pytest.raises(TypeError):
            td.nn.Module.__call__()
        with td.metadata(a=1), pytest.raises(ValueError):
            layer(x, fails=True)
        assert thread_state().notes is None
    with pytest.raises(NotImplementedError, match="forward"):
        td.nn.Module()(x)


def test_what_names_a_module_may_change() -> None:
    inner, x = Scale(), td.constant(1.0)
    assert [module_of(inner(x)) for _ in range(2)] == ["Scale"] * 2
    outer = Scale(inner)
    assert [module_of(inner(x)) for _ in range(2)] == ["part"] * 2
    other = copy.deepcopy(outer)
    assert [module_of(other.part(x)) for _ in range(2)] == ["part"] * 2  # type: ignore[misc]

    class Doubled(Scale):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs) * 2.0

    assert [float(Doubled()(x)) for _ in range(2)] == [4.0] * 2


def test_whatever_notes_it_has_it_can_be_called() -> None:
    layer, x = Scale(), td.constant(3.0)
    for strange in ((None, "", None), (None,) * 3):
        layer.__dict__["_notes"] = strange
        assert float(layer(x)) == 6.0
    del layer.__dict__["_notes"]
    with pytest.raises(AttributeError, match="_notes"):
        layer(x)
    assert thread_state().notes is None


def test_no_reference_is_kept_or_lost() -> None:
    layer, x = Scale(), td.constant(1.0)
    layer(x)
    things = [layer, x, layer._notes, layer._notes[2], layer._path, None]
    before = list(map(sys.getrefcount, things))
    for _ in range(1000):
        layer(x)
        with pytest.raises(ValueError):
            layer(x, fails=True)
    after = list(map(sys.getrefcount, things))
    assert max(abs(b - a) for a, b in zip(before, after, strict=True)) < 500


def test_threads_have_notes_of_their_own() -> None:
    layer, x, wrong = Scale(), td.constant(1.0), []

    def work(number: int) -> None:
        for _ in range(300):
            with td.metadata(number=number):
                y = layer(x)
            if y.metadata["number"] != number or module_of(y) != "Scale":
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
