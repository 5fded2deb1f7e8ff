"""The command `treadle`: train, look at graphs, run files, measure the machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from treadle import __version__
from treadle.base.errors import ArgumentError, OptionError, TreadleError
from treadle.base.options import current
from treadle.cli import bench, cache, info, launch, run, train, view
from treadle.cli.parser import CommandError, Parser, UsageError, complain
from treadle.engines.base import engine

COMMANDS = (train, launch, view, run, bench, info, cache)


def _parser() -> Parser:
    parser = Parser(prog="treadle", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for one in COMMANDS:
        one.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns 0, 1 (a file or a run failed), 2 (wrong use) or 130.

    >>> main(["info"]) # doctest: +ELLIPSIS
    treadle ...
    0
    """
    try:
        arguments = _parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 2
    try:
        engine(current().engine)  # TREADLE_ENGINE may name one that is not there
        return arguments.run(arguments)
    except (OptionError, UsageError) as error:
        return complain(error, 2)
    except CommandError as error:
        return complain(error, 1)
    except ArgumentError as error:
        return complain(error, 2)
    except TreadleError as error:
        return complain(error, 1)
    except KeyboardInterrupt:
        print("treadle: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of our output has gone
        sys.stderr.close()
        return 1
