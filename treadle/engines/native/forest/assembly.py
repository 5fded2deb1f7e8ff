"""The steps of many groups in one table, for native calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
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
from treadle.engines.native.forest.layout import MoveSteps, Steps, laid_out
from treadle.engines.native.forest.moves import moves
from treadle.graph.origin import Origin


class StepTable:
    """Steps that can run any number of times, for memory that lies anywhere; the words
    that they are told end with an `index`, addresses that steps ask for, and a status.
    """

    def __init__(
        self,
        steps: Sequence[Steps],
        groups: Sequence[Groups],
        where: Numbers,
        index: Addresses,
        origins: Sequence[Origin | None],
    ) -> None:
        """`steps` for some `groups`, where places are; of instances the `origins`."""
        layout = laid_out(steps, groups, where, index, moves()[0])
        self.table, self.blocks, self.turns = layout.words, layout.blocks, layout.turns
        self.index, self.sure, self.scratch = layout.place, layout.sure, layout.scratch
        self.parts = layout.parts  # code and constants of them shall live as long
        arena = max((like.arena for _, like, _ in self.parts), default=0)
        self.arena = -(-arena // 64) * 64
        self.records = layout.records.reshape(-1, FIELDS)
        self._place = int(layout.records.ctypes.data)
        self._told = steps, groups, origins

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
            every = [*self._notes()]
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

    def _notes(self) -> Iterator[StepNote]:
        """What is told of each step, as they were laid out."""
        steps, groups, origins = self._told
        (_, notes), parts = moves(), iter(self.parts)
        part = next(parts, None)
        for step in steps:
            if isinstance(step, MoveSteps):
                yield from [notes[step.what]] * len(groups[step.groups].turns)
            while part is not None and part[0] is step:
                body, like, times = part
                origin = origins[body.instance]
                for x in [*like.notes] * times:
                    yield x if origin is None else replace(x, origins=(origin,))
                yield from [notes["copy"]] * (times * len(like.copied))
                part = next(parts, None)
