"""docs/glossary.md: each term occurs in the sources, and each identifier is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| ([^*|][^|]*) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
ROWS = [row for row in ROW.findall(PAGE) if row[0] not in ("term", "---")]
FILES = [
    path
    for ending in ("py", "cpp", "hpp")
    for path in sorted((ROOT / "treadle").rglob(f"*.{ending}"))
]
TEXT = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
# Docstrings, comments and identifiers; CamelCase and snake_case are taken apart.
WORDS = re.sub(r"[\s_\-]+", " ", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", TEXT)).lower()


def terms(cell: str) -> list[str]:
    """The terms of a row: "cotangent, tangent" has two, "unit (fusion cluster)" too."""
    return [t.strip() for t in re.split(r"[,()]", cell) if t.strip()]


def plain(term: str) -> str:
    """A term as words in lower case."""
    return term.lower().replace("-", " ")


def test_each_concept_has_one_row() -> None:
    found = [term.lower() for cell, _, _ in ROWS for term in terms(cell)]
    assert len(ROWS) > 60
    assert len(found) == len(set(found)), "a term stands twice"
    assert 60 <= len(PAGE.splitlines()) <= 90


def test_each_term_occurs_in_the_sources() -> None:
    missing = [
        term
        for cell, _, _ in ROWS
        for term in terms(cell)
        if not re.search(rf"\b{re.escape(plain(term))}(e?s|d)?\b", WORDS)
    ]
    assert not missing, f"no file of treadle/ has {missing}"


def test_each_identifier_is_in_the_sources() -> None:
    names = {str(path.relative_to(ROOT / "treadle")) for path in FILES}
    missing = []
    for cell, _, code in ROWS:
        for name in re.findall(r"`([^`]+)`", code):
            if name.endswith(".py"):
                there = any(n == name or n.endswith(f"/{name}") for n in names)
            else:
                there = bool(re.search(rf"\b{re.escape(name)}\b", TEXT))
            if not there:
                missing.append(f"{cell}: {name}")
    assert not missing, missing
