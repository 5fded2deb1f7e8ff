"""Steps of a program that run at once, in one native call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from treadle.program.program import Region

__all__ = ["Piece", "merged", "pieces"]


class Piece(NamedTuple):
    """Steps `first` to `stop` that run at once: their first record, and how many.

    A fallback has none.
    """

    first: int
    stop: int
    record: int
    records: int


def pieces(spans: Sequence[tuple[int, int]], regions: Sequence[Region]) -> list[Piece]:
    """The steps one by one, but for regions, which are one piece; `spans` has of each
    step its first record, and how many.
    """
    result: list[Piece] = []
    starts = {r.first: r for r in regions}
    k = 0
    while k < len(spans):
        record, records = spans[k]
        stop = k + 1
        if k in starts:
            stop = starts[k].stop
            record -= 1
            records = sum(spans[stop - 1]) - record
        result.append(Piece(k, stop, record, records))
        k = stop
    return result


def merged(pieces: Sequence[Piece]) -> list[Piece]:
    """The same with native pieces that follow each other as one."""
    joined: list[Piece] = []
    for piece in pieces:
        if joined and joined[-1].records and piece.records:
            last = joined[-1]
            records = last.records + piece.records
            joined[-1] = Piece(last.first, piece.stop, last.record, records)
        else:
            joined.append(piece)
    return joined
