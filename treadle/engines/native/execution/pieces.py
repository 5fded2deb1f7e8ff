"""Steps of a program that run at once, in one native call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from treadle.program.program import ParallelRegion


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
