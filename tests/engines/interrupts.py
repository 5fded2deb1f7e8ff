"""`python -m tests.engines.interrupts`: Ctrl-C at any line of the engine.

At the first visit of a line and at the last. The suite takes both while graphs run,
and while they are compiled one of them, by turns, of every fourth line.
"""

from __future__ import annotations

import gc
import linecache
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

import treadle as td
from treadle.base import locks
from treadle.engines.native import engine
from treadle.engines.native.codegen import cache, compiler, jit
from treadle.engines.native.execution import (
    arena,
    blocks,
    kept,
    linked,
    pool,
    run,
    tables,
)
from treadle.engines.native.system import block
from treadle.engines.native.translation import families, programs, residuals, symbolic
from treadle.graph import carried, claim, frame
from treadle.runtime import function

Line = tuple[str, int]
MODULES: list[Any] = [
    [blocks, block, arena, tables, kept],
    [pool, run, linked, residuals, engine],
    [programs, jit, cache, compiler, symbolic, families],
    [claim, carried, function, frame],
]


class Noting:
    """Notes how often each line of some modules is visited, and by which functions."""

    def __init__(self, modules: list[Any]) -> None:
        self.files = {m.__file__ for m in modules}
        self.seen: dict[Line, int] = {}
        self.functions: dict[Line, set[str]] = {}

    def __call__(self, frame: Any, kind: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_filename not in self.files or code.co_name == "<module>":
            return None
        if kind == "line":
            line = code.co_filename, frame.f_lineno
            self.seen[line] = self.seen.get(line, 0) + 1
            self.functions.setdefault(line, set()).add(code.co_name)
        return self

    def lines(self, every: bool) -> list[tuple[Line, int, set[str]]]:
        """Each line, its first and its last visit, and its functions; or of every
        fourth line one of the two.

        As a signal, an interrupt does not come between a block and the exit of its
        `with`.
        """
        found = []
        for k, (line, visits) in enumerate(self.seen.items()):
            if not linecache.getline(*line).lstrip().startswith("with "):
                some = () if k % 4 else ((1, visits)[k // 4 % 2],)
                chosen = {1, visits} if every else some
                found += [(line, visit, self.functions[line]) for visit in chosen]
        return found


class Interrupting:
    """Raises KeyboardInterrupt at one visit of a line; other functions are not looked
    at, which costs most."""

    def __init__(self, line: Line, visit: int, functions: set[str]) -> None:
        self.file, self.number = line
        self.functions, self.left = functions, visit

    def __call__(self, frame: Any, kind: str, argument: Any) -> Any:
        code = frame.f_code
        if code.co_name in self.functions and code.co_filename == self.file:
            return self.line
        return None

    def line(self, frame: Any, kind: str, argument: Any) -> Any:
        if kind == "line" and frame.f_lineno == self.number:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
        return self.line


def under(trace: Any, call: Callable[[], object]) -> None:
    """Run something until it ends or is interrupted."""
    before = sys.gettrace()
    try:
        sys.settrace(trace)
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
        return self.compiled()

    def compiled(self) -> list[float]:
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


def check(what: str, number: int, every: bool) -> None:
    """An interrupt at lines of some modules leaves the session whole."""
    session, modules = Session(), MODULES[number]
    call = getattr(session, what)
    # What an interrupt left in the caches has to be right too: they are not cleared.
    after = session.compiled if what == "compile" else call
    call()
    right = call()
    noted = Noting(modules)
    under(noted, call)
    gc.collect()
    live = blocks.live_bytes()
    for line, visit, functions in noted.lines(every):
        under(Interrupting(line, visit, functions), call)
        assert not any(map(locks.is_mine, locks.locks())), (line, visit)
        assert after() == right, (line, visit)
    assert call() == right
    check_locks()
    gc.collect()
    assert blocks.live_bytes() <= live + (1 << 20)
    assert not pool._queued and not pool._late


def main() -> None:
    for what in ("use", "compile"):
        for number in range(len(MODULES)):
            check(what, number, every=True)
            print(f"{what} {number}: every line held", flush=True)


if __name__ == "__main__":
    main()
