"""Ctrl-C at any line of the memory, the pool, the caches and the queue."""

from __future__ import annotations

import weakref
from types import FunctionType

import numpy as np
import pytest

import treadle as td
from tests.engines import interrupts
from treadle.base.caches import Cache


@pytest.mark.parametrize("number", range(len(interrupts.MODULES)))
@pytest.mark.parametrize("what", ["use", "compile"])
def test_an_interrupt_at_any_line_leaves_the_session_whole(
    what: str, number: int
) -> None:
    interrupts.check(what, number, both=what == "use")


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
