"""Timing of the steps of a native call, with their threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from treadle.base.events import Event, tell
from treadle.engines.native.execution.pool import PARTS
from treadle.graph.origin import Origin
from treadle.graph.tensor import Tensor
from treadle.program.program import Program, title

Key = tuple[int, int]  # of an origin: the code's identity, the offset
_runs = count(1)


@dataclass(frozen=True)
class StepNote:
    """The record of a step: its number, if records of one step are to be one."""

    name: str
    origins: tuple[Origin, ...] = ()
    bytes: int = 0
    flops: int = 0
    step: int = -1


def notes_of(program: Program, spans: Sequence[tuple[int, int]]) -> list[StepNote]:
    """The notes on each record of a program; `spans` has those of each step."""
    notes: list[StepNote] = []
    pairs = zip(program.steps, program.about, spans, strict=True)
    for k, (step, about, (first, records)) in enumerate(pairs):
        if first > len(notes):  # the record of a region, of which nothing is noted
            notes.append(StepNote("side by side"))
        size = sum(program.buffers[n].type.nbytes for n in (*step.read, *step.written))
        one = StepNote(title(step), about.origins, size, about.flops, k)
        notes += [one] * records
    return notes


class Timing:
    """Room for the times of some records, for the runner to write to."""

    def __init__(self, records: np.ndarray[Any, Any], threads: int) -> None:
        grain = np.maximum(records[:, 3], 1)
        parts = np.minimum(-(-records[:, 2] // grain), PARTS * threads) + 1
        room = int(parts.sum()) if len(parts) else 0
        self.numbers = np.zeros(2 + 4 * room, np.int64)
        self.numbers[1] = room
        self.address = self.numbers.ctypes.data

    def tell(
        self, steps: Sequence[StepNote], lines: Mapping[Key, Origin] | None = None
    ) -> None:
        """Tell what has been noted; `lines` has other origins for some."""
        current = threading.current_thread().name
        run = next(_runs)
        known: dict[int, tuple[Origin, ...]] = {}  # codes are slow to hash
        for k, worker, begin, end in self._noted():
            step = steps[k]
            origins = step.origins
            if lines:
                mapped = known.get(id(step))
                if mapped is None:
                    mapped = tuple([lines.get((id(x[0]), x[1]), x) for x in origins])
                    known[id(step)] = mapped
                origins = mapped
            thread = f"treadle-{worker}" if worker else current
            # Parts of one step have a number in common.
            number = (run << 32) + (k if step.step < 0 else step.step)
            what = step.name, "kernel", begin, end, thread, number
            tell(Event(*what, origins, step.bytes, step.flops))

    def _noted(self) -> Iterator[tuple[int, int, int, int]]:
        count = min(int(self.numbers[0]), int(self.numbers[1]))
        for row in self.numbers[2 : 2 + 4 * count].reshape(count, 4).tolist():
            step, worker, begin, end = row
            yield step, worker, begin, end


def first_lines(nodes: Sequence[Tensor]) -> dict[Key, int]:
    """The first place of each origin among the nodes of a run.

    Programs are kept by structure: another graph like it was written in other lines.
    """
    first: dict[Key, int] = {}
    for k, node in enumerate(nodes):
        first.setdefault((id(node._code), node._offset), k)
    return first
