"""The memory of a run over its steps, as a picture: each value where it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
OTHERS = "#d1d5db"  # of lines that have no color of their own
WIDTH, HEIGHT = 900, 420
LEFT, RIGHT, TOP, BOTTOM = 84, 20, 48, 44
ENTRY = 20  # height of a line of the legend
SOURCE = 92  # characters of a user's line in it
MOST = 4000  # values that are drawn, the largest: others are hardly to be seen
FEW = 4  # lines below which ops are told apart
BY = "\0"  # between a line and an op
FONT = 'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif"'


def show_memory(
    *tensors: Any, optimizer: Stepping | None = None, path: str | Path | None = None
) -> Picture:
    """A picture of the planned memory of a run from step to step.

    It takes what `td.memory` takes, or what that has returned. Values made at one line,
    where there are few lines of one op at one line, have one color; the legend tells
    those that take the most bytes times steps, the pointer each. The line on top is
    what is alive. With `path` the SVG is written there too.

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
    source = _sources(occupancy.stays)
    colors, legend = _colors(occupancy.stays, source)
    tall = HEIGHT + ENTRY * len(legend) + (8 if legend else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall}" '
        f'width="{WIDTH}" height="{tall}" {FONT} font-size="12" fill="#57606a">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="28" font-size="15" fill="#24292f">{escape(title)}</text>',
    ]
    parts += _axes(top, count, up, across)
    largest = sorted(occupancy.stays, key=_weight, reverse=True)[:MOST]
    for stay in largest:
        x, y = LEFT + stay.first * across, base - (stay.offset + stay.bytes) * up
        width, height = (stay.last + 1 - stay.first) * across, stay.bytes * up
        color = colors.get(source(stay), OTHERS)
        parts.append(
            f'<rect x="{x:.2f}" y="{y:.2f}" width="{width:.2f}" height="{height:.2f}" '
            f'fill="{color}" stroke="white" stroke-width="0.5">'
            f"<title>{escape(_tooltip(stay))}</title></rect>"
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
    for k, (color, words) in enumerate(legend):
        parts += _entry(HEIGHT + ENTRY * k + 8, color, words)
    return "\n".join([*parts, "</svg>", ""])


def _entry(y: float, color: str, words: str) -> list[str]:
    """A line of the legend."""
    return [
        f'<rect x="{LEFT}" y="{y:.0f}" width="12" height="12" rx="2" fill="{color}"/>',
        f'<text x="{LEFT + 20}" y="{y + 10:.0f}">{escape(words)}</text>',
    ]


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


def _sources(stays: Sequence[Stay]) -> Callable[[Stay], str]:
    """The source that has one color: a line of the user's, or one op at it."""
    if len({stay.line for stay in stays}) >= FEW:
        return lambda stay: stay.line or stay.holds
    return lambda stay: f"{stay.line}{BY if stay.line else ''}{stay.holds}"


def _colors(
    stays: Sequence[Stay], source_of: Callable[[Stay], str]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Colors of the sources that take the most, and the lines of a legend."""
    weights: dict[str, int] = {}
    highest: dict[str, int] = {}
    for stay in stays:
        source = source_of(stay)
        weights[source] = weights.get(source, 0) + _weight(stay)
        highest[source] = max(highest.get(source, 0), stay.bytes)
    ranked = sorted(weights, key=lambda source: -weights[source])
    colors = dict(zip(ranked, COLORS, strict=False))
    legend = [
        (color, f"{_short(source)}, up to {as_text(highest[source])} a value")
        for source, color in colors.items()
    ]
    if len(ranked) > len(colors):
        legend.append((OTHERS, f"{len(ranked) - len(colors)} more"))
    return colors, legend


def _short(source: str) -> str:
    """A line of the user's without the folder of its file, as long as there is room."""
    line, by, op = source.partition(BY)
    place, colon, text = line.partition(": ")
    words = f"{Path(place).name}{colon}{text}" if colon else line
    words = f"{op}, {words}" if by else words
    return words if len(words) <= SOURCE else words[: SOURCE - 3] + "..."


def _tooltip(stay: Stay) -> str:
    """The tooltip of a value: its type, bytes, steps and line."""
    words = " ".join(word for word in (stay.type, stay.holds) if word)
    steps = (
        f"steps {stay.first} to {stay.last}, {stay.bytes:,} bytes at {stay.offset:,}"
    )
    return "\n".join(filter(None, (words, steps, stay.line)))
