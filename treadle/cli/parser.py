"""Words of a command line, and what is told of wrong ones: one line, no traceback."""

from __future__ import annotations

import argparse
import sys
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
