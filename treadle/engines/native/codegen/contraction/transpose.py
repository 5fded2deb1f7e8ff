"""Squares of vectors transposed in registers."""

from __future__ import annotations

from treadle.engines.native.codegen.builder import Builder, Value, lanes
from treadle.engines.native.codegen.contraction.text import shuffle


def transpose(b: Builder, rows: list[Value]) -> list[Value]:
    """The columns of a square of vectors of numbers, by shuffles of pairs.

    First the squares inside lanes of 16 bytes are transposed, then those lanes as if
    elements: both kinds of shuffle are one instruction on x86 and plain zips elsewhere.
    """
    count = lanes(rows[0].type)
    inner = min(count, 2 if "double" in rows[0].type else 4)
    return _between(b, _inside(b, rows, inner), inner)


def _inside(b: Builder, rows: list[Value], inner: int) -> list[Value]:
    """Transpose the square in each `inner` lanes of each `inner` rows."""
    count = len(rows)
    unit = 1
    while unit < inner:
        turned = list(rows)
        for i in range(count):
            if i % (2 * unit) >= unit:
                continue
            for half in (0, 1):  # units of one half of each square, in turn

                def pick(lane: int, unit: int = unit, half: int = half) -> int:
                    place = lane % inner
                    block, within = divmod(place, unit)
                    source = half * (inner // 2) + block // 2 * unit + within
                    return lane - place + source + count * (block % 2)

                turned[i + half * unit] = shuffle(b, rows[i], rows[i + unit], pick)
        rows = turned
        unit *= 2
    order = [0, 2, 1, 3] if inner == 4 else list(range(inner))
    return [rows[i - i % inner + order[i % inner]] for i in range(count)]


def _between(b: Builder, rows: list[Value], inner: int) -> list[Value]:
    """Transpose the squares of groups of `inner` lanes, rows `inner` apart."""
    count = len(rows)
    unit = 1
    while unit < count // inner:
        turned = list(rows)
        for i in range(count):
            if i // inner % (2 * unit) >= unit:
                continue
            for shift in (0, unit):

                def pick(lane: int, unit: int = unit, shift: int = shift) -> int:
                    group, within = divmod(lane, inner)
                    odd = group // unit % 2
                    return (group - unit * odd + shift) * inner + within + count * odd

                other = i + unit * inner
                turned[i + shift * inner] = shuffle(b, rows[i], rows[other], pick)
        rows = turned
        unit *= 2
    return rows
