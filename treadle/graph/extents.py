"""Graphs without their extents: what those have in common that differ in these alone.

They are a family: their keys, with each number replaced by that of the same op or type
without extents, are equal; the extents stand beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from treadle.base.caches import Cache
from treadle.base.symbolic import LEAST
from treadle.base.types import Type
from treadle.core import native
from treadle.graph.body import Body, sign_of
from treadle.graph.leaves import Constant
from treadle.graph.look import CODES, WRITTEN, Look
from treadle.graph.numbers import known_by, number
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor

KNOWN = 1 << 16  # ops and types without extents
# Fields of ops that hold extents, or where something begins and ends.
EXTENTS = {"shape", "extents", "extent", "count", "columns", "mask"}
EXTENTS |= {"starts", "stops", "widths", "last", "length"}
SMALL = 8  # rules look for no larger number
LARGE = 1 << 31  # no size in a literal

Open = tuple[Any, tuple[int, ...]]  # what is left without extents, and these

SIZED = 1 << 62  # a word in the place of a literal that may be a size
Written = tuple[int, tuple[int, ...], tuple[int, ...]]

# By number; and of literals by that of the type and their word.
_open: Cache[Any, Open] = Cache("ops and types without extents", KNOWN)


def family(key: Sequence[int], nodes: Sequence[Tensor]) -> Open | None:
    """The key that a family of graphs has in common, and the extents of this one.

    `nodes` are those of the structure. None if too much has been numbered since.
    """
    parts: list[int] = []
    extents: list[int] = []
    for part in key:
        if part >= 0:
            parts.append(part)
            continue
        known = _without_extents(part, nodes)
        if known is None:
            return None
        parts.append(known[0])
        extents += known[1]
    return tuple(parts), tuple(extents)


def family_of(look: Look) -> tuple[bytes, tuple[int, ...]] | None:
    """The same of a graph by how it looks; None if too much has been numbered since."""
    family = native.family if native else _family
    return family(
        look.key,
        (CODES, WRITTEN),
        _open,
        lambda number: _without_extents(number, look.nodes),
        lambda number, place: _literal(number, place, look),
    )


def _family(
    key: bytes,
    codes: tuple[int, int],
    known: Mapping[Any, Open],
    numbered: Callable[[int], Open | None],
    written: Callable[[int, int], Written],
) -> tuple[bytes, tuple[int, ...]] | None:
    """As the core does it: the words without extents, and these."""
    parts: list[int] = []
    extents: list[int] = []
    words = np.frombuffer(key, np.int64).tolist()
    k, (base, literal) = 0, codes
    while k < len(words):
        word = words[k]
        k += 1
        if word >= 0:
            parts.append(word)
            continue
        number, code = divmod(word, base)
        opened = known.get(number) or numbered(number)
        if opened is None:
            return None
        parts.append(opened[0] * base + code)
        extents += opened[1]
        if code != literal:
            continue
        opened = known.get((number, words[k])) if k < len(words) else None
        if opened is None:  # its words follow
            count, more, sizes = written(number, k)
        else:
            count, more, sizes = 1, (opened[0],), opened[1]
        parts += more
        extents += sizes
        k += count
    return np.array(parts, np.int64).tobytes(), tuple(extents)


def _literal(number: int, place: int, look: Look) -> Written:
    """The words of a literal of a type from a place of a key on: how many there are,
    those without a size, and that. A number is known by its word from then on.
    """
    t: Any = known_by(number) or next(
        x.type for x in look.nodes if getattr(x.type, "_number", None) == number
    )
    words = np.frombuffer(look.key, np.int64, -(-t.nbytes // 8), 8 * place).tolist()
    if t.shape:
        return len(words), tuple(words), ()
    (value,) = np.frombuffer(look.key, t.dtype, 1, 8 * place)
    known = (SIZED, (int(value),)) if sized(value) else (words[0], ())
    if len(words) == 1:
        _open[number, words[0]] = known
        return 1, (known[0],), known[1]
    return len(words), tuple(words), ()


def _without_extents(part: int, nodes: Sequence[Tensor]) -> Open | None:
    """The number of what has a number, without the extents in it, and these."""
    known = _open.get(part)
    if known is None:
        x = thing_of(part, nodes)
        if x is None:
            return None
        known = _open[part] = _opened(part, x, nodes)
    return known


def thing_of(part: int, nodes: Sequence[Tensor]) -> Any:
    """The op, type or literal of a number in the key of some nodes; None if so much was
    numbered since that it is not known any more."""
    x = known_by(part)
    if x is None:
        x = next((y for y in map(_numbered, nodes) if part in y), {}).get(part)
    return x


def _numbered(node: Tensor) -> dict[int, Any]:
    """The op and the type of a node by their numbers, which they keep."""
    things: dict[int, Any] = {}
    number = getattr(node.op, "_number", None)
    if number is not None:
        things[number] = sign_of(node.op)
    number = getattr(node.type, "_number", None)
    if number is not None:
        things[number] = node.type
    return things


def _opened(thing_number: int, x: Any, nodes: Sequence[Tensor]) -> Open:
    """The number of a thing without the extents in it, and these."""
    extents: list[int] = []
    if type(x) is tuple and isinstance(x[0], type):  # the sign of an op with bodies
        ops = (node.op for node in nodes if type(node.op) is x[0])
        x = next((op for op in ops if sign_of(op) == x), x)
    if isinstance(x, Op):
        shown = _op(x, extents)
        # An equal op may have been numbered since this one was.
        what = shown if extents else sign_of(x)
        return number(what, None if extents else thing_number), tuple(extents)
    if type(x) is Type:
        shape = without(x.shape, extents)
        return number(("type", shape, x.dtype, x.axes)), tuple(extents)
    if type(x) is not tuple:
        return thing_number, ()
    if x[0] == "leaf":
        _, shape, *rest = x
        return number(("leaf", without(shape, extents), *rest)), tuple(extents)
    if x[0] == "literal":
        _, dtype, raw = x
        value = np.frombuffer(raw, dtype)[0]
        if sized(value):
            return number(("literal", dtype, None)), (int(value),)
    return thing_number, ()


def _op(op: Op, extents: list[int]) -> Any:
    """An op without extents, which are moved to a list."""
    shown: list[Any] = ["op", type(op)]
    for f in fields(op):  # type: ignore[arg-type]
        value = getattr(op, f.name)
        if f.name in EXTENTS:
            value = without(value, extents)
        shown.append(_body(value, extents) if isinstance(value, Body) else value)
    return tuple(shown)


def _body(body: Body, extents: list[int]) -> Any:
    """A body without extents, which are moved to a list."""
    if body.sign_parts() is None:
        return "body", body.sign
    place = {node.serial: k for k, node in enumerate(body.nodes)}
    parts: list[Any] = []
    for x in body.nodes:
        read = tuple([place[y.serial] for y in x.inputs])
        shown, type_ = _op(x.op, extents), x.type
        if x.inputs or not isinstance(type_, Type):
            parts.append((shown, read))
        elif isinstance(x.op, Constant):
            assert x.array is not None
            if not type_.shape and sized(x.array):
                extents.append(int(x.array))
                parts.append((shown, type_))
            else:
                parts.append((shown, type_, x.array.tobytes()))
        else:
            shape = without(type_.shape, extents)
            parts.append((shown, shape, type_.dtype, type_.axes))
    ends = body.arguments, body.outputs
    places = [tuple([place[x.serial] for x in end]) for end in ends]
    return tuple(parts), tuple(places)


def sized(literal: Any) -> bool:
    """Return True if a number may come from a size."""
    if literal.dtype.kind not in "fiu":
        return False
    value = float(literal)
    return SMALL < value < LARGE and value.is_integer()


def is_extent(x: Any) -> bool:
    """Return True if an integer may be another one in a graph of the same family."""
    return type(x) is int and x >= LEAST


def without(x: Any, extents: list[int]) -> Any:
    """Integers in tuples, moved to a list."""
    if isinstance(x, tuple):
        return tuple([without(part, extents) for part in x])
    if is_extent(x):
        extents.append(x)
        return None
    return x
