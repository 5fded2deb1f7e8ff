"""A body for some number of rows as steps whose arguments and results lie anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.engines.native.linked import Linked
from treadle.engines.native.timing import Told

__all__ = ["Compiled", "Sample", "Source"]

Source = int | np.ndarray[Any, Any]  # an argument of a body, or an array within it


class Compiled:
    """A body as steps, and where their table takes addresses from.

    A `Sample` has the program that it was made of, too; the others do without.

    `arguments` are the buffers of the body's arguments, -1 for one that is not read;
    `results` those of its outputs; `copied` the outputs that lie where an argument,
    a constant or an output before lies, and are copied from there.
    """

    possible: bool

    def __init__(
        self, linked: Linked, order: Sequence[Source], outputs: Sequence[int]
    ) -> None:
        """`order` has the body's argument of each of the program's, `outputs` the
        program's result of each of the body's outputs.
        """
        program = linked.program
        self.possible = not program.fallbacks
        if not self.possible:
            return
        linked.link()
        self.family = object()  # the same where only numbers differ
        # Kept alive: what the table has the addresses of.
        self.functions = linked.functions
        self.alive: list[Any] = [linked.constants]
        self.records = linked.records[:, :4]
        # Bytes and operations are those for some number of rows.
        self.told = [Told(x.name, x.origins) for x in linked.about()]
        self.table, self.slots = linked.table, linked.slots
        self.which, self.shifts = linked.which, linked.shifts
        # Whether a step may find a position out of range: it gets the status.
        self.checks = bool((self.which == len(linked.fixed) - 1).any())
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
        self.fixed = linked.fixed
        self.scratch = linked.scratch
        self.arena = linked.plan.size
        self.placed = linked.placed
        self.offsets = linked.plan.table[linked.places] if len(linked.places) else None


@dataclass(frozen=True)
class Sample:
    """A body for some number of rows, and the program that it is."""

    steps: Compiled
    linked: Linked
