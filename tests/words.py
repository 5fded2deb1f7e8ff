"""Private words in identifiers: how many there are, by package.

`python -m tests.words` prints tables of `treadle/`: for each package and word the
different identifiers that have the word as a part (`moved_rows`, `HeldBack`), by the
tokenizer, and how often a name that says nothing (`found`, `own`, `made`, `given`) is
bound as a variable. With `--names` it lists the identifiers with their files;
`--most-words N` and `--most-variables N` make it fail above so many.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1] / "treadle"
WORDS = (
    "again", "beside", "held", "law", "left", "lies", "looked", "moved", "room",
    "settle", "settled", "spelled", "told", "turn",
)  # fmt: skip
VARIABLES = ("found", "given", "made", "own", "told")
# In these the word is the field's: a side of an operator, names of the array API.
FIELD = frozenset(
    ("left", "left_shift", "LeftShift", "bitwise_left_shift", "bisect_left")
)
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def identifiers(path: Path) -> Iterator[str]:
    """The identifiers of a file, each time that it stands there."""
    with tokenize.open(path) as file:
        for token in tokenize.generate_tokens(file.readline):
            if token.type == tokenize.NAME:
                yield token.string


def parts(name: str) -> set[str]:
    """The words of an identifier in lower case.

    >>> sorted(parts("HeldBack")), sorted(parts("_moved_rows2"))
    (['back', 'held'], ['2', 'moved', 'rows'])
    """
    return {part.lower() for part in PART.findall(name)}


def bound(tree: ast.AST) -> Iterator[str]:
    """The names that a file binds as variables: targets, arguments, exceptions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def package(path: Path) -> str:
    """The package of a file, "treadle" for those at its top.

    >>> package(ROOT / "ops" / "cast.py"), package(ROOT / "__main__.py")
    ('ops', 'treadle')
    """
    inner = path.relative_to(ROOT).parts
    return inner[0] if len(inner) > 1 else "treadle"


@cache
def private(files: tuple[Path, ...]) -> dict[tuple[str, str], dict[str, Counter[str]]]:
    """By package and word: the identifiers, each with its uses by file."""
    counts: dict[tuple[str, str], dict[str, Counter[str]]] = defaultdict(dict)
    for path in files:
        place = str(path.relative_to(ROOT))
        for name, times in Counter(identifiers(path)).items():
            if name in FIELD:
                continue
            for word in parts(name).intersection(WORDS):
                uses = counts[package(path), word].setdefault(name, Counter())
                uses[place] += times
    return counts


@cache
def bindings(files: tuple[Path, ...]) -> Counter[tuple[str, str]]:
    """By package and name: how often a name that says nothing is bound."""
    counts: Counter[tuple[str, str]] = Counter()
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = Counter(name for name in bound(tree) if name in VARIABLES)
        for name, count in names.items():
            counts[package(path), name] += count
    return counts


def table(
    title: str, columns: tuple[str, ...], counts: dict[tuple[str, str], int]
) -> int:
    """Print counts with a row for each package; their sum."""
    packages = sorted({p for p, _ in counts})
    shown = [c for c in columns if any(counts.get((p, c)) for p in packages)]
    width = max([len(p) for p in packages], default=5)
    print(f"{title}\n{'':{width}} {'  '.join(shown)}  all")
    for p in packages:
        row = [counts.get((p, c), 0) for c in shown]
        cells = "  ".join(
            f"{n or '':>{len(c)}}" for n, c in zip(row, shown, strict=True)
        )
        print(f"{p:{width}} {cells}  {sum(row):>3}")
    total = sum(counts.values())
    sums = [sum(counts.get((p, c), 0) for p in packages) for c in shown]
    cells = "  ".join(f"{n:>{len(c)}}" for n, c in zip(sums, shown, strict=True))
    print(f"{'all':{width}} {cells}  {total:>3}\n")
    return total


def main(words: list[str] | None = None) -> int:
    """Print the tables; 1 where there are more than is allowed."""
    parser = argparse.ArgumentParser(prog="python -m tests.words")
    parser.add_argument("--names", action="store_true", help="list the identifiers")
    parser.add_argument("--most-words", type=int, help="identifiers that may be there")
    parser.add_argument("--most-variables", type=int, help="bindings that may be there")
    chosen = parser.parse_args(words)
    files = tuple(sorted(ROOT.rglob("*.py")))
    uses = private(files)
    distinct = {name for names in uses.values() for name in names}
    table(
        "different identifiers with a private word",
        WORDS,
        {key: len(names) for key, names in uses.items()},
    )
    variables = table("bindings of names that say nothing", VARIABLES, bindings(files))
    print(f"{len(distinct)} different identifiers in all, {variables} bindings")
    if chosen.names:
        for (where, word), names in sorted(uses.items()):
            for name, places in sorted(names.items()):
                print(f"{where}: {word}: {name} ({', '.join(sorted(places))})")
    over = chosen.most_words is not None and len(distinct) > chosen.most_words
    return int(
        over
        or (chosen.most_variables is not None and variables > chosen.most_variables)
    )


if __name__ == "__main__":
    sys.exit(main())
