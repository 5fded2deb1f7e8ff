"""Inverse trigonometric functions."""

from __future__ import annotations

from treadle.engines.native.codegen.builder import F32, F64
from treadle.engines.native.codegen.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

# pi / 2 as a float and the rest; pi is twice as much.
HALF_PI = {
    F32: (1.5707963705062866, -4.3711390001862426e-08),
    F64: (1.5707963267948966, 6.123233995736766e-17),
}
# (atan(x) - x) / x**3 in x**2 for |x| <= 1.
ATAN = {
    F32: (
        -0.33333298563957214,
        0.1999852955341339,
        -0.14264015853405,
        0.10950879752635956,
        -0.08399298787117004,
        0.05788109451532364,
        -0.031096430495381355,
        0.010868189856410027,
        -0.0017826466355472803,  # 6e-9 off the fit: atan(1) is the nearest float
    ),
    F64: (
        -0.3333333333333307,
        0.19999999999951462,
        -0.14285714282575185,
        0.11111111007028536,
        -0.0909090700303751,
        0.0769227983986737,
        -0.06666404062460816,
        0.0588052784430764,
        -0.0525351868630561,
        0.047223226697490316,
        -0.042191801339269995,
        0.03664193459815085,
        -0.02990389538994307,
        0.02198489780262431,
        -0.013900601122252835,
        0.007196531661017957,
        -0.002884932826305091,
        0.0008313268249567797,
        -0.00015216192290650946,
        1.3225179457413639e-05,
    ),
}
# (asin(x) - x) / x**3 in x**2 for |x| <= 1/2.
ASIN = {
    F32: (
        0.16666753590106964,
        0.07495252043008804,
        0.0454760417342186,
        0.02415209636092186,
        0.042211782187223434,
    ),
    F64: (
        0.16666666666665653,
        0.07500000000294685,
        0.04464285685604649,
        0.0303819581879246,
        0.022371777525991173,
        0.01735944788143051,
        0.013887491533466974,
        0.01215586925106474,
        0.0065804994331146675,
        0.019396288710191043,
        -0.01603271026116454,
        0.031790080421375454,
    ),
}


def _odd(x: Term, square: Term, table: dict[str, tuple[float, ...]]) -> Term:
    """The part of the function beyond x."""
    return x * square * polynomial(square, table[x.kind])


def _atan(x: Term) -> Term:
    """Beyond 1 it is pi / 2 less that of 1 / x."""
    high, low = HALF_PI[x.kind]
    a = x.abs()
    beyond = a > 1.0
    q = where(beyond, 1.0 / a, a)
    rest = _odd(q, q * q, ATAN)
    y = where(beyond, high - (q - (low - rest)), q + rest)
    return y.signed(x)


def _atan2(y: Term, x: Term) -> Term:
    """The angle of the lesser by the greater of |y| and |x|, put in its octant."""
    high, low = HALF_PI[x.kind]
    a, b = y.abs(), x.abs()
    steep = a > b
    above, below = where(steep, b, a), where(steep, a, b)
    q = where(above.equals(below), x.like(1.0), above / below)
    q = where(below.equals(0.0), above, q)
    rest = _odd(q, q * q, ATAN)
    left = x.bits() < 0
    turned = steep ^ left
    q, rest = where(turned, -q, q), where(turned, -rest, rest)
    base = where(left, x.like(2 * high), 0.0)
    base_low = where(left, x.like(2 * low), 0.0)
    base = where(steep, high, base)
    base_low = where(steep, low, base_low)
    return (base + (q + (rest + base_low))).signed(y)


def _asin(x: Term) -> Term:
    """Beyond 1/2 it is pi / 2 less twice that of sqrt((1 - x) / 2)."""
    high, low = HALF_PI[x.kind]
    a = x.abs()
    large = a > 0.5
    square = where(large, fma(a, -0.5, 0.5), a * a)
    s = where(large, square.sqrt(), a)
    rest = _odd(s, square, ASIN)
    y = where(large, (high - (s + s)) - fma(rest, 2.0, -low), s + rest)
    return y.signed(x)


def _acos(x: Term) -> Term:
    """pi / 2 - asin(x); from 1/2 on twice the asin of sqrt((1 - x) / 2)."""
    high, low = HALF_PI[x.kind]
    a = x.abs()
    large = a > 0.5
    square = where(large, fma(a, -0.5, 0.5), a * a)
    s = where(large, square.sqrt(), a)
    rest = _odd(s, square, ASIN)
    twice = s + s
    right = fma(rest, 2.0, twice)
    left = (2 * high - twice) - fma(rest, 2.0, -2 * low)
    middle = high - (x - (low - rest.signed(x)))
    return where(large, where(x < 0.0, left, right), middle)


asin = formula(_asin)
acos = formula(_acos)
atan = formula(_atan)
atan2 = formula(_atan2)
