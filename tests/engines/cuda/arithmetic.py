"""What instructions of PTX compute, on NumPy arrays with an element for each item."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from treadle.engines.native.codegen.builder import F32, F64, I64, PTR, Builder
from treadle.engines.native.codegen.jit import compile_functions

__all__ = ["BINARY", "UNARY", "compare", "convert", "multiply", "ternary"]

Array = np.ndarray[Any, Any]
Rule = Callable[..., Any]


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return x / y
    safe = np.where(y == 0, y.dtype.type(1), y)
    whole = x // safe
    uneven = (whole * safe != x) & ((x < 0) != (safe < 0))
    return whole + uneven.astype(x.dtype)


def _remain(x: Array, y: Array) -> Array:
    return x - _divide(x, y) * np.where(y == 0, y.dtype.type(1), y)


def _shift(rule: Rule) -> Rule:
    """A shift by as many bits as there are, or more, is one by all of them."""

    def shift(x: Array, y: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        few = np.minimum(y, bits - 1).astype(x.dtype)
        moved = rule(x, few)
        rest = moved if x.dtype.kind == "i" and rule is np.right_shift else 0
        return np.where(y < bits, moved, rest).astype(x.dtype)

    return shift


def _copysign(sign: Array, size: Array) -> Array:
    return np.copysign(size, sign)


BINARY: dict[str, Rule] = {
    "add": operator.add,
    "sub": operator.sub,
    "div": _divide,
    "rem": _remain,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": _shift(np.left_shift),
    "shr": _shift(np.right_shift),
    "copysign": _copysign,
}
UNARY: dict[str, Rule] = {
    "mov": lambda x: x,
    "not": np.invert,
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rcp": lambda x: x.dtype.type(1) / x,
    "popc": np.bitwise_count,
}
_RELATIONS: dict[str, Rule] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def compare(how: str, x: Any, y: Any) -> Any:
    """Whether a relation holds; those with "u" hold of what is no number as well."""
    none = np.isnan(x) | np.isnan(y) if np.asarray(x).dtype.kind == "f" else False
    if how in ("num", "nan"):
        return none if how == "nan" else ~none
    if len(how) == 3:
        return _RELATIONS[how[:2]](x, y) | none
    found = _RELATIONS[how](x, y)
    return found & ~none if how == "ne" and none is not False else found


def multiply(parts: list[str], x: Array, y: Array) -> Array:
    """A product: of floats, or the low or high half or all of one of integers."""
    if x.dtype.kind == "f" or "lo" in parts:
        return x * y
    kind, size = x.dtype.kind, x.dtype.itemsize
    if size < 8:
        wide = x.astype(f"{kind}{2 * size}") * y.astype(f"{kind}{2 * size}")
        return wide if "wide" in parts else (wide >> 8 * size).astype(x.dtype)
    exact = np.asarray(x).astype(object) * np.asarray(y).astype(object)
    mask = (1 << 64) - 1
    return np.array([(int(p) >> 64) & mask for p in exact.ravel()], np.uint64).view(
        x.dtype
    )


def ternary(name: str, parts: list[str], x: Array, y: Array, z: Array) -> Array:
    """x y + z."""
    return _fused(x, y, z) if name == "fma" else multiply(parts, x, y) + z


@cache
def _fma(kind: str) -> Any:
    """The address of a loop over x y + z of this machine, rounded once."""
    name = f"fused_{kind}"
    b = Builder(name, [*((n, PTR) for n in "xyzr"), ("n", I64)])
    with b.loop(b.i64(0), b.arguments["n"], b.i64(1)) as turn:
        places = [b.offset(b.arguments[n], turn.index, kind) for n in "xyzr"]
        b.store(b.fma(*[b.load(kind, p) for p in places[:3]]), places[3])
    b.ret()
    address = compile_functions({name: b.text()})[name]
    run = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)(address)
    return run, address


def _fused(x: Array, y: Array, z: Array) -> Array:
    whole = [np.ascontiguousarray(a) for a in np.broadcast_arrays(x, y, z)]
    found = np.empty_like(whole[0])
    run, _ = _fma(F32 if found.dtype == np.float32 else F64)
    run(*[a.ctypes.data for a in (*whole, found)], found.size)
    return found


def convert(parts: list[str], x: Array, dtype: str) -> Array:
    """A number as another type, rounded as the parts of the opcode say."""
    target = np.dtype(dtype)
    if x.dtype.kind == "f":
        ways = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
        for way, rule in ways.items():
            if way in parts:
                x = rule(x)
        if target.kind in "iu":
            return _saturated(x, target)
    return x.astype(target)


def _saturated(x: Array, target: Any) -> Array:
    limits = np.iinfo(target)
    low, high = x <= limits.min, x >= limits.max
    inside = np.where(low | high | np.isnan(x), x.dtype.type(0), x).astype(target)
    found = np.where(high, target.type(limits.max), inside)
    return np.where(low, target.type(limits.min), found).astype(target)
