"""`treadle cache`: the machine code that is kept on disk."""

from __future__ import annotations

import argparse
from typing import Any

from treadle.base.sizes import as_text
from treadle.cli.parser import command, show
from treadle.runtime.lower import cache_info, clear_cache


def add(commands: Any) -> None:
    """Say what words the command takes."""
    parser = command(commands, "cache", "machine code kept on disk")
    parser.add_argument("--clear", action="store_true", help="remove all of it")
    parser.set_defaults(run=cache)


def cache(arguments: argparse.Namespace) -> int:
    """Show the place and the size of what is kept, or clear it."""
    before = cache_info(disk=True)
    if arguments.clear:
        clear_cache(disk=True)
    info = cache_info(disk=True)
    rows: list[tuple[str, str]] = [
        ("place", info.disk or "none"),
        ("files", f"{info.disk_files:,}"),
        ("bytes", f"{info.disk_bytes:,}"),
    ]
    if arguments.clear:
        freed = before.disk_bytes - info.disk_bytes
        rows.append(("removed", f"{before.disk_files:,} files, {as_text(freed)}"))
    show(rows)
    return 0
