"""Ctrl-C at any line of the memory, the pool, the caches and the queue."""

from __future__ import annotations

import weakref
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.engines import interrupts
from treadle.base.caches import Cache
from treadle.engines.native.execution import tables


@pytest.mark.parametrize("number", range(len(interrupts.MODULES)))
@pytest.mark.parametrize("what", ["use", "compile"])
def test_an_interrupt_at_any_line_leaves_the_session_whole(
    what: str, number: int
) -> None:
    interrupts.check(what, number, every=what == "use")


def test_no_python_code_runs_where_something_dies() -> None:
    """An interrupt in it would be printed, and lost. Plans are not in this: what they
    are dropped from are two things."""
    cache: Cache[int, int] = Cache("a cache of this test", 1)
    p = td.param("p", init=np.ones(3, np.float32))
    (p * p).sum().backward()
    (g,) = td.grad((p * p * p).sum(), [p])
    for watched in (cache, p, g.inputs[0]):
        calls = [ref.__callback__ for ref in weakref.getweakrefs(watched)]
        python = [call for call in calls if isinstance(call, FunctionType)]
        assert {call.__qualname__.partition(".")[0] for call in python} <= {"Called"}
        assert any(calls)


@pytest.mark.usefixtures("part_by_part")
@pytest.mark.parametrize("late", [False, True])
def test_arrays_whose_addresses_were_not_filled_in(
    late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that is interrupted does not take its arrays for those of the next one."""
    one, two = (td.constant(np.arange(5.0) + k) for k in (0, 10))
    find = tables.addresses_of

    def interrupted(arrays: Any) -> Any:
        if late:
            find(arrays)
        raise KeyboardInterrupt

    (one * 2.0 + 1.0).numpy()
    with monkeypatch.context() as patch:
        patch.setattr(tables, "addresses_of", interrupted)
        with pytest.raises(KeyboardInterrupt):
            (two * 2.0 + 1.0).numpy()
    np.testing.assert_array_equal((two * 2.0 + 1.0).numpy(), 2 * np.arange(5.0) + 21)
    np.testing.assert_array_equal((one * 2.0 + 1.0).numpy(), 2 * np.arange(5.0) + 1)
