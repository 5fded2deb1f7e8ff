"""Programs for sizes never seen: compiled once with symbolic extents.

Graphs that differ in extents alone are a family. The first of them is compiled as it
is. At the second, extents that moved become symbols (those that always were equal, one
symbol), and the program is compiled for all sizes that its guards admit; a size that
none of the family's programs admits is compiled so as well, with what moved until then.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.locks import lock
from treadle.base.symbolic import LEAST, Trace, guards_of
from treadle.engines.lowered import Served
from treadle.engines.native.linked import Linked
from treadle.engines.native.sized import Sized
from treadle.graph.extents import Open
from treadle.program.program import Program
from treadle.program.sized import Unsized

__all__ = ["Families", "Plain"]

SEEN = 8  # extents of a family that are remembered
VARIANTS = 24
MANY = 6  # programs of a family, and speed alone is worth no other one
NEAR = 2  # an extent is another one and so many more, where it always was
FAILED = 3  # so many programs for one size alone, and no more are tried
STEPS = 1 << 14  # of all programs kept

Extents = tuple[int, ...]
Entry = tuple[Linked, list[int]]


class Plain:
    """A program before memory is planned, and what its engine knows with it."""

    def __init__(
        self,
        program: Program,
        leaves: Sequence[int],
        again: Sequence[int],
        inside: Sequence[tuple[int, int, int]],
    ) -> None:
        self.program, self.leaves = program, list(leaves)
        self.again, self.inside = list(again), tuple(inside)


class _Variant:
    """A program of a family, for extents that move as some have moved."""

    def __init__(
        self,
        seen: Sequence[Extents],
        make: Callable[..., Plain | None],
        lanes: int,
        family: _Family,
    ) -> None:
        """Compiled for the last extents seen; may raise Unsized."""
        self.family = family
        self.here = here = seen[-1]
        self.places, self.like = _alike(seen)
        self.trace = trace = Trace([here[k] for k in self.places])
        symbols = dict(zip(self.places, trace.symbols, strict=True))
        given = [
            n if k is None else symbols[k] + more
            for n, (k, more) in zip(here, self.like, strict=True)
        ]
        try:
            plain = make(given)
            if plain is None:
                raise Unsized
            self.sized = Sized(trace, plain.program, plain.inside, lanes)
        finally:
            trace.open = False
        self.again, self.leaves = plain.again, plain.leaves

    def sizes(self, extents: Extents) -> list[int] | None:
        """The values of the symbols, if these may be such extents."""
        for n, own, (k, more) in zip(extents, self.here, self.like, strict=True):
            if n != (own if k is None else extents[k] + more):
                return None
        found = [extents[k] for k in self.places]
        return found if min(found) >= LEAST else None

    def at(self, extents: Extents, loosely: bool = False) -> Entry | None:
        """The program for some extents, if it is one for them; `loosely`: with the same
        values, though another one might be faster.
        """
        sizes = self.sizes(extents)
        evaluate = self.sized.loosely if loosely else self.sized.values
        values = evaluate(sizes) if sizes is not None else None
        if values is None:
            return None
        linked, inside = self.sized.linked(values)
        linked.again, linked.inside = list(self.again), inside
        linked.variant, linked.extents = self, extents
        return linked, list(self.leaves)


def _alike(seen: Sequence[Extents]) -> tuple[list[int], list[tuple[int | None, int]]]:
    """Which extents are symbols; and of each extent which of them it is, and how much
    more, or None where it never moved.
    """
    columns = np.array(seen, np.int64).T
    moves = columns - columns[:, :1]
    symbols: dict[bytes, list[int]] = {}  # that move alike
    like: list[tuple[int | None, int]] = []
    for k, own in enumerate(moves):
        if not own.any():
            like.append((None, 0))
            continue
        known = symbols.setdefault(own.tobytes(), [])
        for first in known:
            more = int(columns[k, 0] - columns[first, 0])
            if abs(more) <= NEAR:
                like.append((first, more))
                break
        else:
            known.append(k)
            like.append((k, 0))
    return sorted(k for own in symbols.values() for k in own), like


class _Family:
    """The extents that graphs of one form had, and programs for more of them."""

    def __init__(self) -> None:
        self.seen: list[Extents] = []
        self.variants: list[_Variant] = []
        self.failed: list[Exception] = []

    @property
    def steps(self) -> int:
        """Of all its programs."""
        return sum(v.sized.steps for v in self.variants)

    def made(self, extents: Extents) -> Entry | None:
        """The program of the first variant that admits some extents, loosely where
        there are many.
        """
        many = len(self.variants) >= MANY
        for loosely in (False, True) if many else (False,):
            for variant in self.variants:
                found = variant.at(extents, loosely)
                if found is not None:
                    if variant is not self.variants[0]:  # the next may be like it
                        others = [x for x in self.variants if x is not variant]
                        self.variants = [variant, *others]
                    return found
        return None

    def traced(
        self, extents: Extents, make: Callable[..., Plain | None], lanes: int
    ) -> Entry | None:
        """A program for some extents that may serve others too, if there can be one."""
        seen = [x for x in self.seen if x != extents]
        self.seen = [*seen, extents][-SEEN:]
        if not seen or len(self.failed) >= FAILED or len(self.variants) >= VARIANTS:
            return None
        try:
            variant = _Variant(self.seen, make, lanes, self)
            found = variant.at(extents)
            assert found is not None, "it does not serve the sizes it is made for"
        except Exception as error:  # whatever cannot be done with symbolic sizes
            self.failed.append(error)
            return None
        self.variants = [variant, *self.variants]
        return found


class Families:
    """Programs for many sizes, by what their graphs are without extents."""

    def __init__(self) -> None:
        self._table: OrderedDict[Any, _Family] = OrderedDict()
        self._steps = 0
        self._lock = lock()

    def made(
        self, graph: Open, make: Callable[..., Plain | None], lanes: int
    ) -> Entry | None:
        """The program of a graph, to be linked, if it is of one for many sizes.

        `graph` is what `family` tells of it; `make` compiles it for symbolic extents.
        """
        key, extents = graph
        if not extents:
            return None
        with self._lock:
            family = self._table.setdefault(key, _Family())
            self._table.move_to_end(key)
        found = family.made(extents)
        if found is not None:
            return found
        before = family.steps
        found = family.traced(extents, make, lanes)
        with self._lock:
            if self._table.get(key) is family:  # nobody has let go of it meanwhile
                self._steps += family.steps - before
            while self._steps > STEPS and len(self._table) > 1:
                _, gone = self._table.popitem(last=False)
                self._steps -= gone.steps
        return found

    def served(self, graph: Open) -> Served | None:
        """What is told of the programs for graphs like one, if there were any."""
        with self._lock:
            family = self._table.get(graph[0])
        if family is None:
            return None
        guards: list[tuple[str, str]] = []
        for variant in family.variants:
            if variant.at(graph[1]) is not None:
                guards = guards_of(variant.trace)
                break
        failed = [f"{type(e).__name__}: {e}" for e in family.failed]
        return Served(len(family.variants), tuple(guards), tuple(failed))

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._table.clear()
            self._steps = 0
