"""Call signatures: the key of a call's arguments that a plan is found by.

A signature is a row of numbers: what dtype numbers get, and argument by argument of a
tensor its type, or which one it is of those before it, of a tuple or a list how many
and then those, of a number its value, of anything else that very object. Some functions
take numbers as data, which a signature does not tell: they become leaves. Some take
arrays as data, told by their format and their extents, and know which Variables they
are called with; of those of others it tells class and type, as layers are alike.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from sys import intern
from types import FrameType
from typing import Any

import numpy as np

from treadle.base.options import modes
from treadle.graph.awaited import NUMBERS
from treadle.graph.leaves import SIZES, is_small
from treadle.graph.operators import Operand
from treadle.graph.origin import is_written
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable, VariableItem

# How an argument is told, that the next one has a name, and what numbers become.
OTHER, TENSOR, TUPLE, LIST, NUMBER, SAME, WHOLE, NAMED, DTYPE = range(9)
# Beside a tensor a number stands in the code, an int or a float, or is data.
WRITTEN, WRITTEN_FLOAT, SCALAR, ARRAY, CLASS, VARIABLE = range(9, 15)
SLICE, BOUND = 15, 16  # a slice has three bounds, and tells which of them are none
NO_THING = DTYPE, NAMED, TUPLE, LIST, CLASS, BOUND  # what tells of no argument
# Which numbers among the arguments of a function are leaves: ints, as the rows that are
# looked up, those beside tensors, or floats and arrays: of floats no signature tells.
# Or none is told but the ranges of a part of a tensor that is yet to be computed.
AS_ROWS, AS_SCALARS, AS_FLOATS, AS_PARTS = 1, 2, 3, 4
LONGEST = 64  # numbers of a signature, and values of a plan
TENSORS = (Tensor, VariableItem)  # the classes of tensors that plans are for
TAKEN = (Operand, np.ndarray, *NUMBERS, *SIZES, float, complex, list, dict, set)
NONE: Mapping[str, Any] = {}
_LARGE = 1 << 63
_COMMITTED: Any = vars(Variable)["committed"]
FORMAT = 7  # letters of the format of an array


def signature(
    args: Sequence[Any],
    data: int,
    named: Mapping[str, Any] = NONE,
    frame: FrameType | None = None,
) -> bytes | None:
    """The key of a call by its arguments; None where it cannot tell them.

    `data`: which numbers are leaves. What is written stands in the code of the `frame`.
    """
    names = [None] * len(args) + [intern(name) for name in named]
    args = [*args, *named.values()]
    parts = sum(len(x) if type(x) in (tuple, list) else 1 for x in args)
    if 2 * parts > LONGEST:  # which of many are the same takes long to tell
        return None
    words = [DTYPE, id(modes.get().dtype)]
    seen: list[Any] = []  # of tensors and of data
    for x, name in zip(args, names, strict=True):
        if name is not None:
            words += [NAMED, id(name)]
        if type(x) in (tuple, list):
            words += [told_as(x), len(x)]
        for part in x if type(x) in (tuple, list) else [x]:
            part_words = _told(part, data, seen, frame)
            if part_words is None:
                return None
            words += part_words
    return array("q", words).tobytes() if len(words) <= LONGEST else None


def told_as(x: object) -> int:
    """How a tuple or a list is told."""
    return TUPLE if type(x) is tuple else LIST


def kinds_of(key: bytes) -> list[int]:
    """How each of the arguments is told, those in tuples and lists one by one."""
    return [k for k in array("q", key)[::2] if k not in NO_THING]


def _told(
    x: Any, data: int, seen: list[Any], frame: FrameType | None
) -> tuple[int, ...] | None:
    if data == AS_PARTS and not (_is_range(x) if seen else waits(x)):
        return None
    if type(x) is slice:
        return _words_of(x)
    by_type = isinstance(x, Variable) and data != AS_FLOATS
    kept: Any = type(x)
    if by_type and kept.committed is not _COMMITTED:
        return None  # its versions are made when they are asked for
    if type(x) in TENSORS or by_type:
        seen.append(x)
        first = next(k for k, y in enumerate(seen) if y is x)
        if first < len(seen) - 1:
            return SAME, first
        kind = (CLASS, id(type(x)), VARIABLE) if by_type else (TENSOR,)
        return *kind, id(x.type)
    if data == AS_ROWS and type(x) is int:
        seen.append(None)
        return NUMBER, 0
    if data == AS_SCALARS and type(x) in (int, float):
        if not (is_small(x) and is_written(x, frame)):
            seen.append(None)
            return SCALAR, type(x) is float
        if type(x) is int:
            return WRITTEN, x
    if type(x) is float and data != AS_FLOATS:
        return WRITTEN_FLOAT, struct.unpack("q", struct.pack("d", x))[0]
    if type(x) is np.ndarray and data == AS_FLOATS:
        seen.append(None)
        return _told_array(x)
    if type(x) is int:
        return (WHOLE, x) if _is_whole(x) else None
    return (OTHER, id(x)) if _is_fixed(x) else None


def _told_array(x: np.ndarray[Any, Any]) -> tuple[int, ...] | None:
    """The letters that say the format of an array as a number, then its extents."""
    try:
        letters = x.data.format.encode()
    except ValueError:  # of a dtype that buffers do not know
        return None
    if len(letters) > FORMAT:
        return None
    words = [int.from_bytes(letters, "little"), x.ndim, *x.shape]
    return tuple([word for each in words for word in (ARRAY, each)])


def _is_whole(x: Any) -> bool:
    return type(x) is int and -_LARGE <= x < _LARGE


def waits(x: Any) -> bool:
    """Return True if x is a tensor that is yet to be computed of others."""
    return type(x) in TENSORS and x.stored is None and bool(x.inputs)


def _is_range(x: Any) -> bool:
    return type(x) is slice or x is None or x is Ellipsis


def _words_of(x: slice) -> tuple[int, ...] | None:
    words = [SLICE, 0]
    for bit, bound in enumerate((x.start, x.stop, x.step)):
        if bound is not None and not _is_whole(bound):
            return None
        words[1] |= (bound is None) << bit
        words += BOUND, bound or 0
    return tuple(words)


def _is_fixed(x: Any) -> bool:
    """Return True if this very object always stands for the same: no data, no list."""
    if isinstance(x, tuple):
        return all(map(_is_fixed, x))
    return isinstance(x, Variable) or not isinstance(x, TAKEN)


def things_of(args: Iterable[Any]) -> Iterator[Any]:
    """The arguments, those in tuples and lists one by one."""
    for x in args:
        if type(x) in (tuple, list):
            yield from x
        else:
            yield x
