"""Bodies for n rows, compiled: programs whose arguments and results lie anywhere."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.engines.native.forest.fit import fitted
from treadle.engines.native.linked import Linked
from treadle.engines.native.translate import translated
from treadle.graph.body import Body
from treadle.graph.frame import TraceFrame, pushed
from treadle.program.program import Program

__all__ = ["Compiled", "compiled"]

KEPT = 1024  # row counts of a body
BODIES = 512
NARROW = 3  # so many row counts are not worth a law


Source = int | np.ndarray[Any, Any]  # an argument of a body, or an array within it


class Compiled:
    """A body as steps: where its table takes addresses from.

    `arguments` are the buffers of the body's arguments, -1 for one that is not read;
    `results` those of its outputs; `copied` the outputs that lie where an argument,
    a constant or an output before lies, and are copied from there.
    """

    def __init__(
        self, linked: Linked, order: Sequence[Source], outputs: Sequence[int]
    ) -> None:
        """`order` has the body's argument of each of the program's, `outputs` the
        program's result of each of the body's outputs.
        """
        self.linked = linked
        program = linked.program
        self.possible = not program.fallbacks
        if not self.possible:
            return
        linked.link()
        known = [k for k in order if isinstance(k, int)]
        self.arguments = np.full(max(known, default=-1) + 1, -1, np.int64)
        self.arrays: list[tuple[int, np.ndarray[Any, Any]]] = []
        for k, number in zip(order, program.arguments, strict=True):
            if isinstance(k, int):
                self.arguments[k] = number
            else:
                self.arrays.append((number, k))
        where = [n for _, n, _ in program.results]
        self.results = np.array([where[k] for k in outputs], np.int64)
        places = [program.buffers[n].place for n in self.results.tolist()]
        seen: set[int] = set()
        self.copied: list[int] = []
        for k, (n, place) in enumerate(zip(self.results.tolist(), places, strict=True)):
            if place != "result" or n in seen:
                self.copied.append(k)
            seen.add(n)
        self.scratch = linked.scratch
        self.arena = linked.plan.size
        self.offsets = linked.plan.table[linked.places] if len(linked.places) else None


@dataclass(frozen=True)
class _Translated:
    """A body for some number of rows as a program, and how they belong together."""

    linked: Linked
    order: tuple[Source, ...]
    outputs: tuple[int, ...]


def _translate(body: Body) -> _Translated:
    arguments = {x.serial: k for k, x in enumerate(body.arguments)}
    keep = dict.fromkeys(y.serial for y in body.outputs)  # in this order
    linked, graph = translated(body.nodes, arguments, keep.keys())
    # Arrays within the body, such as the numbers of its rows, are no arguments.
    order = tuple(
        arguments[x.serial] if x.serial in arguments else np.ascontiguousarray(x.array)
        for x in graph.leaves
    )
    where = {serial: k for k, (serial, _, _) in enumerate(linked.program.results)}
    return _Translated(linked, order, tuple(where[y.serial] for y in body.outputs))


Law = tuple[Callable[[int], Program], _Translated]


class Rows:
    """A body for any number of rows: for most of them no more than a plan is made."""

    def __init__(self, make: Callable[[int], Body]) -> None:
        self.make = make
        # By the least and the most rows there is a law for; from powers of 2 on.
        self.laws: dict[tuple[int, int], Law | None] = {}
        self.samples: dict[int, _Translated] = {}
        self.known: OrderedDict[int, Compiled] = OrderedDict()
        self.lock = threading.RLock()

    def at(self, n: int) -> Compiled:
        """The steps for n rows."""
        found = self.known.get(n)
        if found is None:
            with self.lock, pushed(TraceFrame("rows")):
                found = self.known[n] = self._made(n)
                if len(self.known) > KEPT:
                    self.known.popitem(last=False)
        return found

    def _made(self, n: int) -> Compiled:
        low = 1 << (n.bit_length() - 1)
        high = 2 * low - 1
        while high - low >= NARROW:
            if (low, high) not in self.laws:
                self.laws[low, high] = self._law(low, high)
            law = self.laws[low, high]
            if law is not None:
                program, like = law
                return Compiled(Linked(program(n)), like.order, like.outputs)
            middle = (low + high) // 2
            low, high = (low, middle) if n <= middle else (middle + 1, high)
        own = self._translated(n)
        return Compiled(own.linked, own.order, own.outputs)

    def _translated(self, n: int) -> _Translated:
        found = self.samples.get(n)
        if found is None:
            found = self.samples[n] = _translate(self.make(n))
        return found

    def _law(self, low: int, high: int) -> Law | None:
        made = {n: self._translated(n) for n in (low, (low + high) // 2, high)}
        first, *others = made.values()
        if not all(isinstance(k, int) for x in made.values() for k in x.order):
            return None
        if any(x.order != first.order or x.outputs != first.outputs for x in others):
            return None
        program = fitted({n: x.linked.program for n, x in made.items()})
        return None if program is None else (program, first)


_lock = threading.Lock()
_known: OrderedDict[Any, Rows] = OrderedDict()


def compiled(key: Any, make: Callable[[int], Body]) -> Rows:
    """The body of a key by rows; `make` has it for a number of them."""
    with _lock:
        found = _known.get(key)
        if found is None:
            found = _known[key] = Rows(make)
            if len(_known) > BODIES:
                _known.popitem(last=False)
        else:
            _known.move_to_end(key)
    return found
