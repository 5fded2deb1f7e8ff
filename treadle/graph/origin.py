"""Origins: the line of the user's code where a node was made."""

from __future__ import annotations

import contextlib
import dis
import functools
import linecache
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from types import CodeType, FrameType

from treadle.base.boundary import HANDS_ON
from treadle.base.caches import Cache
from treadle.base.errors import locators
from treadle.base.types import Type
from treadle.graph.operators import functions
from treadle.graph.table import LATER

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PASSING = (contextlib.__file__, functools.__file__)  # they hand our calls on
# By file name, whether it is of the library.
library: Cache[str, bool] = Cache("files", 4096)
# Of the library, what only calls other functions.
handing_on: set[CodeType] = {HANDS_ON}
_getframe = sys._getframe
provided = vars(functions)  # of what other layers put there

Origin = tuple[CodeType | None, int]


def _is_ours(filename: str) -> bool:
    ours = filename.startswith((_HOME, "<string>", "<frozen")) or filename in _PASSING
    library[filename] = ours
    return ours


class _Held(threading.local):
    origin: Origin | None = None


_held = _Held()
holding: list[int] = []  # the threads that hold an origin: if none does, nobody asks


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Let all nodes made within have the origin of here: a compilation makes many."""
    before = _held.origin
    _held.origin = capture()
    holding.append(threading.get_ident())
    try:
        yield
    finally:
        holding.remove(threading.get_ident())
        _held.origin = before


def capture(depth: int = 2) -> Origin:
    """The first frame outside the library as (code, offset): cheap, resolved later."""
    if holding and _held.origin is not None:
        return _held.origin
    try:
        frame: FrameType | None = _getframe(depth)
    except ValueError:  # the library is called by no Python at all
        return None, 0
    while frame is not None:
        code = frame.f_code
        try:
            ours = library[code.co_filename]
        except KeyError:
            ours = _is_ours(code.co_filename)
        if not ours:
            return code, frame.f_lasti
        frame = frame.f_back
    return None, 0


def warn(message: str) -> None:
    """A warning at the user's line; Python shows one a line unless it is told to."""
    frame: FrameType | None = _getframe(1)
    level = 2
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def call() -> tuple[str, str, str]:
    """The library function the user called, the types of its tensors, the line."""
    frame: FrameType | None = sys._getframe(1)
    inner: FrameType | None = None
    while frame is not None and library.get(
        frame.f_code.co_filename, _is_ours(frame.f_code.co_filename)
    ):
        if frame.f_code not in handing_on:
            inner = frame
        frame = frame.f_back
    if inner is None or frame is None:
        return "", "", ""
    code, values = inner.f_code, inner.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    arguments = [values.get(name) for name in code.co_varnames[:count]]
    types = [getattr(x, "type", None) for x in arguments]
    operands = ", ".join(repr(t) for t in types if isinstance(t, Type))
    origin = frame.f_code, frame.f_lasti
    name = code.co_name.strip("_")
    if name == "init" and arguments:
        name = type(arguments[0]).__name__
    return name, operands, describe(origin)


locators.append(call)

# Inside a call: what passes a user's number on, down to where it becomes a node.
plumbing = frozenset(
    {
        "<listcomp>",
        "_weakly",
        "as_float",
        "beside",
        "binary",
        "operands",
        "unary",
        *LATER,
    }
)


# Numbers by code (its id) and offset, with the code, which keeps its id meanwhile.
written: Cache[tuple[int, int], tuple[CodeType, tuple[float, ...]]]
written = Cache("numbers in expressions", 4096)
# Of code: where each of its instructions stands, and its numbers with their places.
_Place = tuple[tuple[int, int], tuple[int, int]]  # lines and columns
_Numbers = tuple[CodeType, list[_Place | None], list[tuple[_Place | None, float]]]
_numbers: Cache[int, _Numbers] = Cache("numbers in code", 256)
_keys: Cache[tuple[int, int], tuple[CodeType, bool]] = Cache("keys in code", 4096)
CONSTANTS = "LOAD_CONST", "LOAD_SMALL_INT"


def written_at(code: CodeType, offset: int) -> tuple[float, ...]:
    """The numbers that stand in the expression which an instruction evaluates: of an
    operator at one of its sides, of a call anywhere between its parentheses."""
    site = id(code), offset
    numbers = written.get(site)
    if numbers is None:
        numbers = written[site] = code, tuple(_written_at(code, offset))
    return numbers[1]


def _written_at(code: CodeType, offset: int) -> Iterator[float]:
    known = _numbers.get(id(code))
    if known is None:
        known = _numbers[id(code)] = code, [*_places(code)], [*_numbers_of(code)]
    _, places, numbers = known
    here = places[offset // 2] if offset >= 0 else None
    sides = dis.opname[code.co_code[offset]].startswith(("BINARY", "COMPARE"))
    for place, value in numbers:
        if here is None or place is None:  # Python was told to keep no places
            among = True
        elif sides:
            among = place[0] == here[0] or place[1] == here[1]
        else:
            among = here[0] <= place[0] and place[1] <= here[1]
        if among:
            yield value


def _places(code: CodeType) -> Iterator[_Place | None]:
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or column is None or end_column is None:
            yield None
        else:
            yield (line, column), (end_line, end_column)


def _numbers_of(code: CodeType) -> Iterator[tuple[_Place | None, float]]:
    places = [*_places(code)]
    for x in dis.get_instructions(code):
        if x.opname in CONSTANTS:
            constants = x.argval if isinstance(x.argval, tuple) else (x.argval,)
            for value in constants:
                if type(value) in (int, float):
                    yield places[x.offset // 2], value


def is_written(value: float, frame: FrameType | None) -> bool:
    """Return True if a number stands in the expression that asked for an op, rather
    than in data; `frame` is the innermost that may have.

    Numbers in the library's own rules do; a user's if he wrote it there, not if it has
    a name or was computed. A wrong guess costs a compilation or a rewriting, never a
    value.
    """
    asking, ours = _asking(frame)
    if asking is None:
        return ours
    known = written_at(asking.f_code, asking.f_lasti)
    return any(type(c) is type(value) and c == value for c in known)


def is_key_written(frame: FrameType | None) -> bool:
    """Return True if the key of a subscript is a constant of the program, or of the
    library's own rules; `frame` is as above. Other keys of elements are data.
    """
    asking, ours = _asking(frame)
    if asking is None:
        return ours
    code, offset = asking.f_code, asking.f_lasti
    known = _keys.get((id(code), offset))
    if known is None:
        known = _keys[id(code), offset] = code, _has_constant_key(code, offset)
    return known[1]


def _has_constant_key(code: CodeType, offset: int) -> bool:
    known = []
    for x in dis.get_instructions(code):
        if x.offset > offset:  # a call that Python takes inline lies behind its caches
            break
        if x.opname not in ("CACHE", "EXTENDED_ARG"):
            known.append((x.opname, x.arg))
    if not known or not known[-1][0].startswith(("BINARY", "STORE_SUBSCR")):
        return True
    wanted = 1  # constants yet to come, from the last one on
    for name, count in reversed(known[:-1]):
        builds = name in ("BUILD_TUPLE", "BUILD_SLICE")
        if not builds and name not in CONSTANTS:
            return False
        wanted += (count or 0) - 1 if builds else -1
        if not wanted:
            return True
    return False


def _asking(frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """The frame of the user's that asked for an op; None where there is none, and then
    whether a rule of the library's did."""
    while frame is not None:
        code = frame.f_code
        ours = library.get(code.co_filename)
        if ours is None:
            ours = _is_ours(code.co_filename)
        if not ours:
            return frame, False
        name = code.co_name
        passes = name in plumbing or name in provided or name[:2] == "__"
        if not (passes or code in handing_on):
            return None, True
        frame = frame.f_back
    return None, False


def line_of(origin: Origin) -> tuple[str, int] | None:
    """File and line of an origin."""
    code, offset = origin
    if code is None:
        return None
    number = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            number = line
            break
    return code.co_filename, number


def describe(origin: Origin) -> str:
    """`file:line: source` for an error message; empty when it is not known."""
    place = line_of(origin)
    if place is None:
        return ""
    filename, number = place
    source = linecache.getline(filename, number).strip()
    return f"{filename}:{number}" + (f": {source}" if source else "")
