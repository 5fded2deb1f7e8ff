"""The terminal: words of a command line, errors in one line, and rows of results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from treadle.base.errors import TreadleError
from treadle.base.extras import extra

if TYPE_CHECKING:
    from rich.console import Console


class UsageError(TreadleError):
    """Words that a command does not take."""

    about_a_call = False


class CommandError(TreadleError):
    """An error of a command: its input is not as it should be."""

    about_a_call = False


class Parser(argparse.ArgumentParser):
    """argparse, but a mistake is answered in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def command(commands: Any, name: str, help: str, description: str = "") -> Any:
    """A command of its own; the description is shown as it is written."""
    return commands.add_parser(
        name,
        help=help,
        description=description or help,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def complain(error: TreadleError, code: int) -> int:
    """Tell what is wrong in one line; the exit code."""
    words = f"{error.message} ({error.hint})" if error.hint else error.message
    print("treadle:", " ".join(words.split()), file=sys.stderr)
    return code


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
