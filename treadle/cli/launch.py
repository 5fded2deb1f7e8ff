"""`treadle launch`: a program on several ranks of this machine."""

from __future__ import annotations

import argparse
from typing import Any

from treadle.cli.parser import command
from treadle.distributed.launch import launch


def add(commands: Any) -> None:
    """Say what words the command takes."""
    parser = command(commands, "launch", "run a program on several ranks")
    words = parser.add_argument
    words("-n", "--ranks", type=int, metavar="N", required=True, help="how many ranks")
    words("-m", "--module", action="store_true", help="PROGRAM is a module")
    words("program", metavar="PROGRAM", help="a Python file")
    words("arguments", nargs=argparse.REMAINDER, metavar="...", help="its arguments")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Run the program on all ranks; the exit code of the first that failed."""
    command = arguments.ranks, arguments.program, arguments.arguments
    return launch(*command, module=arguments.module)
