"""docs/heritage.md has all that is in tests/heritage.py, and shows it.

That the tests it names pass is seen by the suite that they are part of; here they are
looked for in what this run of pytest has collected, or else in one of its own. Snippets
run here, each by itself.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import treadle as td
from tests.heritage import CANON

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "heritage.md").read_text(encoding="utf-8")
LATER = {
    "to_device",
    "several devices",
    "GPU engines, by CUDA, Metal or OpenCL",
    *CANON["Between processes"],
}
LINK = re.compile(r"\[(\d+)\]\(#(\d+)\)")
SNIPPET = re.compile(
    r"^### (\d+)\n\n([^\n]+)\n\n```python\n(.*?)^```\n\n```text\n(.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
SNIPPETS = {number: (code, said) for number, _, code, said in SNIPPET.findall(PAGE)}


class Row(NamedTuple):
    group: str
    had: str
    who: str
    here: str
    shown: str


def rows() -> list[Row]:
    """The rows of all tables, with the headings above them."""
    found, group = [], ""
    for line in PAGE.splitlines():
        if line.startswith("## "):
            group = line[3:]
        elif line.startswith("| ") and not line.startswith("| what they had"):
            found.append(Row(group, *line[2:-2].split(" | ")))
    return found


ROWS = rows()


def test_rows_are_those_of_the_list() -> None:
    listed = {(g, had, who) for g, all_ in CANON.items() for had, who in all_.items()}
    shown = [row[:3] for row in ROWS]
    assert not listed.difference(shown), "what they had and the page does not"
    assert not set(shown) - listed, "what the page has and nobody had"
    assert len(shown) == len(listed), "a row stands twice"
    statements = {had.split(":")[0] for had in CANON["Statements of their documents"]}
    assert statements == {f"S{k}" for k in range(1, 28)}


def test_those_who_had_it_are_of_the_five() -> None:
    for row in ROWS:
        assert row.who and re.fullmatch("M?N?D?O?S?", row.who), row


def test_later_are_only_gpus_and_several_processes() -> None:
    later = {row.had for row in ROWS if "later" in (row.here, row.shown)}
    assert later == LATER
    assert all(r.here == r.shown for r in ROWS if r.had in LATER and r.here == "later")


def is_there(name: str) -> bool:
    thing: Any = td
    for part in name.split(".")[1:]:
        thing = getattr(thing, part, None)
    return name.split(".")[0] == "td" and thing is not None


def test_names_import() -> None:
    for row in ROWS:
        if row.here != "later":
            names = re.findall(r"`([^`]+)`", row.here)
            assert names and all(map(is_there, names)), row


def collected(files: set[str]) -> set[str]:
    """The tests of some files as pytest names them, and each without its case."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:warnings"]
    left = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, *sorted(files)], cwd=ROOT, env=left, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    ids = {line for line in done.stdout.splitlines() if "::" in line}
    return with_functions(ids)


def with_functions(ids: set[str]) -> set[str]:
    return ids | {one.split("[")[0] for one in ids}


def test_the_tests_it_names_are_collected(request: pytest.FixtureRequest) -> None:
    named = {
        test for row in ROWS for test in re.findall(r"`([^`]+::[^`]+)`", row.shown)
    }
    here = with_functions({item.nodeid for item in request.session.items})
    others = {test.split("::")[0] for test in named - here}
    assert not named - here - (collected(others) if others else set())


def test_every_row_is_shown_and_every_snippet_is_asked_for() -> None:
    asked = set()
    for row in ROWS:
        links = LINK.findall(row.shown)
        assert links or "::" in row.shown or row.shown == "later", row
        assert all(text == target for text, target in links), row
        asked.update(text for text, _ in links)
    assert asked == set(SNIPPETS)
    assert len(SNIPPETS) == PAGE.count("\n### ")


@pytest.mark.parametrize("number", SNIPPETS)
def test_a_snippet_prints_what_the_page_says(number: str) -> None:
    code, said = SNIPPETS[number]
    out = io.StringIO()
    with td.options(seed=0), contextlib.redirect_stdout(out):
        exec(compile(code, f"snippet {number}", "exec"), {"np": np, "td": td})
    assert out.getvalue() == said
