"""The terminal: words of a command line, errors in one line, and rows of results."""

from __future__ import annotations

import argparse
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from treadle.base.errors import TreadleError


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


def show(
    rows: Iterable[Sequence[object]],
    head: Sequence[str] = (),
    right: Sequence[int] = (),
    wrap: bool = False,
) -> None:
    """Rows in columns, those numbered in `right` flush right; the last may wrap."""
    cells = [[str(cell) for cell in row] for row in [*([head] if head else []), *rows]]
    count = max(map(len, cells), default=0)
    cells = [[*row, *[""] * (count - len(row))] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    left = sum(widths[:-1]) + 2 * max(count - 1, 0)  # where the last column begins
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
    for *front, last in cells:
        begin = "".join(
            (cell.rjust(n) if k in right else cell.ljust(n)) + "  "
            for k, (cell, n) in enumerate(zip(front, widths, strict=False))
        )
        if count - 1 in right:
            last = last.rjust(widths[-1])
        lines = (
            textwrap.wrap(last, max(wide - left, 20), break_on_hyphens=False)
            if wrap
            else []
        )
        print((begin + (lines[0] if lines else last)).rstrip())
        for line in lines[1:]:
            print(" " * left + line)
