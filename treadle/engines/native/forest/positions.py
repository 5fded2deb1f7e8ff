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
from treadle.engines.native.codegen.jit import compile_functions

# Whether all of `size` integers, at each of `count` places among all, are below
# `extent`; those that are negative are large.
_BELOW = """
define i64 @treadle_below_NAME(ptr %all, ptr %own, i64 %count, i64 %size, i64 %extent) {
entry:
  br label %rows
rows:
  %row = phi i64 [0, %entry], [%row1, %next]
  %more = icmp slt i64 %row, %count
  br i1 %more, label %one, label %right
one:
  %numbers = getelementptr i64, ptr %own, i64 %row
  %number = load i64, ptr %numbers, align 8
  %place = getelementptr ptr, ptr %all, i64 %number
  %from = load ptr, ptr %place, align 8
  br label %elements
elements:
  %k = phi i64 [0, %one], [%k1, %fine]
  %left = icmp slt i64 %k, %size
  br i1 %left, label %look, label %next
look:
  %p = getelementptr TYPE, ptr %from, i64 %k
  %x = load TYPE, ptr %p, align BYTES
  %wide = WIDEN
  %below = icmp ult i64 %wide, %extent
  br i1 %below, label %fine, label %wrong
fine:
  %k1 = add i64 %k, 1
  br label %elements
next:
  %row1 = add i64 %row, 1
  br label %rows
right:
  ret i64 1
wrong:
  ret i64 0
}
"""
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


@cache
def _functions() -> dict[str, tuple[Any, int]]:
    """The functions by the name of a dtype, with their addresses: their code stays
    loaded as long as these are kept.
    """
    texts = {}
    for name in _NUMBERS:
        bits = int(name.lstrip("uint"))
        how = "zext" if name.startswith("u") else "sext"
        widen = f"{how} i{bits} %x to i64" if bits < 64 else "add i64 %x, 0"
        text = _BELOW.replace("NAME", name).replace("WIDEN", widen)
        texts[name] = text.replace("TYPE", f"i{bits}").replace("BYTES", str(bits // 8))
    texts = {f"treadle_below_{name}": text for name, text in texts.items()}
    addresses = compile_functions(texts, lasting=True)
    by_dtype = {name: addresses[f"treadle_below_{name}"] for name in _NUMBERS}
    return {name: (_FUNCTION(address), address) for name, address in by_dtype.items()}
