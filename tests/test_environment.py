"""docs/environment.md has every variable that the code reads, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from treadle.base.options import SETTINGS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
NAME = re.compile(r"\bTREADLE_[A-Z]+(?:_[A-Z]+)*\b")
GETENV = re.compile(r"getenv\(\"(\w+)\"")


def named_in_code() -> set[str]:
    """The variables that Python code names, and those that C++ reads."""
    names: set[str] = set()
    for folder in ("treadle", "tests", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            names.update(NAME.findall(path.read_text(encoding="utf-8")))
    for path in (ROOT / "treadle").rglob("*.cpp"):
        names.update(GETENV.findall(path.read_text(encoding="utf-8")))
    return names


def test_the_page_has_every_variable() -> None:
    options = {f"TREADLE_{name.upper()}" for name in SETTINGS if name != "rules"}
    missing = (named_in_code() | options) - set(NAME.findall(PAGE))
    assert not missing, f"docs/environment.md lacks {sorted(missing)}"


def test_the_page_has_no_other_variable() -> None:
    options = {f"TREADLE_{name.upper()}" for name in SETTINGS}
    unread = set(NAME.findall(PAGE)) - named_in_code() - options
    assert not unread, f"nothing reads {sorted(unread)}"


def test_a_variable_has_one_row() -> None:
    rows = re.findall(r"^\| `(TREADLE_\w+)`", PAGE, re.MULTILINE)
    assert len(rows) == len(set(rows))
    assert set(NAME.findall(PAGE)) - set(rows) <= {
        "TREADLE_BENCH_PYTHON_TORCH",
        "TREADLE_BENCH_PYTHON_DYNET",
        "TREADLE_BENCH_PYTHON_JAX",
    }
