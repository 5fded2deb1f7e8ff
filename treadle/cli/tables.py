"""Rows on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from treadle.base.extras import extra

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 100  # columns where nobody says how many there are
ENDLESS = 10_000


def console() -> Console:
    """The console of a command: as wide as the terminal, of fixed width in files."""
    wide = None if sys.stdout.isatty() else WIDE
    return extra("rich.console", "cli").Console(width=wide, highlight=False)


def show(
    rows: Iterable[Sequence[object]],
    head: Sequence[str] = (),
    right: Sequence[int] = (),
    wrap: bool = False,
) -> None:
    """Rows in columns, those numbered in `right` flush right; the last may wrap."""
    rich = extra("rich.console", "cli")
    text = extra("rich.text", "cli").Text
    table = extra("rich.table", "cli").Table(
        box=None, show_header=bool(head), pad_edge=False, padding=(0, 2, 0, 0)
    )
    cells = [[str(cell) for cell in row] for row in rows]
    for k in range(len(head) or max(map(len, cells), default=0)):
        name = head[k] if head else ""
        table.add_column(
            text(name),
            justify="right" if k in right else "left",
            overflow="fold",
            no_wrap=k < len(cells[0]) - 1,
        )
    for row in cells:
        table.add_row(*map(text, row))
    out = console() if wrap else rich.Console(width=ENDLESS, highlight=False)
    with out.capture() as written:
        out.print(table)
    for line in written.get().splitlines():
        print(line.rstrip())
