"""The cyclic collector is held back in blocks and is afterwards as it was."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

import treadle as td
from treadle.base.collector import CollectorPaused
from treadle.engines.base import engine
from treadle.rewrite.pipeline import prepare


@pytest.fixture(autouse=True, params=[True, False], ids=["on", "off"])
def enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_blocks_in_one_another(enabled: bool) -> None:
    with CollectorPaused():
        with CollectorPaused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() == enabled


def test_after_an_error_it_is_as_it_was(enabled: bool) -> None:
    with pytest.raises(KeyboardInterrupt), CollectorPaused():
        raise KeyboardInterrupt
    assert gc.isenabled() == enabled


def test_a_block_that_never_ended_holds_nothing_back(enabled: bool) -> None:
    block = CollectorPaused()
    block.__enter__()
    del block  # an interrupt came before its end
    with CollectorPaused():
        assert not gc.isenabled()
    assert gc.isenabled() == enabled


def test_a_block_that_never_began_ends(
    enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    disable = gc.disable

    def interrupted() -> None:
        disable()
        raise KeyboardInterrupt  # as a signal that comes just then

    monkeypatch.setattr(gc, "disable", interrupted)
    with pytest.raises(KeyboardInterrupt), CollectorPaused():
        raise AssertionError("it does not begin")
    assert gc.isenabled() == enabled


def test_steps_of_threads_leave_the_collector_its_turns(enabled: bool) -> None:
    """A block that is to be alone holds nothing back beside another one."""
    begun, left, done = threading.Event(), threading.Event(), threading.Event()
    seen: list[bool] = []

    def other() -> None:
        with CollectorPaused(alone=True):
            begun.set()
            left.wait(10)
            seen.append(gc.isenabled())  # though this block goes on
        done.set()

    thread = threading.Thread(target=other)
    with CollectorPaused(alone=True):
        thread.start()
        assert begun.wait(10)
        assert not gc.isenabled()
    left.set()
    assert done.wait(10)
    thread.join()
    assert seen == [enabled]
    assert gc.isenabled() == enabled


def test_a_step_is_not_gone_through() -> None:
    """No collection begins in one: what it makes would be taken for old."""
    x = td.param("x", init=[2.0] * 4)
    optimizer = td.optim.Adam(lr=0.1)
    found: list[str] = []

    def inside(phase: str, info: dict[str, int]) -> None:
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            found.append(frame.f_code.co_name)

    before = gc.get_threshold()
    gc.callbacks.append(inside)
    gc.set_threshold(1)
    try:
        for _ in range(3):
            optimizer.step((x * x).sum())
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(inside)
    assert "_step_anew" not in found


def test_blocks_of_threads_overlap(enabled: bool) -> None:
    begun, done = threading.Event(), threading.Event()

    def other() -> None:
        with CollectorPaused():
            begun.set()
            done.wait(10)

    thread = threading.Thread(target=other)
    with CollectorPaused():
        thread.start()
        assert begun.wait(10)
    assert not gc.isenabled()  # the other block goes on
    done.set()
    thread.join()
    assert gc.isenabled() == enabled


def test_compiling_holds_it_back(
    enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(*given: object, **more: object) -> object:
        seen.append(gc.isenabled())
        return prepare(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr("treadle.engines.native.translation.translate.prepare", watched)
    x = td.constant([1.0, 2.0])
    engine("native").clear_cache()
    assert (x * 3.0 + 1.0).tolist() == [4.0, 7.0]
    assert seen == [False]
    assert gc.isenabled() == enabled
