"""A body for some number of rows as steps whose arguments and results lie anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.engines.base import are_below
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.execution.timing import StepNote
from treadle.program.program import Fallback, Program

Source = int | np.ndarray[Any, Any]  # an argument of a body, or an array within it

# Fields of a record that say something; where arguments stand in the table is PLACE.
FUNCTION, PLACE, TOTAL, GRAIN = range(4)
OWN = 4


class Compiled:
    """A body as steps, and where their table takes addresses from.

    `numbers` are all of its integers: its records, its table, how far into a buffer
    addresses in the table's `slots` are, and bytes of scratch memory. The same body
    for another number of rows may differ in these alone.

    `arguments` are the buffers of the body's arguments, -1 for one that is not read;
    `results` those of its outputs, of which some are `copied`.
    """

    possible: bool
    numbers: Numbers

    def __init__(
        self, linked: Linked, order: Sequence[Source], outputs: Sequence[int]
    ) -> None:
        """`order` has the body's argument of each of the program's, `outputs` the
        program's result of each of the body's outputs.
        """
        program = linked.program
        # A loop is driven from outside, though its body is native.
        self.possible = not any(isinstance(s, Fallback) for s in program.steps)
        if not self.possible:
            self.numbers = np.zeros(0, np.int64)
            return
        linked.link()
        # Kept alive: what the table has the addresses of.
        self.functions = linked.functions
        self.alive: list[Any] = [linked.constants]
        # Bytes and operations are those for some number of rows.
        self.notes = [StepNote(x.name, x.origins) for x in linked.about()]
        self.slots, self.which = linked.slots, linked.which
        records = linked.records[:, :OWN].ravel()
        every = records, linked.table, linked.shifts, [linked.scratch]
        self.numbers = np.concatenate(every)
        sizes = [len(x) for x in every]
        self.ends: list[int] = np.cumsum(sizes)[:-1].tolist()
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
        self.needs = needs_of(linked.needs, order)
        where = [n for _, n, _ in program.results]
        self.results = np.array([where[k] for k in outputs], np.int64)
        self.copied = copied_of(program, self.results.tolist())
        self.fixed = linked.fixed
        self.arena = linked.plan.size
        self.placed = linked.placed
        self.offsets = linked.plan.table[linked.places] if len(linked.places) else None

    def records(self, numbers: Numbers) -> Numbers:
        """The records among its numbers, or in each row of them."""
        words = numbers[..., : self.ends[0]]
        return words.reshape(*words.shape[:-1], -1, OWN)

    def table(self, numbers: Numbers) -> Numbers:
        """The table among its numbers, or in each row of them."""
        return numbers[..., self.ends[0] : self.ends[1]]

    def shifts(self, numbers: Numbers) -> Numbers:
        """The shifts of addresses among its numbers, or in each row of them."""
        return numbers[..., self.ends[1] : self.ends[2]]

    def scratch(self, numbers: Numbers) -> int:
        """Bytes of scratch memory that its numbers tell, or the most of all rows."""
        return int(numbers[..., -1].max(initial=0))


def copied_of(program: Program, results: Sequence[int]) -> list[int]:
    """The outputs that lie where an argument, a constant or an output before lies, and
    are copied from there."""
    return [
        k
        for k, n in enumerate(results)
        if program.buffers[n].place != "result" or n in results[:k]
    ]


def needs_of(
    program_needs: Sequence[tuple[int, int]] | None, order: Sequence[Source]
) -> tuple[tuple[int, int], ...] | None:
    """The arguments of a body that are positions, each with what it has to be below;
    None where arguments do not tell whether all positions are right.
    """
    if program_needs is None:
        return None
    needs = []
    for argument, extent in program_needs:
        k = order[argument]
        if isinstance(k, int):
            needs.append((k, extent))
        elif not are_below(k, extent):
            return None
    return tuple(needs)
