"""Runs written down, and run again: the same inputs and draws give the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, RunError
from treadle.base.options import Options, current, options
from treadle.base.types import TupleType
from treadle.graph.leaves import Leaf, constant_node
from treadle.graph.tensor import Tensor, copied, noted
from treadle.graph.traversal import opened, pending
from treadle.graph.variable import Update
from treadle.runtime.evaluate import run
from treadle.runtime.recorder import observers

__all__ = ["RecordedRun", "Recording", "record"]


class RecordedRun:
    """One run: its graph, copies of all it started from, its options and results.

    `seed` and `draws` are those of the seed scope when it ran; the draws themselves are
    data of the graph.
    """

    def __init__(self, roots: Sequence[Tensor]) -> None:
        nodes = pending(roots)
        derived = opened(nodes)
        copies: dict[int, Tensor] = {}
        for node in nodes:
            copies[node.serial] = _copy(node, copies, node.serial in derived)
        asked = [x for x in roots if not isinstance(x.type, TupleType)]
        self.outputs = tuple(copies[x.serial] for x in asked)
        self.names = tuple(_name(x) for x in asked)
        self.results: tuple[np.ndarray[Any, Any], ...] = ()
        self.options: Options = current()
        self.seed, self.draws = self.options.scope.seed, self.options.scope.count
        self._roots: list[Tensor] = asked

    def done(self) -> None:
        """Take copies of the results; what comes after may overwrite them."""
        self.results = tuple(np.array(x.array) for x in self._roots)
        self._roots = []

    def replay(self, **settings: Any) -> tuple[np.ndarray[Any, Any], ...]:
        """The results once more, under the options of then but for `settings`.

        No Variable changes. Under the same options they are the same to the bit.
        """
        known = {
            f.name: getattr(self.options, f.name)
            for f in fields(Options)
            if f.name not in ("scope", "seed", "eager")
        }
        fresh: dict[int, Tensor] = {}
        for node in _in_order(self.outputs):
            fresh[node.serial] = _again(node, fresh)
        roots = [fresh[y.serial] for y in self.outputs]
        with options(**{**known, **settings}):
            run(roots)
        return tuple(np.array(y.array) for y in roots)


def _name(node: Tensor) -> str:
    if isinstance(node.op, Update):
        return f"variable {node.op.variable.name!r}"
    return node.name


def _copy(node: Tensor, copies: dict[int, Tensor], open_too: bool) -> Tensor:
    """A node that nothing changes any more, on such nodes."""
    if isinstance(node.op, Update) and node.stored is None:
        return copies[node.inputs[1].serial]  # its value; nothing is to be assigned
    if node.stored is None and (node.inputs or not isinstance(node.op, Leaf)):
        return copied(node, tuple(copies[x.serial] for x in node.inputs))
    if node.stored is None:
        return node  # of a trace, or not bound: the run itself tells
    value = np.array(node.array)
    value.flags.writeable = False
    if open_too:
        inputs = tuple(copies[x.serial] for x in node.inputs)
        return noted(Tensor(node.op, inputs, node.type, value), node)
    return noted(constant_node(value), node)


def _in_order(outputs: Sequence[Tensor]) -> list[Tensor]:
    return pending([*outputs, *[y for y in outputs if y.stored is not None]])


def _again(node: Tensor, copies: dict[int, Tensor]) -> Tensor:
    """A node to be run once, on such nodes: what is recorded stays as it is."""
    if node.stored is not None:
        return node
    return copied(node, tuple(copies.get(x.serial, x) for x in node.inputs))


class Recording:
    """The runs of this thread within `with td.record() as log`: `log.runs`."""

    def __init__(self) -> None:
        self.runs: list[RecordedRun] = []

    def _observe(self, roots: Sequence[Tensor]) -> Callable[[], None]:
        one = RecordedRun(roots)

        def done() -> None:
            one.done()
            self.runs.append(one)

        return done

    def replay(self, **settings: Any) -> int:
        """Run all again and compare, bit for bit; how many runs there were.

        `settings` are options that are to be others than they were. Raises RunError for
        the first result that is not the same.
        """
        if not self.runs:
            raise ArgumentError(
                "nothing was recorded", hint="ask for values within td.record()"
            )
        for number, one in enumerate(self.runs):
            results = one.replay(**settings)
            for name, old, new in zip(one.names, one.results, results, strict=True):
                if old.tobytes() != new.tobytes():
                    raise _differs(number, name, old, new)
        return len(self.runs)

    def __repr__(self) -> str:
        return f"<recording of {len(self.runs)} runs>"


def _differs(number: int, name: str, old: Any, new: Any) -> RunError:
    wide = [x.astype(np.complex128).reshape(-1) for x in (old, new)]
    with np.errstate(all="ignore"):
        far = np.abs(wide[0] - wide[1])
    (places,) = np.nonzero(old.reshape(-1) != new.reshape(-1))
    most = float(np.nanmax(far[places], initial=0.0)) if len(places) else 0.0
    error = RunError(
        f"run {number} is not what it was: {name}, {len(places)} of {old.size} "
        f"elements, by at most {most:.3g}",
        hint="another engine may differ in last bits: compare run.replay(engine=...) "
        "with run.results by a tolerance",
    )
    return error.located("replay")


@contextmanager
def record() -> Iterator[Recording]:
    """Write down the runs of this thread within, to run them again.

    Each keeps copies of all it starts from, so the Variables may go on meanwhile.
    `log.replay()` runs them again and compares each bit; `log.runs[k].replay(engine=
    "reference")` gives the results of another engine, to compare by a tolerance.

    >>> w = td.param("w", init=1.0)
    >>> with td.record() as log:
    ...     _ = td.optim.SGD(lr=0.5).step((w + td.random.normal((3,))).sum() ** 2)
    >>> log.replay(), log.replay(threads=1)
    (1, 1)
    """
    log = Recording()
    observers().append(log._observe)
    try:
        yield log
    finally:
        observers().remove(log._observe)
