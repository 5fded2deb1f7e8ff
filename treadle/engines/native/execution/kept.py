"""Weights in the form that steps read, kept from run to run while they are the same.

A step may begin by copying its weights into panels, and steps may compute from weights
alone. When a run gets the very arrays the run before had, what is made of them gets
memory of its own, and the runs after it leave those steps out. It goes when another
array comes or another value, as after each step of training, or when an array is gone:
what changes at every run is never kept.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.engines.native.codegen.code import Code
from treadle.graph.claim import turn_of
from treadle.program.invariant import Invariant
from treadle.program.program import Program

Lend = Callable[[tuple[int], type], tuple[Array, int]]


@dataclass(frozen=True)
class PackedBuffers:
    """Buffers that `records` fill from the arguments `sources` alone.

    `places` has the number of each buffer or workspace, and its bytes.
    """

    places: tuple[tuple[int, int], ...]
    sources: tuple[int, ...]
    records: tuple[int, ...]


@dataclass(frozen=True)
class _Known:
    """The arrays of the last run, which values they had, and what was made of them."""

    arrays: tuple[weakref.ref[Array], ...]
    turns: tuple[int, ...]
    panels: tuple[tuple[Array, int], ...] | None = None  # with their addresses

    def holds(self, arrays: Sequence[Array]) -> bool:
        """Return True if these are the arrays, with the values that they had."""
        for last, turn, x in zip(self.arrays, self.turns, arrays, strict=True):
            if last() is not x or turn != turn_of(x) or x.flags.writeable:
                return False
        return True

    @property
    def is_good(self) -> bool:
        """True if the arrays are there, and nothing has been written over them."""
        pairs = zip(self.arrays, self.turns, strict=True)
        return all(
            (x := ref()) is not None and turn == turn_of(x) for ref, turn in pairs
        )

    def addresses(self, places: Sequence[tuple[int, int]], into: Array) -> None:
        """Fill in where the panels of some buffers lie."""
        assert self.panels is not None
        for (n, _), (_, address) in zip(places, self.panels, strict=True):
            into[n] = address


class Kept:
    """The packed weights of one program; several threads may run it at a time."""

    def __init__(self, packed: Sequence[PackedBuffers]) -> None:
        self.packed = packed
        self._known: dict[int, _Known] = {}  # by number of a Packed

    def resized(self, bytes: Sequence[Sequence[int]]) -> Kept:
        """The same of a program for another size, with so many bytes of each buffer."""
        every = []
        for one, sizes in zip(self.packed, bytes, strict=True):
            buffers = [n for n, _ in one.places]
            every.append(replace(one, places=tuple(zip(buffers, sizes, strict=True))))
        return type(self)(every)

    def place(
        self,
        arrays: Mapping[int, Array],
        changing: Set[int],
        addresses: Array,
        lend: Lend,
    ) -> Panels:
        """The places of the buffers of a run that need not be filled, or only once
        more.

        Arguments in `changing` are overwritten by the run.
        """
        result = Panels(self)
        for k, one in enumerate(self.packed):
            # What is overwritten where it lies may be none of the arrays.
            over = bool(changing) and not changing.isdisjoint(one.sources)
            sources = [] if over else [arrays[n] for n in one.sources]
            known = self._known.get(k)
            if known is None or over or not known.holds(sources):
                if over or any(x.flags.writeable for x in sources):
                    self._known.pop(k, None)
                else:
                    self._known[k] = self._watched(k, sources)
                continue
            if known.panels is None:
                lent = tuple([lend((size,), np.uint8) for _, size in one.places])
                known = replace(known, panels=lent)
                result.fresh.append((k, known))
            else:
                result.ready += one.records
            result.held.append(known)
            known.addresses(one.places, addresses)
        return result

    def _watched(self, k: int, arrays: Sequence[Array]) -> _Known:
        """Arrays whose panels go when one of them does."""
        reference = weakref.ref(self)

        def forget(gone: weakref.ref[Array]) -> None:
            kept = reference()
            known = kept._known.get(k) if kept else None
            if kept and known and any(x is gone for x in known.arrays):
                kept._known.pop(k, None)

        watched = tuple([weakref.ref(x, forget) for x in arrays])
        return _Known(watched, tuple(map(turn_of, arrays)))

    @property
    def all(self) -> tuple[list[int], list[int], list[int], list[int], Any, Any] | None:
        """The buffers that are kept and their addresses, the records that have nothing
        to do, the arguments and references to these, and the memory; None if a part is
        yet to be filled."""
        every = [self._known.get(k) for k in range(len(self.packed))]
        known = [x for x in every if x is not None and x.panels and x.is_good]
        if len(known) < len(every):
            return None
        pairs = list(zip(self.packed, known, strict=True))
        panels = [p for x in known for p in x.panels or ()]
        return (
            [n for one in self.packed for n, _ in one.places],
            [address for _, address in panels],
            [r for one in self.packed for r in one.records],
            [n for one in self.packed for n in one.sources],
            tuple([ref for _, x in pairs for ref in x.arrays]),
            panels,
        )

    def keep(self, fresh: Sequence[tuple[int, _Known]]) -> None:
        """Panels that a run has filled, for those to come."""
        for k, known in fresh:
            last = self._known.get(k)
            if last is not None and last.arrays is known.arrays:
                self._known[k] = known


class Panels:
    """The packed panels that one run uses: they stay while it does."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.ready: list[int] = []  # records that have nothing to do
        self.held: list[_Known] = []
        self.fresh: list[tuple[int, _Known]] = []

    def done(self) -> None:
        """The run went well: what it packed is good."""
        self.kept.keep(self.fresh)


def packed_of(
    program: Program,
    invariants: Sequence[Invariant],
    spans: Sequence[tuple[int, int]],
    workspaces: Mapping[int, int],
    codes: Sequence[Sequence[Code]],
) -> list[PackedBuffers]:
    """The panels and step results that are made of weights among the arguments.

    `spans` has of each step its first record, and how many; `workspaces` the numbers
    of those of steps.
    """
    panels: dict[int, list[tuple[int, int, tuple[int, ...]]]] = {}  # by weights
    for k, workspace in workspaces.items():
        first = spans[k][0]
        of = [(first + i, c.packs) for i, c in enumerate(codes[k])]
        records = tuple(record for record, packs in of if packs is not None)
        sources = {packs for _, packs in of if packs is not None}
        if len(sources) == 1:
            size = max(c.workspace for c in codes[k])
            panels.setdefault(sources.pop(), []).append((workspace, size, records))
    result = []
    for group in invariants:
        spanned = [spans[k] for k in group.steps]
        records = tuple(r for first, n in spanned for r in range(first, first + n))
        places = [(n, program.buffers[n].type.nbytes) for n in group.results]
        for n in group.results:
            for workspace, size, more in panels.pop(n, ()):
                places.append((workspace, size))
                records += more
        result.append(PackedBuffers(tuple(places), group.sources, records))
    for n in sorted(panels.keys() & set(program.arguments)):
        for workspace, size, records in panels[n]:
            result.append(PackedBuffers(((workspace, size),), (n,), records))
    return result
