"""The positions that rows read by, looked at where they lie before anything runs."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.types import Type
from treadle.batch.forest import Forest, Instance
from treadle.engines.native.codegen.builder import I64, PTR, Builder
from treadle.engines.native.codegen.jit import compile_functions

_NUMBERS = "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"
_FUNCTION = ctypes.CFUNCTYPE(
    ctypes.c_int64, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3
)


class Positions:
    """Leaves, by their numbers, whose integers are to be below `extent`."""

    def __init__(self, leaves: Numbers, type_: Type, extent: int) -> None:
        self.leaves = np.ascontiguousarray(leaves, np.int64)
        self._below, self._code = _functions()[type_.dtype.name]
        address = int(self.leaves.ctypes.data)
        self._told = address, len(leaves), type_.size, extent

    def are_right(self, place: int) -> bool:
        """True if they are; the address of each leaf stands at a place in memory."""
        return bool(self._below(place, *self._told))


def positions_of(
    forest: Forest,
    instance: Instance,
    read: Sequence[tuple[str, int]],
    needs: Iterable[tuple[int, int]],
) -> list[Positions] | None:
    """The positions that an instance reads by: of what its body reads, those arguments
    `needs` tells, below what. None where some are no data of the user.
    """
    positions = []
    constant = forest.all.leaves.constant
    for k, extent in needs:
        kind, argument = read[k]
        sources = instance.sources.get(argument) if kind == "input" else None
        if sources is None or (sources >= 0).any():
            return None
        leaves = -1 - sources
        type_ = instance.signature.body.arguments[argument].type
        if not constant[leaves].all() or type_.dtype.name not in _NUMBERS:
            return None
        positions.append(Positions(leaves, type_, extent))
    return positions


def _below(name: str) -> Builder:
    """Whether all of `size` integers, at each of `count` places among all, are below
    `extent`; those that are negative are large.
    """
    parameters = [("all", PTR), ("own", PTR), ("count", I64), ("size", I64)]
    b = Builder(f"treadle_below_{name}", [*parameters, ("extent", I64)])
    arg, one, kind = b.arguments, b.i64(1), f"i{name.lstrip('uint')}"
    with b.loop(b.i64(0), arg["count"], one, [b.i64(0)]) as rows:
        leaf = b.load(I64, b.offset(arg["own"], rows.index, I64))
        start = b.load(PTR, b.offset(arg["all"], leaf, PTR), 8)
        with b.loop(b.i64(0), arg["size"], one, rows.values) as elements:
            x = b.load(kind, b.offset(start, elements.index, kind))
            x = b.convert("zext" if name.startswith("u") else "sext", x, I64)
            wrong = b.convert("zext", b.compare("uge", x, arg["extent"]), I64)
            elements.next([b.or_(elements.values[0], wrong)])
        rows.next(elements.values)
    b.ret(b.convert("zext", b.compare("eq", rows.values[0], b.i64(0)), I64))
    return b


@cache
def _functions() -> dict[str, tuple[Any, int]]:
    """The functions by the name of a dtype, with their addresses: their code stays
    loaded as long as these are kept.
    """
    by_dtype = {name: _below(name) for name in _NUMBERS}
    texts = {b.name: b.text() for b in by_dtype.values()}
    addresses = compile_functions(texts, lasting=True)
    places = {name: addresses[b.name] for name, b in by_dtype.items()}
    return {name: (_FUNCTION(address), address) for name, address in places.items()}
