"""Comparisons of 64 bits in WGSL, by halves.

Mesa 22's lavapipe gets `<` of them wrong where items of a group differ.
"""

from __future__ import annotations

from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.native.codegen.builder import I32, I64, Value


def compared(b: DeviceBuilder, how: str, x: Value, y: Value) -> Value:
    """Whether an integer is less than another one, or what `how` says."""
    (high, low), (other, rest) = _halves(b, x), _halves(b, y)
    pairs = b.compare("eq", high, other), b.compare("eq", low, rest)
    if how == "eq":
        return b.binary("and", *pairs)
    if how == "ne":
        return b.binary("xor", b.binary("and", *pairs), b.constant("i1", True))
    strict = b.compare(how[:2] + "t", high, other)
    lower = b.binary("and", pairs[0], b.compare("u" + how[1:], low, rest))
    return b.binary("or", strict, lower)


def floats_compared(b: DeviceBuilder, how: str, x: Value, y: Value) -> Value:
    """The same of float64, as if none were NaN."""
    relation = how[1:] if how[1:] in ("eq", "ne") else "s" + how[1:]
    return compared(b, relation, _place_in_order(b, x), _place_in_order(b, y))


def is_nan(b: DeviceBuilder, x: Value) -> str:
    """The test for NaN of a float64."""
    high, low = _halves(b, b.bitcast(x, I64))
    size = f"({high.name} & 0x7fffffff)"
    inside = f"{size} == 0x7ff00000 && {low.name} != 0"
    return f"({size} > 0x7ff00000 || ({inside}))"


def _halves(b: DeviceBuilder, x: Value) -> tuple[Value, Value]:
    """The high and the low 32 bits of a number of 64."""
    high = b.binary("ashr", x, b.i64(32))
    return b.convert("trunc", high, I32), b.convert("trunc", x, I32)


def _place_in_order(b: DeviceBuilder, x: Value) -> Value:
    """The integer that is as large among others as a float64; both zeros are 0."""
    bits = b.bitcast(x, I64)
    size = b.binary("and", bits, b.i64((1 << 63) - 1))
    high, _ = _halves(b, bits)
    negative = b.compare("slt", high, b.constant(I32, 0))
    return b.select(negative, b.binary("sub", b.i64(0), size), size)
