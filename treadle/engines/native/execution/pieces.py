"""Steps of a program that run at once, in one native call, and the cuts at which
results are there that somebody waits for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from treadle.engines.early import Listener
from treadle.program.program import ParallelRegion

if TYPE_CHECKING:
    from treadle.engines.native.execution.linked import Linked


class StepPiece(NamedTuple):
    """Steps `first` to `stop` that run at once: their first record, and how many.

    A fallback has none. Steps of chains have scratch memory for `one_thread`.
    """

    first: int
    stop: int
    record: int
    records: int
    one_thread: bool = False


def pieces(
    spans: Sequence[tuple[int, int]],
    regions: Sequence[ParallelRegion],
    apart: Sequence[ParallelRegion] = (),
) -> list[StepPiece]:
    """The steps one by one, but for regions, which are one piece if they are not taken
    `apart`; `spans` has of each step its first record, and how many.
    """
    result: list[StepPiece] = []
    starts = {r.first: r for r in regions if r not in apart}
    chained = {k for r in apart for k in range(r.first, r.stop)}
    k = 0
    while k < len(spans):
        record, records = spans[k]
        stop = k + 1
        if k in starts:
            stop = starts[k].stop
            record -= 1
            records = sum(spans[stop - 1]) - record
        result.append(StepPiece(k, stop, record, records, k in chained))
        k = stop
    return result


def merged(pieces: Sequence[StepPiece]) -> list[StepPiece]:
    """The same with native pieces that follow each other as one; the record of a region
    that is taken apart is in none."""
    joined: list[StepPiece] = []
    for piece in pieces:
        last = joined[-1] if joined else piece
        alike = last.records and piece.records and last.one_thread == piece.one_thread
        if alike and last.record + last.records == piece.record:
            records = last.records + piece.records
            joined[-1] = last._replace(stop=piece.stop, records=records)
        else:
            joined.append(piece)
    return joined


class EarlyCuts:
    """The groups of a Listener that a program makes, by the steps after which they are
    there; its pieces are cut at these."""

    def __init__(
        self, linked: Linked, listener: Listener, results: Mapping[int, Any]
    ) -> None:
        self.linked, self.listener = linked, listener
        buffer = {number: n for number, n, _ in linked.interface.results}
        written = (linked.first or linked).program.written_by  # of all sizes
        numbers, listener.results = (
            listener.results,
            {},
        )  # programs of bodies make others
        self.waiting: list[tuple[int, int, dict[int, Any]]] = []
        for k, group in enumerate(listener.groups):
            if group and all(numbers.get(serial) in results for serial in group):
                last = max(written.get(buffer[numbers[s]], -1) for s in group)
                self.waiting.append((last, k, {s: results[numbers[s]] for s in group}))
        self.waiting.sort(key=lambda one: one[:2], reverse=True)

    def pieces(self, pieces: Sequence[StepPiece]) -> list[StepPiece]:
        """The same, where each group is there at the end of one of them."""
        spans = self.linked.spans
        ends = sorted({last + 1 for last, _, _ in self.waiting})
        parts: list[StepPiece] = []
        for piece in pieces:
            inside = [x for x in ends if piece.first < x < piece.stop]
            for stop in inside if piece.records else ():
                # Of the steps before the cut: the last one's record is the last.
                records = sum(spans[stop - 1]) - piece.record
                if records:
                    parts.append(piece._replace(stop=stop, records=records))
                    rest = piece.records - records
                    piece = piece._replace(
                        first=stop, record=piece.record + records, records=rest
                    )
            if piece.records or not inside:
                parts.append(piece)
        return parts

    def passed(self, stop: int) -> None:
        """Tell of what is there when all steps before `stop` have run."""
        while self.waiting and self.waiting[-1][0] < stop:
            _, k, arrays = self.waiting.pop()
            self.listener.tell(k, arrays)
