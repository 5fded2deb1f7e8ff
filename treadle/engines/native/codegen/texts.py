"""Texts of functions, written once for all processes.

Machine code is found on disk by its text, and to write that text takes longer than to
read the code. So a text lies there too, by what it is written from: a kernel's digest,
the host, and the state of the package's own files, which is told as Python tells
whether its bytecode is up to date: by their sizes and the times they were changed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from pathlib import Path
from typing import ParamSpec, Protocol, cast

import treadle
from treadle.base.caches import cached
from treadle.engines.native.codegen.cache import disk_cache, key
from treadle.engines.native.system.host import host

_P = ParamSpec("_P")

ENTRIES = 256  # of a table of parts
TABLES = re.compile(rb"parts_[0-9a-f]{24}")
_PLACE = re.compile(r"; part (\d+) of (parts_[0-9a-f]{24})\n")


@dataclass(frozen=True)
class FunctionText:
    """LLVM IR that defines `name`; what else it defines is internal to it."""

    name: str
    text: str


class FunctionParts(Protocol):
    """The parts of functions, which have numbers; so many arguments tell of them."""

    @property
    def span(self) -> int: ...

    def table(self, number: int) -> str:
        """The name of the table that the parts of a function are in."""

    def needed(self, number: int, following: Sequence[int]) -> Collection[int]:
        """The parts that are needed of a function, by the arguments from it on."""

    def part(self, number: int, index: int) -> FunctionText:
        """One part of a function."""


@dataclass(frozen=True)
class FunctionChoice:
    """One of several functions: that of a number, which the run may tell. `parts` knows
    what each goes on in.
    """

    functions: tuple[FunctionText, ...]
    number: int
    parts: FunctionParts

    def texts(self, number: int, following: Sequence[int]) -> dict[str, str]:
        """The texts that are needed, by name, of the function of a number, by the
        arguments from it on.
        """
        needed = self.parts.needed(number, following)
        parts = [self.parts.part(number, index) for index in needed]
        return {f.name: f.text for f in (self.functions[number], *parts)}


def headed(index: int, table: str) -> str:
    """The first line of a text whose function is a part in a table."""
    return f"; part {index} of {table}\n"


def place_of(text: str) -> tuple[str, int] | None:
    """The table that a text's function is a part of, and its place; None if none."""
    match = _PLACE.match(text)
    return (match[2], int(match[1])) if match else None


def kept_text(fact: str, write: Callable[[], FunctionText]) -> FunctionText:
    """The function that `write` makes, found on disk where it was made before.

    `fact` says all that it is made from, but for the host and the package itself.
    """
    cache, state = disk_cache(), sources()
    if cache is None or not state:
        return write()
    place = key("text", treadle.__version__, state, repr(host()), fact)
    content = cache.read(place)
    if content is not None:
        name, _, text = content.decode().partition("\n")
        return FunctionText(name, text)
    function = write()
    cache.write(place, f"{function.name}\n{function.text}".encode())
    return function


def lasting(write: Callable[_P, FunctionText]) -> Callable[_P, FunctionText]:
    """A function of plain facts that writes a text, which is kept here and on disk."""

    @wraps(write)
    def wrapper(*arguments: _P.args, **more: _P.kwargs) -> FunctionText:
        fact = f"{write.__module__}.{write.__qualname__}{arguments!r}{more!r}"
        return kept_text(fact, lambda: write(*arguments, **more))

    return cast(Callable[_P, FunctionText], cached(256)(wrapper))


@cache
def sources() -> str:
    """The files that texts are written by, as they are now; empty if none is seen."""
    root = Path(__file__).resolve().parents[3]
    try:
        return " ".join(_stamps(os.fspath(root)))
    except OSError:  # in an archive, say
        return ""


def _stamps(folder: str) -> Iterator[str]:
    with os.scandir(folder) as lying:
        entries = sorted(lying, key=lambda e: e.name)
    for entry in entries:
        if entry.name.endswith(".py"):
            about = entry.stat()
            yield f"{entry.name} {about.st_size} {about.st_mtime_ns}"
        elif entry.is_dir() and entry.name != "__pycache__":
            yield f"{entry.name}/"
            yield from _stamps(entry.path)
