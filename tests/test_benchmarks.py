"""The tables of the benchmarks: verdicts, what is missing, the file that is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.report import Row, report


@pytest.mark.parametrize(
    ("samples", "verdict"),
    [
        ((1.0, 1.2, 9.0), "goal met"),
        ((2.0,), "floor met"),
        ((4.0,), "below the floor"),
        ((), "nothing to measure"),
    ],
)
def test_a_median_is_held_against_floor_and_goal(
    samples: tuple[float, ...], verdict: str
) -> None:
    assert Row("a", "us", samples, 3.0, 1.5, "nothing to measure").verdict == verdict


def test_a_report_keeps_what_it_was_measured_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "node.json"
    report("node", [Row("a node", "us", (1.0, 3.0, 2.0), 3.0, 1.5)], str(path))
    assert "floor met" in capsys.readouterr().out
    kept = json.loads(path.read_text())
    assert kept["rows"][0]["median"] == 2.0
    assert set(kept) == {"workload", "commit", "cpu", "python", "versions", "rows"}
