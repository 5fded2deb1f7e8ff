"""The steps of many groups in one table, for one native call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import DType
from treadle.base.events import watchers
from treadle.engines.native.forest.compiled import Compiled
from treadle.engines.native.forest.matrices import memory
from treadle.engines.native.forest.moves import ADD_GRAIN, GATHER_BYTES, moves
from treadle.engines.native.pool import pool
from treadle.engines.native.run import FIELDS, PositionError
from treadle.engines.native.timing import Timing, Told

__all__ = ["Assembly"]


class Assembly:
    """Steps in the order in which they are added."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, int, int]] = []
        # Arguments, one step after the other: numbers of moves, then arrays of parts.
        self.table: list[Any] = []
        self.numbers: list[int] = []
        self.size = 0
        self.parts: list[tuple[int, int, Compiled, Any]] = []
        self.alive: list[Any] = []
        self.moves = moves()

    def _move(
        self, function: str, arguments: Sequence[int], total: int, grain: int
    ) -> None:
        # Counted from the end, where the numbers of all moves stand together.
        self.records.append((self.moves[function], ~len(self.numbers), total, grain))
        self.numbers += arguments

    def gather(self, sources: int, target: int, rows: int, size: int) -> None:
        """Rows of `size` bytes from where an array of addresses says."""
        if rows and size:
            grain = GATHER_BYTES // size + 1
            self._move("gather", (sources, target, size), rows, grain)

    def add(
        self, targets: int, source: int, rows: int, width: int, dtype: DType
    ) -> None:
        """Rows of `width` elements added to where an array of addresses says."""
        if rows and width:
            grain = -(-ADD_GRAIN // rows // 16) * 16 or 16
            arguments = targets, source, rows, width
            self._move(f"add {dtype.name}", arguments, width, grain)

    def copy(self, source: int, target: int, size: int) -> None:
        """Bytes from one place to another."""
        if size:
            self._move("copy", (source, target, size), 1, 1)

    def part(
        self,
        made: Compiled,
        arguments: Sequence[int] | np.ndarray[Any, Any],
        results: Sequence[int] | np.ndarray[Any, Any],
        sizes: Sequence[int],
    ) -> None:
        """A body, with the addresses of its arguments and results, and their bytes."""
        own = made.fixed.copy()
        # The last is set first: an argument that is not read has number -1.
        own[made.arguments] = arguments[: len(made.arguments)]
        for number, array in made.arrays:
            own[number] = array.ctypes.data
        if made.copied:
            fresh = [k for k in range(len(results)) if k not in made.copied]
            own[made.results[fresh]] = [results[k] for k in fresh]
        else:
            own[made.results] = results
        self.parts.append((len(self.table), self.size, made, own))
        self.table.append(None)
        base = self.size
        for function, place, total, grain in made.records.tolist():
            self.records.append((function, place + base, total, grain))
        self.size += len(made.table)
        for k in made.copied:
            self.copy(int(own[made.results[k]]), int(results[k]), sizes[k])

    def run(self, threads: int) -> None:
        """Do all steps, if there are any; a position out of range raises."""
        if not self.records:
            return
        workers = pool(threads)
        arena = max((made.arena for *_, made, _ in self.parts), default=0)
        scratch = max((made.scratch for *_, made, _ in self.parts), default=0)
        space, base = memory(arena + scratch * workers.threads + 128)
        self.alive.append(space)
        status = np.zeros(1, np.int64)
        for place, _, made, own in self.parts:
            if made.offsets is not None:
                own[made.placed] = base + made.offsets
            own[-2] = base + -(-arena // 64) * 64
            own[-1] = status.ctypes.data
            table = made.table.copy()
            table[made.slots] = own[made.which] + made.shifts
            self.table[place] = table
        table = np.concatenate([*self.table, np.array([*self.numbers, 0], np.int64)])
        records = np.zeros((len(self.records), FIELDS), np.int64)
        records[:, :4] = np.array(self.records, np.int64).reshape(-1, 4)
        places = records[:, 1]
        records[:, 1] = np.where(places < 0, self.size + ~places, places)
        timing = Timing(records, workers.threads) if watchers else None
        pointers = table.ctypes.data, status.ctypes.data
        log = timing.address if timing else 0
        workers.run(records.ctypes.data, len(records), *pointers, log)
        if timing:
            timing.tell(self._told())
        if status[0]:
            raise PositionError

    def _told(self) -> list[Told]:
        """What is told of each record: moves, and the steps of parts."""
        names = {address: Told(name) for name, address in self.moves.items()}
        steps = iter([x for *_, made, _ in self.parts for x in made.told])
        moving = [place < 0 for _, place, _, _ in self.records]
        pairs = zip(self.records, moving, strict=True)
        return [names[record[0]] if own else next(steps) for record, own in pairs]
