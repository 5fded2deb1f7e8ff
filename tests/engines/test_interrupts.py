"""Ctrl-C at any line of the memory, the pool, the caches and the queue."""

from __future__ import annotations

import gc
import linecache
import sys
import threading
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base import locks
from treadle.base.caches import Cache
from treadle.engines.native import (
    arena,
    block,
    blocks,
    cache,
    compiler,
    engine,
    families,
    jit,
    kept,
    linked,
    pool,
    programs,
    residuals,
    run,
    tables,
)
from treadle.graph import carried, claim, frame
from treadle.runtime import function

Line = tuple[str, int]
MODULES: list[Any] = [
    [blocks, block, arena, tables, kept],
    [pool, run, linked, residuals, engine],
    [programs, jit, cache, compiler, families],
    [claim, carried, function, frame],
]


class Interrupting:
    """Raises KeyboardInterrupt at one visit of a line of some modules, or notes them.

    As a signal it does not come between a block and the exit of its `with`.
    """

    def __init__(self, modules: list[Any], at: Line | None = None, visit: int = 1):
        self.files = {m.__file__ for m in modules}
        self.at, self.visit = at, visit
        self.seen: dict[Line, int] = {}
        self.raised = False

    def __call__(self, frame: Any, kind: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self.files or code.co_name == "<module>":
            return None
        if kind == "line":
            line = code.co_filename, frame.f_lineno
            self.seen[line] = self.seen.get(line, 0) + 1
            if line == self.at and self.seen[line] == self.visit and not self.raised:
                text = linecache.getline(*line).lstrip()
                if not text.startswith("with "):
                    self.raised = True
                    raise KeyboardInterrupt
        return self

    def around(self, call: Callable[[], object]) -> None:
        """Run something until it ends or is interrupted."""
        before = sys.gettrace()
        try:
            sys.settrace(self)
            call()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)


class Session:
    """A training loop, and values of graphs that were and were not compiled before."""

    def __init__(self) -> None:
        self.p = td.param("p", init=np.linspace(-1, 1, 3000, dtype=np.float32))
        self.x = td.asarray(np.linspace(0, 1, 70_000, dtype=np.float32))
        self.opt = td.optim.SGD(lr=0.0)
        self.fresh = 1
        self.cell = td.function(lambda x: td.cond(x[0] > 0, lambda: x * 2, lambda: x))
        self.count = td.Variable(0.0)

    def use(self) -> list[float]:
        y = td.tanh(self.x) * td.exp(-self.x)
        values = [float(td.sum(y)), float(y.numpy()[5])]
        loss = td.sum(self.p * self.p)
        self.opt.step(loss)
        self.opt.step(td.sum(td.sin(self.p)))
        self.count.assign(0.0)
        self.count.assign(self.count + 1.0)
        values += [float(loss), float(self.p.numpy()[7]), float(self.count)]
        return values

    def compile(self) -> list[float]:
        td.clear_cache()
        x = td.asarray(np.ones(3, np.float32))
        values = [float((x * 2.0 + 1.0).numpy()[0]), float(td.sum(td.cos(x)).numpy())]
        values.append(float(self.cell(td.ones(self.fresh))[0]))
        self.fresh += 1  # after an interrupt the same is traced
        return values


def check_locks() -> None:
    """Another thread can take every lock."""
    taken: list[Any] = []

    def take() -> None:
        for one in locks.locks():
            if one.acquire(timeout=5):
                taken.append(one)
                one.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert len(taken) == len(locks.locks())


@pytest.mark.parametrize("what", ["use", "compile"])
@pytest.mark.parametrize("number", range(len(MODULES)))
def test_an_interrupt_at_any_line_leaves_the_session_whole(
    what: str, number: int
) -> None:
    session, modules = Session(), MODULES[number]
    call = getattr(session, what)
    call()
    right = call()
    noted = Interrupting(modules)
    noted.around(call)
    gc.collect()
    live = blocks.live_bytes()
    for line, visits in noted.seen.items():
        for visit in {1, visits}:
            trial = Interrupting(modules, line, visit)
            trial.around(call)
            assert not any(map(locks.is_mine, locks.locks())), (line, visit)
            assert call() == right, (line, visit)
    assert call() == right
    check_locks()
    gc.collect()
    assert blocks.live_bytes() <= live + (1 << 20)
    assert not pool._queued and not pool._late


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
