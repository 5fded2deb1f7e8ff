"""A body for some number of rows as steps whose arguments and results lie anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers, indices_of
from treadle.engines.base import are_below
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.execution.timing import StepNote
from treadle.engines.native.forest.bases import ARENA, SCRATCH, STATUS
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

    Addresses begin at those that are `fixed`, or, of slots that are `passed`, at the
    results and arguments that `which` tells, arguments behind all results. Results that
    are `copied` lie where others do, or, if that is told by -1, where `constants` say.
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
        self.slots = linked.slots
        records = linked.records[:, :OWN].ravel()
        every = records, linked.table, linked.shifts, [linked.scratch]
        self.numbers = np.concatenate(every)
        # Where its table begins among them, its shifts, and what comes behind.
        ends = accumulate([len(x) for x in every[:3]])
        self.ends = tuple(ends)
        # Whether a step may find a position out of range: it gets the status.
        self.checks = bool((linked.which == len(linked.fixed) - 1).any())
        where = [n for _, n, _ in program.results]
        results = [where[k] for k in outputs]
        copied = copied_of(program, results)
        # Of each buffer: which result or argument it is, and where it lies if none.
        passed, fixed = np.full(len(linked.fixed), -1, np.int64), linked.fixed.copy()
        for k, number in zip(order, program.arguments, strict=True):
            if isinstance(k, int):
                passed[number] = len(results) + k
            else:
                self.alive.append(k)
                fixed[number] = k.ctypes.data
        for k, number in enumerate(results):
            if k not in copied:
                passed[number] = k
        self.copied = {k: int(passed[results[k]]) for k in copied}
        self.constants = {k: int(fixed[results[k]]) for k in copied}
        self.arena = linked.plan.size
        if len(linked.places):
            fixed[linked.placed] = ARENA + linked.plan.table[linked.places]
        fixed[-2:] = SCRATCH, STATUS
        passed[linked.placed] = passed[-2:] = -1
        begins = passed[linked.which]
        self.passed = indices_of(begins >= 0)
        self.which = begins[self.passed]
        self.fixed = np.where(begins >= 0, 0, fixed[linked.which])
        self.needs = needs_of(linked.needs, order)
        # What the core asks of it; of each copy the source, the result and a constant.
        copies = [(n, k, self.constants[k]) for k, n in self.copied.items()]
        fields = self.ends, self.slots, self.fixed, self.passed, self.which
        self.words = *fields, self.checks, tuple(copies)


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
