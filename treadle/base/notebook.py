"""Notebooks: whether this process runs one, tables for it, and errors in ten lines."""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

from treadle.base.locks import imported

CALLS = 2  # of the user's, outermost and innermost, that an error shows
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_FULL = os.environ.get("TREADLE_TRACEBACK") == "full"
_RED, _GREEN, _PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[0m"


def escaped(text: str) -> str:
    """A text as HTML."""
    return str(imported("html").escape(text))


def _shell() -> Any:
    """IPython's shell, if there is one."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def in_notebook() -> bool:
    """Whether a notebook's kernel, which shows HTML, runs this process.

    >>> in_notebook()
    False
    """
    return hasattr(_shell(), "kernel")


def table(
    rows: Iterable[Sequence[object]],
    head: Sequence[str] = (),
    right: Sequence[int] = (),
    caption: str = "",
) -> str:
    """Rows as a table of HTML, whatever their text; columns in `right` flush right.

    >>> table([("a<b", 1)], right=[1]).count("a&lt;b")
    1
    """

    def cells(kind: str, row: Sequence[object]) -> str:
        side = ["right" if k in right else "left" for k in range(len(row))]
        return "".join(
            f'<{kind} style="text-align: {where}; white-space: pre-wrap">'
            f"{escaped(str(cell))}</{kind}>"
            for where, cell in zip(side, row, strict=True)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    top = f"<thead><tr>{cells('th', head)}</tr></thead>" if head else ""
    name = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return f"<table>{name}{top}<tbody>{body}</tbody></table>"


def brief_traceback(error: BaseException) -> list[str]:
    """The lines of an error that a notebook shows: the calls that the user wrote, and
    what it says. All of it where another error caused it, or where TREADLE_TRACEBACK is
    "full".
    """
    if _FULL or error.__cause__ is not None:
        return "".join(traceback.format_exception(error)).splitlines()
    calls = list(_calls(error.__traceback__))
    lines = [f"{_RED}{type(error).__name__}{_PLAIN} (most recent call last)"]
    if len(calls) > CALLS:
        calls[1 : 1 - CALLS] = [("", 0, "", f"... {len(calls) - CALLS} more calls")]
    for filename, number, name, source in calls:
        if filename:
            within = f" in {name}" if name != "<module>" else ""
            lines.append(f"{_GREEN}{place_of(filename, number)}{_PLAIN}{within}")
        lines.append(f"    {source}")
    message = str(error)
    for filename, number, _, _ in calls:  # as the calls above are named
        message = message.replace(
            f"{filename}:{number}:", f"{place_of(filename, number)}:"
        )
    first, *more = message.splitlines() or [""]
    return [*lines, f"{_RED}{type(error).__name__}{_PLAIN}: {first}", *more]


def place_of(filename: str, number: int) -> str:
    """A file and a line, or a cell and a line, as IPython names them."""
    shell = _shell()
    named = shell.compile.format_code_name(filename) if shell is not None else None
    return f"{' '.join(named)}, line {number}" if named else f"{filename}:{number}"


def _calls(frame: TracebackType | None) -> Iterator[tuple[str, int, str, str]]:
    """The frames of the user: file, line, function and source."""
    while frame is not None:
        code, known = frame.tb_frame.f_code, frame.tb_frame.f_globals
        inside = str(known.get("__name__", "")).partition(".")[0] == "IPython"
        if not inside and not code.co_filename.startswith(_HOME):
            source = linecache.getline(code.co_filename, frame.tb_lineno, known).strip()
            yield code.co_filename, frame.tb_lineno, code.co_name, source
        frame = frame.tb_next
