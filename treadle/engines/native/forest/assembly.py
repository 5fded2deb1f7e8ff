"""The steps of many groups in one table, for native calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.dtypes import DType
from treadle.base.events import watchers
from treadle.batch.forest import Groups
from treadle.engines.base import PositionError
from treadle.engines.native.execution.pool import NOTHING, Done, Held, Ticket, pool
from treadle.engines.native.execution.run import FIELDS
from treadle.engines.native.execution.timing import StepNote, Timing
from treadle.engines.native.forest.bases import (
    ARENA,
    INDEX,
    SCRATCH,
    STATUS,
    Addresses,
    number,
)
from treadle.engines.native.forest.compiled import Compiled
from treadle.engines.native.forest.layout import (
    ROWS,
    BodySteps,
    Form,
    Moves,
    laid_out,
)
from treadle.engines.native.forest.moves import ADD_GRAINS, GATHER_BYTES, moves
from treadle.graph.origin import Origin

NO_INDEX = Addresses.of(np.zeros(0, np.int64))
Told = tuple[Sequence[StepNote], Origin | None, int]


class StepTable:
    """Steps that can run any number of times, for memory that lies anywhere; the words
    that they are told end with an `index`, addresses that steps ask for, and a status.
    """

    def __init__(self, assembly: Assembly, index: Addresses) -> None:
        self.made = assembly.made  # code and constants shall live as long
        self.arena = -(-max((x.arena for x in self.made), default=0) // 64) * 64
        layout = laid_out(assembly.moves, assembly.bodies, index)
        self.table, self.blocks, records, self.turns, *rest = layout
        self.index, self.sure, self.scratch = rest
        self.records = records.reshape(-1, FIELDS)
        self._place = int(records.ctypes.data)
        self.notes = assembly.notes + assembly.body_notes

    def space(self, threads: int) -> int:
        """Bytes that the steps need besides, of so many threads."""
        return self.arena + self.scratch * pool(threads).threads

    def words(self) -> Numbers:
        """Room for what the steps are told in one call."""
        return np.empty(len(self.table), np.int64)

    def run(
        self,
        bases: Numbers,
        words: Numbers,
        threads: int,
        done: Done | None = None,
        late: bool = False,
        held: Held = NOTHING,
    ) -> Ticket | None:
        """Do all steps, told by `words`, which lie where `bases` has STATUS; it has the
        addresses of blocks by number. A position out of range raises.

        Where there is one to be told when it is `done`, who holds all memory of the
        blocks, what cannot fail is only begun, or everything if errors may come `late`.
        """
        workers = pool(threads)
        place = int(bases[number(STATUS)])
        status = place + 8 * (len(words) - 1)
        bases[number(INDEX)] = place + 8 * self.index
        bases[number(SCRATCH)] = bases[number(ARENA)] + self.arena
        bases[number(STATUS)] = status
        np.add(bases[self.blocks], self.table, out=words)
        pointers = place, status
        first, count = self._place, 0 if late else self.sure
        if done is None:
            count = len(self.records)
        timing = Timing(self.records, workers.threads) if watchers else None
        if count:
            log = timing.address if timing else 0
            workers.run(first, count, *pointers, log)
        if timing:
            every = [
                x if origin is None else replace(x, origins=(origin,))
                for notes, origin, times in self.notes
                for x in [*notes] * times
            ]
            timing.tell([every[k] for k in self.turns.tolist()])
        if words[-1]:
            raise PositionError
        if done is None:
            return None
        kept = self, words

        def over(well: bool, kept: Any = kept) -> None:
            done(well)

        rest = first + count * FIELDS * 8
        return workers.queue(rest, len(self.records) - count, *pointers, over, held)


class Assembly:
    """Steps of groups, each of which has a turn.

    What is said of each group goes by its first row and its rows (`Form`).
    """

    def __init__(self) -> None:
        self.moves: list[Moves] = []
        self.bodies: list[BodySteps] = []
        self.made: list[Compiled] = []
        # What is told of steps, where, and of how many groups.
        self.notes: list[Told] = []
        self.body_notes: list[Told] = []

    def _move(
        self,
        groups: Groups,
        what: str | DType,
        words: tuple[Form, ...],
        total: Form,
        grain: int | Numbers,
        now: bool = False,
    ) -> None:
        """A step that moves rows; the first two words are addresses."""
        function, note = moves()[what]
        rest = total, grain, len(self.moves) + len(self.bodies), now
        self.moves.append(Moves(groups, words, function, *rest))
        self.notes.append(((note,), None, len(groups.turns)))

    def gather(self, groups: Groups, sources: Form, target: Form, size: int) -> None:
        """Rows of `size` bytes from where an array of addresses says."""
        if size:
            grain = GATHER_BYTES // size + 1
            self._move(groups, "gather", (sources, target, size), ROWS, grain)

    def copy(
        self, groups: Groups, source: Form, target: Form, size: Form, now: bool = False
    ) -> None:
        """So many bytes from one place to another; `now`: as early as positions are
        checked."""
        self._move(groups, "copy", (source, target, size), 1, 1, now)

    def add(self, groups: Groups, targets: Form, source: Form, row: Any) -> None:
        """Rows added to where an array of addresses says; `row` is the type of one."""
        if row.size:
            words = targets, source, ROWS, row.size
            self._move(groups, row.dtype, words, row.size, ADD_GRAINS)

    def part(
        self,
        groups: Groups,
        like: Compiled,
        numbers: Sequence[Numbers],
        starts: Numbers,
        shifts: Numbers,
        sizes: Sequence[int],
        origin: Origin | None = None,
    ) -> None:
        """A body for each group.

        Of each group there are the body's numbers. Its results and then its arguments
        have row 0 where they start, and the others so many bytes after each other. A
        result has rows of `sizes`. `origin` is the line that is told, if not those of
        the body.
        """
        words = like.ends, like.slots, like.fixed, like.passed, like.which
        rest = *words, len(self.moves) + len(self.bodies), like.checks
        self.bodies.append(BodySteps(groups, numbers, starts, shifts, *rest))
        self.body_notes.append((like.notes, origin, len(groups.turns)))
        self.made.append(like)
        for k, where in like.copied.items():
            source, target = [
                (int(starts[n]), int(shifts[n])) if n >= 0 else like.constants[k]
                for n in (where, k)
            ]
            self.copy(groups, source, target, (0, 0, sizes[k]))

    def table(self, index: Addresses = NO_INDEX) -> StepTable | None:
        """All steps in one table, if there are any, which ask for the addresses of an
        `index`."""
        return StepTable(self, index) if self.moves or self.bodies else None
