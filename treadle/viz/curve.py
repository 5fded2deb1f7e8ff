"""Curves as a standalone SVG: raw values faint, their moving average on top."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

_COLORS = ("#2f6fb0", "#d9772b", "#3f9a5a", "#b8435a", "#7d5bb5", "#7a6a58")
_WIDTH, _HEIGHT = 760, 440
_LEFT, _RIGHT, _TOP, _BOTTOM = 74, 26, 74, 62
_POINTS = 1200  # more than the picture has columns
_FONT = "font-family='system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif'"

Point = tuple[float, float]
Place = Callable[[float, float], Point]


def nice_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) that cover low to high.

    >>> nice_ticks(0.03, 2.31)
    [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    """
    if not high - low > 1e-290:  # narrower, and a step would be no normal number
        width = abs(low) if abs(low) > 1e-290 else 1.0
        low, high = low - width / 2, high + width / 2
    rough = (high - low) / max(count - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(k * step, digits) for k in range(first, last + 1)]


def smooth(values: Sequence[float], reach: int = 10) -> list[float]:
    """The mean of each value and up to `reach` on either side; NaN and Inf left out.

    >>> smooth([4.0, 1.0, 1.0], reach=1)
    [4.0, 2.0, 1.0]
    """
    total, count = [0.0], [0]
    for value in values:
        known = math.isfinite(value)
        total.append(total[-1] + (value if known else 0.0))
        count.append(count[-1] + known)
    result: list[float] = []
    for k in range(len(values)):
        near = min(reach, k, len(values) - 1 - k)  # less at the ends: no lag there
        low, high = k - near, k + near + 1
        number = count[high] - count[low]
        result.append((total[high] - total[low]) / number if number else math.nan)
    return result


def curve_svg(
    series: Mapping[str, Sequence[float]],
    title: str = "",
    x_label: str = "step",
    y_label: str = "",
) -> str:
    """An SVG of one line per series over 1, 2, 3, ...; the last value is in the legend.

    >>> curve_svg({"loss": [2.0, 1.0, 0.5]}, title="training").startswith("<svg")
    True
    """
    finite = [v for values in series.values() for v in values if math.isfinite(v)]
    longest = max((len(values) for values in series.values()), default=0)
    y_ticks = nice_ticks(*_range(finite))
    x_ticks = [t for t in nice_ticks(1, max(longest, 2), 8) if t == int(t)]
    x_low, x_high = 1.0, float(max(longest, 2))
    x_ticks = [t for t in x_ticks if x_low <= t <= x_high]
    y_low, y_high = y_ticks[0], y_ticks[-1]

    def at(x: float, y: float) -> Point:
        across = (x - x_low) / (x_high - x_low)
        up = (min(max(y, y_low), y_high) - y_low) / (y_high - y_low)
        return (
            _LEFT + across * (_WIDTH - _LEFT - _RIGHT),
            _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM),
        )

    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {_HEIGHT}' "
        f"width='{_WIDTH}' height='{_HEIGHT}' role='img' {_FONT}>",
        f"<title>{escape(title)}</title>",
        f"<rect width='{_WIDTH}' height='{_HEIGHT}' fill='#ffffff'/>",
    ]
    for tick in y_ticks:
        parts += _grid_row(tick, at(x_low, tick)[1])
    for tick in x_ticks:
        parts += _grid_column(tick, at(tick, y_low)[0])
    for k, values in enumerate(series.values()):
        parts += _lines(values, _COLORS[k % len(_COLORS)], at)
    parts += _words(title, x_label, y_label)
    parts += _legend(series)
    return "\n".join([*parts, "</svg>", ""])


def _range(finite: list[float]) -> Point:
    """The range of an axis: least to greatest value, without rare spikes above."""
    if not finite:
        return 0.0, 1.0
    ordered = sorted(finite)
    low, high = ordered[0], ordered[-1]
    typical = ordered[int(0.995 * (len(ordered) - 1))]
    if high - low > 3 * (typical - low) > 0:
        high = typical * 1.1 if typical > 0 else typical
    if low > 0 and low < 0.3 * high:
        low = 0.0
    return low, max(high, low)


def _label(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.3g}"
    return f"{value:,.10g}".replace("-", "\N{MINUS SIGN}")


def _text(
    x: float, y: float, words: str, anchor: str, size: int, more: str = ""
) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' font-size='{size}' "
        f"fill='#57606a' {more}>{escape(words)}</text>"
    )


def _grid_row(tick: float, y: float) -> list[str]:
    return [
        f"<line x1='{_LEFT}' y1='{y:.1f}' x2='{_WIDTH - _RIGHT}' y2='{y:.1f}' "
        "stroke='#e6e8eb' stroke-width='1'/>",
        _text(_LEFT - 10, y + 4, _label(tick), "end", 12),
    ]


def _grid_column(tick: float, x: float) -> list[str]:
    base = _HEIGHT - _BOTTOM
    return [
        f"<line x1='{x:.1f}' y1='{base}' x2='{x:.1f}' y2='{base + 5}' "
        "stroke='#9aa2ab' stroke-width='1'/>",
        _text(x, base + 20, _label(tick), "middle", 12),
    ]


def _thin(values: Sequence[float]) -> list[Point]:
    """At most _POINTS points, keeping the least and the greatest of each stretch."""
    points = [(float(k), v) for k, v in enumerate(values, 1)]
    if len(points) <= _POINTS:
        return points
    size = math.ceil(2 * len(points) / _POINTS)
    kept: list[Point] = []
    for begin in range(0, len(points), size):
        stretch = [p for p in points[begin : begin + size] if math.isfinite(p[1])]
        if not stretch:
            kept.append((points[begin][0], math.nan))
            continue
        ends = (min(stretch, key=lambda p: p[1]), max(stretch, key=lambda p: p[1]))
        kept += sorted(set(ends))
    return kept


def _path(values: Sequence[float], at: Place) -> str:
    """Path data; a value that is not finite interrupts the line."""
    words: list[str] = []
    pen = "M"
    for x, y in _thin(values):
        if not math.isfinite(y):
            pen = "M"
            continue
        px, py = at(x, y)
        words.append(f"{pen}{px:.1f} {py:.1f}")
        pen = "L"
    return " ".join(words)


def _lines(values: Sequence[float], color: str, at: Place) -> list[str]:
    style = "fill='none' stroke-linejoin='round' stroke-linecap='round'"
    several = len(values) > 60
    raw = (
        f"<path d='{_path(values, at)}' {style} stroke='{color}' "
        f"stroke-width='{1 if several else 2}' opacity='{0.3 if several else 1}'/>"
    )
    if not several:
        return [raw]
    top = _path(smooth(values, min(max(len(values) // 40, 4), 200)), at)
    return [raw, f"<path d='{top}' {style} stroke='{color}' stroke-width='2.2'/>"]


def _words(title: str, x_label: str, y_label: str) -> list[str]:
    middle = _TOP + (_HEIGHT - _TOP - _BOTTOM) / 2
    base = _HEIGHT - _BOTTOM
    return [
        f"<line x1='{_LEFT}' y1='{base}' x2='{_WIDTH - _RIGHT}' y2='{base}' "
        "stroke='#9aa2ab' stroke-width='1'/>",
        f"<text x='{_LEFT}' y='32' font-size='17' font-weight='600' fill='#24292f'>"
        f"{escape(title)}</text>",
        _text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 16, x_label, "middle", 13),
        _text(
            20, middle, y_label, "middle", 13, f"transform='rotate(-90 20 {middle})'"
        ),
    ]


def _legend(series: Mapping[str, Sequence[float]]) -> list[str]:
    parts: list[str] = []
    x = float(_LEFT)
    for k, (name, values) in enumerate(series.items()):
        last = next((v for v in reversed(values) if math.isfinite(v)), None)
        words = name if last is None else f"{name} {last:.4g}"
        color = _COLORS[k % len(_COLORS)]
        parts.append(
            f"<line x1='{x:.1f}' y1='53' x2='{x + 18:.1f}' y2='53' stroke='{color}' "
            "stroke-width='3' stroke-linecap='round'/>"
        )
        parts.append(_text(x + 25, 57, words, "start", 12))
        x += 25 + 7 * len(words) + 22
    return parts
