"""Shape polymorphism: programs compiled once with symbolic extents.

Graphs that differ in extents alone are a family. The first of them is compiled as it
is. At the second, extents that moved become symbols (those that always were equal, one
symbol), and the program is compiled for all sizes that its guards admit; a size that
none of the family's programs admits is compiled so as well, with what moved until then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from treadle.base.locks import lock
from treadle.base.symbolic import guards_of
from treadle.base.symbolic.variants import Extents, Variants, alike, opened
from treadle.engines.lowered import Served
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.translation.stored import Stored
from treadle.engines.native.translation.symbolic import SymbolicProgram
from treadle.graph.extents import Open
from treadle.graph.instantiate import Unsized

SEEN = 8  # extents of a family that are remembered
VARIANTS = 24
MANY = 6  # programs of a family, and speed alone is worth no other one
STEPS = 1 << 14  # of all programs kept

Entry = tuple[Linked, list[int]]


class Translated(NamedTuple):
    """A graph as a program, linked or to be, and places in the graph."""

    program: Any
    leaves: list[int]
    again: list[int]  # of what an earlier program could have kept
    inside: tuple[tuple[int, int, int], ...]  # what of that is inside of calls


class _Variant:
    """A program of a family, for extents that move as some have moved."""

    def __init__(
        self,
        seen: Sequence[Extents],
        make: Callable[..., Translated | None],
        lanes: int,
        stored: Stored,
        family: _Family,
    ) -> None:
        """Compiled for the last extents seen; may raise Unsized."""
        self.family = family
        places, like = alike(seen)

        def compiled() -> tuple[SymbolicProgram, list[int], list[int]]:
            trace, inputs = opened(seen[-1], places, like)
            try:
                translation = make(inputs)
                if translation is None:
                    raise Unsized
                program, leaves, again, inside = translation
                sized = SymbolicProgram(trace, inputs, program, inside, lanes)
                return sized, again, leaves
            finally:
                trace.open = False

        how = places, like, lanes
        self.sized, self.again, self.leaves = stored(how, compiled)
        self.trace = self.sized.trace

    def at(self, extents: Extents, loosely: bool = False) -> Entry | None:
        """The program for some extents, if it is one for them; `loosely`: with the same
        results, though another one might be faster.
        """
        table = self.sized.loosely if loosely else self.sized.values
        values = table(extents)
        if values is None:
            return None
        linked, inside = self.sized.linked(values)
        linked.again, linked.inside = list(self.again), inside
        linked.variant, linked.extents = self, extents
        return linked, list(self.leaves)


class _Family:
    """The extents that graphs of one form had, and programs for more of them."""

    def __init__(self) -> None:
        self.seen: list[Extents] = []
        self.variants: Variants[_Variant] = Variants(VARIANTS)

    @property
    def steps(self) -> int:
        """The number of steps of all its programs."""
        return sum(v.sized.steps for v in self.variants.all)

    def program(self, extents: Extents) -> Entry | None:
        """The program of the first variant that admits some extents, loosely where
        there are many.
        """
        entry = self.variants.find(lambda v: v.at(extents))
        if entry is None and len(self.variants.all) >= MANY:
            entry = self.variants.find(lambda v: v.at(extents, loosely=True))
        return entry

    def traced(
        self,
        extents: Extents,
        make: Callable[..., Translated | None],
        lanes: int,
        stored: Stored,
    ) -> Entry | None:
        """A program for some extents that may serve others too, if there can be one."""
        seen = [x for x in self.seen if x != extents]
        self.seen = [*seen, extents][-SEEN:]
        if not seen:
            return None
        variant = partial(_Variant, self.seen, make, lanes, stored, self)
        return self.variants.add(variant, lambda v: v.at(extents))


class Families:
    """Programs for many sizes, by what their graphs are without extents."""

    def __init__(self) -> None:
        self._table: OrderedDict[Any, _Family] = OrderedDict()
        self._steps = 0
        self._lock = lock()

    def program(
        self,
        graph: Open,
        make: Callable[..., Translated | None],
        lanes: int,
        stored: Stored,
    ) -> Entry | None:
        """The program of a graph, to be linked, if it is of one for many sizes.

        `graph` is what `family` tells of it; `make` compiles it for symbolic extents,
        where no earlier process has `stored` what came of that.
        """
        key, extents = graph
        if not extents:
            return None
        with self._lock:
            family = self._table.setdefault(key, _Family())
            self._table.move_to_end(key)
        entry = family.program(extents)
        if entry is not None:
            return entry
        before = family.steps
        entry = family.traced(extents, make, lanes, stored)
        with self._lock:
            if self._table.get(key) is family:  # nobody has let go of it meanwhile
                self._steps += family.steps - before
            while self._steps > STEPS and len(self._table) > 1:
                _, gone = self._table.popitem(last=False)
                self._steps -= gone.steps
        return entry

    def served(self, graph: Open) -> Served | None:
        """The note on the programs for graphs like one, if there were any."""
        with self._lock:
            family = self._table.get(graph[0])
        if family is None:
            return None
        variants = family.variants
        serving = (v for v in variants.all if v.sized.values(graph[1]) is not None)
        one = next(serving, None)
        guards = guards_of(one.trace) if one is not None else ()
        failed = [f"{type(e).__name__}: {e}" for e in variants.failed]
        return Served(len(variants.all), tuple(guards), tuple(failed))

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._table.clear()
            self._steps = 0
