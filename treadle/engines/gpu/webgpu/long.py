"""Comparisons of 64 bits in WGSL, by halves.

Mesa 22's lavapipe gets `<` of them wrong where items of a group differ.
"""

from __future__ import annotations

from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.native.codegen.builder import Value
from treadle.engines.native.codegen.elementary.terms import Term, where


def compared(b: DeviceBuilder, how: str, x: Value, y: Value) -> Value:
    """Whether an integer is less than another one, or what `how` says."""
    (high, low), (other, rest) = _halves(Term(b, x)), _halves(Term(b, y))
    same = high.equals(other)
    if how in ("eq", "ne"):
        both = same & low.equals(rest)
        return both.value if how == "eq" else (both ^ 1).value
    strict = b.compare(how[:2] + "t", high.value, other.value)
    lower = b.compare("u" + how[1:], low.value, rest.value)
    return (same & Term(b, lower) | Term(b, strict)).value


def floats_compared(b: DeviceBuilder, how: str, x: Value, y: Value) -> Value:
    """The same of float64, as if none were NaN."""
    relation = how[1:] if how[1:] in ("eq", "ne") else "s" + how[1:]
    return compared(b, relation, _place_in_order(b, x), _place_in_order(b, y))


def is_nan(b: DeviceBuilder, x: Value) -> str:
    """The test for NaN of a float64."""
    high, low = (half.value.name for half in _halves(Term(b, x).bits()))
    size = f"({high} & 0x7fffffff)"
    return f"({size} > 0x7ff00000 || ({size} == 0x7ff00000 && {low} != 0))"


def _halves(x: Term) -> tuple[Term, Term]:
    """The high and the low 32 bits of a number of 64."""
    return (x >> 32).short(), x.short()


def _place_in_order(b: DeviceBuilder, x: Value) -> Value:
    """The integer that is as large among others as a float64; both zeros are 0."""
    bits = Term(b, x).bits()
    size = bits & (1 << 63) - 1
    return where(_halves(bits)[0] < 0, 0 - size, size).value
