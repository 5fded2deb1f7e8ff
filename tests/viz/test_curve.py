"""Curves are well-formed, within the frame, and say what they show."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.viz.curve import curve_svg, nice_ticks, smooth

SVG = "{http://www.w3.org/2000/svg}"


def points(svg: str) -> list[tuple[float, float]]:
    paths = [p.get("d", "") for p in ElementTree.fromstring(svg).iter(f"{SVG}path")]
    pairs = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", " ".join(paths))
    return [(float(x), float(y)) for x, y in pairs]


def test_it_shows_what_it_is_given() -> None:
    svg = curve_svg(
        {"loss <raw>": [2.0, 1.0, 0.5]}, title="a & b", x_label="step", y_label="loss"
    )
    words = [t.text for t in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    assert {"a & b", "step", "loss", "loss <raw> 0.5"} <= set(words)
    drawn = points(svg)
    assert len(drawn) == 3 and [y for _, y in drawn] == sorted(y for _, y in drawn)


def test_long_series_are_thinned_and_smoothed() -> None:
    values = [math.exp(-k / 9000) + 0.1 * math.sin(k) for k in range(40_000)]
    svg = curve_svg({"loss": values})
    assert len(points(svg)) < 3000 and svg.count("<path") == 2 and len(svg) < 80_000


def test_one_picture_for_one_input() -> None:
    values = {"a": [1.0, 2.0], "b": [2.0]}
    assert curve_svg(values) == curve_svg(values)


def test_gaps() -> None:
    svg = curve_svg({"a": [1.0, math.nan, 2.0, math.inf, 3.0]})
    path = next(ElementTree.fromstring(svg).iter(f"{SVG}path")).get("d", "")
    assert path.count("M") == 3 and "nan" not in svg and "inf" not in svg


anything = st.lists(st.floats(-1e300, 1e300) | st.sampled_from([math.nan, math.inf]))


@given(st.dictionaries(st.text("abc<&'", max_size=4), anything, max_size=3))
def test_any_numbers(series: dict[str, list[float]]) -> None:
    for x, y in points(curve_svg(series, title="<'&\">")):
        assert 0 <= x <= 760 and 0 <= y <= 440


@pytest.mark.parametrize(
    "low, high", [(0, 1), (0.03, 2.31), (-5, 5), (1, 1), (0, 0), (1e-9, 3e-9), (3, 9e8)]
)
def test_ticks_cover_and_are_few(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert 2 <= len(ticks) <= 13
    assert ticks[0] <= low + 1e-12 and ticks[-1] >= high - 1e-12


def test_smooth_is_a_mean_on_both_sides() -> None:
    assert smooth([1.0, math.nan, 4.0, 4.0], reach=1) == [1.0, 2.5, 4.0, 4.0]
    assert math.isnan(smooth([math.nan])[0]) and smooth([]) == []
    line = [float(k) for k in range(50)]
    assert smooth(line) == pytest.approx(line), "no lag"
