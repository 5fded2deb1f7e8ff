"""The memory of a run over its steps, as a picture: each value where it lies."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.base.sizes import as_text
from treadle.engines.lowered import Stay
from treadle.runtime.memory import Memory, Stepping, memory
from treadle.viz.boxes import Picture
from treadle.viz.curve import nice_ticks

__all__ = ["show_memory"]

COLORS = ("#93c5fd", "#fcd34d", "#86efac", "#f9a8d4", "#c4b5fd", "#fdba74", "#a5f3fc")
WIDTH, HEIGHT = 900, 420
LEFT, RIGHT, TOP, BOTTOM = 84, 20, 48, 44
MOST = 4000  # values that are drawn, the largest: others are hardly to be seen
FONT = 'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif"'


def show_memory(
    *tensors: Any, optimizer: Stepping | None = None, path: str | Path | None = None
) -> Picture:
    """A picture of the planned memory of a run from step to step.

    It takes what `td.memory` takes, or what that has returned. Values made at one line
    have one color, and tell of themselves under the pointer; the line on top is what is
    alive. With `path` the SVG is written there too.

    >>> import treadle as td
    >>> w = td.zeros((64, 64))
    >>> td.show_memory(td.softmax(td.cumulative_sum(w) @ w) @ w).svg.startswith("<svg")
    True
    """
    if len(tensors) == 1 and isinstance(tensors[0], Memory):
        if optimizer is not None:
            raise ArgumentError("a report is of an optimizer's step already")
        report = tensors[0]
    else:
        report = memory(*tensors, optimizer=optimizer)
    picture = Picture(drawn(report))
    if path is not None:
        picture.save(path)
    return picture


def drawn(report: Memory) -> str:
    """The SVG of a report."""
    occupancy = report.occupancy
    top = max((s.offset + s.bytes for s in occupancy.stays), default=0) or 1
    count = max(len(occupancy.steps), 1)
    across = (WIDTH - LEFT - RIGHT) / count
    up = (HEIGHT - TOP - BOTTOM) / top
    base = HEIGHT - BOTTOM
    title = (
        f"{as_text(report.planned)} of values and gradients over {len(occupancy.steps)}"
        f" steps, the most at step {report.fullest}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" {FONT} font-size="12" fill="#57606a">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="15" fill="#24292f">{escape(title)}</text>',
    ]
    parts += _axes(top, count, up, across)
    largest = sorted(occupancy.stays, key=_weight, reverse=True)[:MOST]
    colors = _colors(occupancy.stays)
    for stay in largest:
        x, y = LEFT + stay.first * across, base - (stay.offset + stay.bytes) * up
        width, height = (stay.last + 1 - stay.first) * across, stay.bytes * up
        parts.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="{colors[_source(stay)]}" stroke="white" stroke-width="0.5">'
            f"<title>{escape(_told(stay))}</title></rect>"
        )
    points = [
        f"{LEFT + (k + more) * across:.2f},{base - live * up:.2f}"
        for k, live in enumerate(occupancy.live)
        for more in (0, 1)
    ]
    parts.append(
        f'<polyline points="{" ".join(points)}" fill="none" stroke="#1f2937" '
        'stroke-width="1.2" pointer-events="none"/>'
    )
    return "\n".join([*parts, "</svg>", ""])


def _axes(top: int, count: int, up: float, across: float) -> list[str]:
    """Bytes upward, steps to the right."""
    base, parts = HEIGHT - BOTTOM, []
    for tick in nice_ticks(0, top):
        if tick <= top * 1.001:
            y = base - tick * up
            parts.append(
                f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" '
                'stroke="#e5e7eb"/>'
                f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">'
                f"{as_text(tick)}</text>"
            )
    for tick in nice_ticks(0, count, 9):
        if tick == int(tick) and tick < count:
            x = LEFT + (tick + 0.5) * across
            parts.append(
                f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">'
                f"{int(tick)}</text>"
            )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">step</text>'
    )
    return parts


def _weight(stay: Stay) -> int:
    """The area that a value takes in the picture."""
    return stay.bytes * (stay.last + 1 - stay.first)


def _source(stay: Stay) -> str:
    return stay.line or stay.holds


def _colors(stays: Sequence[Stay]) -> dict[str, str]:
    """A color for each line of the user's, in the order of the steps."""
    sources = dict.fromkeys(map(_source, sorted(stays, key=lambda s: s.first)))
    return {source: COLORS[k % len(COLORS)] for k, source in enumerate(sources)}


def _told(stay: Stay) -> str:
    """What is told of a value."""
    words = " ".join(word for word in (stay.type, stay.holds) if word)
    steps = (
        f"steps {stay.first} to {stay.last}, {stay.bytes:,} bytes at {stay.offset:,}"
    )
    return "\n".join(filter(None, (words, steps, stay.line)))
