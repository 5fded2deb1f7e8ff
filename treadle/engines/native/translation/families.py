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
        sized: SymbolicProgram,
        again: list[int],
        leaves: list[int],
        seen: Sequence[Extents],
        family: _Family,
    ) -> None:
        """It was compiled for the last extents that had been `seen`."""
        self.sized, self.again, self.leaves = sized, again, leaves
        self.seen, self.trace, self.family = seen, sized.trace, family

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


class Making(NamedTuple):
    """The ways to a program: compiled for symbolic extents, or for the sizes at hand;
    its lanes; and what lies on disk, of these sizes and of the family."""

    symbolic: Callable[..., Translated | None]
    plain: Callable[[], Entry]
    lanes: int
    stored: Stored
    family: Stored


class _Family:
    """The extents that graphs of one form had, and programs for more of them."""

    def __init__(self) -> None:
        self.seen: list[Extents] = []
        self.variants: Variants[_Variant] = Variants(VARIANTS)
        self._read = set[int]()  # numbers of those that lie on disk, and are here

    @property
    def steps(self) -> int:
        """The number of steps of all its programs."""
        return sum(v.sized.steps for v in self.variants.all)

    def program(self, extents: Extents, making: Making) -> Entry:
        """The program for some extents: of a variant, or of a new one from the second
        size on; else for these sizes alone."""
        entry = self.known(extents)
        if entry is not None:
            return entry
        before = [x for x in self.seen if x != extents]
        self.seen = [*before, extents][-SEEN:]
        if before:
            entry = self._stored(extents, making) or self._traced(extents, making)
        entry = entry or making.stored.read(making.lanes)
        if entry is None and extents and not before:
            entry = self._stored(extents, making)
        if entry is None:
            entry = making.plain()
            making.stored.write(making.lanes, entry)
        entry[0].extents = extents
        return entry

    def known(self, extents: Extents) -> Entry | None:
        """The program of the first variant that admits some extents, loosely where
        there are many.
        """
        entry = self.variants.find(lambda v: v.at(extents))
        if entry is None and len(self.variants.all) >= MANY:
            entry = self.variants.find(lambda v: v.at(extents, loosely=True))
        return entry

    def _stored(self, extents: Extents, making: Making) -> Entry | None:
        """The program of the first variant on disk that admits some extents."""
        for number in range(VARIANTS):
            if number in self._read:
                continue
            known = making.family.head((making.lanes, number))
            if known is None:
                return None
            table, content = known
            if table(extents) is None:
                continue
            self._read.add(number)
            make = partial(self._loaded, making.family, content)
            return self.variants.add(make, lambda v: v.at(extents))
        return None

    def _loaded(self, stored: Stored, content: bytes) -> _Variant:
        """A program that lies on disk, and the sizes that were seen before it."""
        sized, again, leaves, seen = stored.load(content)
        self.seen = [*(x for x in seen if x not in self.seen), *self.seen][-SEEN:]
        return _Variant(sized, again, leaves, seen, self)

    def _traced(self, extents: Extents, making: Making) -> Entry | None:
        """A program for some extents that may serve others too, if there can be one."""
        make = partial(self._variant, extents, making)
        return self.variants.add(make, lambda v: v.at(extents))

    def _variant(self, extents: Extents, making: Making) -> _Variant:
        """A program compiled for some extents; may raise Unsized."""
        seen = [*(x for x in self.seen if x != extents), extents]
        trace, inputs = opened(extents, *alike(seen))
        try:
            translation = making.symbolic(inputs)
            if translation is None:
                raise Unsized
            program, leaves, again, inside = translation
            sized = SymbolicProgram(trace, inputs, program, inside, making.lanes)
        finally:
            trace.open = False
        parts = sized, again, leaves, seen
        for number in range(VARIANTS):
            how = making.lanes, number
            if number not in self._read and making.family.head(how) is None:
                self._read.add(number)
                making.family.write(how, parts, sized.values)
                break
        return _Variant(*parts, self)


class Families:
    """Programs for many sizes, by what their graphs are without extents."""

    def __init__(self) -> None:
        self._table: OrderedDict[Any, _Family] = OrderedDict()
        self._steps = 0
        self._lock = lock()

    def program(self, graph: Open, making: Making) -> Entry:
        """The program of a graph, of which `family` tells what it is; to be linked."""
        key, extents = graph
        if not extents:
            return _Family().program(extents, making)
        with self._lock:
            family = self._table.setdefault(key, _Family())
            self._table.move_to_end(key)
        before = family.steps
        entry = family.program(extents, making)
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
