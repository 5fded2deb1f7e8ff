"""Every Python block of the pages runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

import treadle as td
from treadle.engines.native.system.host import host

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_page(page: Path) -> None:
    """Run a page's blocks in one namespace, comparing what is printed."""
    names: dict[str, object] = {"__name__": "page"}
    printed = ""
    for language, source in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(source, str(page), "exec"), names)
            printed = out.getvalue()
        elif language == "text":
            assert printed == source, f"{page.name} shows something else"
            printed = ""


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_a_page_shows_what_it_prints(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On whichever host: kernels are those of a level that most have."""
    if host().triple.startswith("x86_64"):
        monkeypatch.setenv("TREADLE_CPU", "x86-64-v3")
    with td.options(seed=0):
        run_page(page)


def test_the_first_program_prints_the_same_twice() -> None:
    run_page(ROOT / "README.md")
    run_page(ROOT / "README.md")


def test_the_miniature_runs() -> None:
    path = ROOT / "docs" / "miniature.py"
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "z = 6.909297, z' = 2.583853, z'' = -0.909297",
        "x = 1.987081",
    ]
    assert len(path.read_text().splitlines()) <= 160


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(LINK, page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


CODE = re.compile(r"`((?:[\w.]+/)+[\w.]*)`")
# A page may leave out what all of its paths begin with.
BASES = ("", "treadle", "treadle/engines/native")


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_files_that_a_page_names_are_there(name: str) -> None:
    paths = set(CODE.findall((ROOT / name).read_text(encoding="utf-8")))
    assert len(paths) > 4
    built = {"build/site"}
    missing = [
        path
        for path in sorted(paths - built)
        if not any((ROOT / base / path).exists() for base in BASES)
    ]
    assert not missing


def test_files_that_worked_examples_name_are_there() -> None:
    for page in sorted((ROOT / "docs" / "howto").glob("*.md")):
        for path in CODE.findall(page.read_text(encoding="utf-8")):
            places = [ROOT / base / path for base in BASES]
            assert any(place.exists() for place in places), f"{page.name}: {path}"
