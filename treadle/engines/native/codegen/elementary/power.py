"""Powers: of |x| by a logarithm that is exact enough for any y, then the sign."""

from __future__ import annotations

import math

from treadle.engines.native.codegen.builder import F32
from treadle.engines.native.codegen.elementary.exponential import exponential_of_sum
from treadle.engines.native.codegen.elementary.logarithm import split
from treadle.engines.native.codegen.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

# ln 2 in two parts: the product of the first and an exponent is exact.
LN2 = (0.6931471805598903, 5.497923018708371e-14)
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# (log((1 + s) / (1 - s)) - 2 s - 2 s**3 / 3) / s**5 in s**2.
ODD = (
    0.4000000000000226,
    0.28571428570095964,
    0.22222222520591106,
    0.1818178430670968,
    0.1538676019873859,
    0.13256749110083782,
    0.1319698215882118,
)

# Of float32, in float64: log2(1 + f) / f, to 2**-35, and 2**g for |g| <= 1/2.
LOG2_32 = (
    1.4426950408687036,
    -0.721347520868617,
    0.4808983613968833,
    -0.3606736748399674,
    0.28853729338546724,
    -0.24045316517652457,
    0.20617536146029794,
    -0.18030060910000686,
    0.15876978209465384,
    -0.1431563805008722,
    0.14474849182209865,
    -0.1428396703305171,
    0.07737064858636077,
)
EXP2_32 = (
    0.9999999999616898,
    0.6931471807284626,
    0.24022651198109804,
    0.05550410353399387,
    0.009618027257139432,
    0.0013333922569416696,
    0.00015469290523693915,
    1.5201926398820166e-05,
)


def _logarithm_pair(x: Term) -> tuple[Term, Term]:
    """log x of a float64 as a sum of two, good to 2**-64 of it.

    As log((1 + s) / (1 - s)) with s = f / (2 + f): its first two terms in pairs.
    """
    n, f = split(x)
    below = f + 2.0
    inverse = 1.0 / below
    s = f * inverse
    rest = fma(-s, below, f)
    s_low = fma(-s, f - (below - 2.0), rest) * inverse
    square = s * s
    square_low = fma(s, s, -square) + (s + s) * s_low
    further = square * polynomial(square, ODD)
    factor = further + TWO_THIRDS[0]
    factor_low = (TWO_THIRDS[0] - factor) + further + TWO_THIRDS[1]
    cube, cube_low = _product(s, s_low, square, square_low)
    cube, cube_low = _product(cube, cube_low, factor, factor_low)
    twice = s + s
    small = twice + cube
    low = ((twice - small) + cube) + fma(s_low, 2.0, cube_low)
    whole = n * LN2[0]
    high = whole + small
    low = ((whole - high) + small) + fma(n, LN2[1], low)
    low = where(high.abs() < math.inf, low, 0.0)
    total = high + low
    return total, (high - total) + low


def _product(x: Term, x_low: Term, y: Term, y_low: Term) -> tuple[Term, Term]:
    """The product of two numbers in two parts each."""
    high = x * y
    return high, fma(x, y, -high) + fma(x, y_low, x_low * y)


def _magnitude32(a: Term, y: Term) -> Term:
    """a**y as 2**(y log2 a), in float64."""
    n, f = (part.double() for part in split(a))
    log = fma(f, polynomial(f, LOG2_32), n)
    power = (y.double() * log).at_most(200.0).at_least(-200.0)
    layout = power.format
    rounder = layout.rounder + layout.bias
    shifted = power + rounder
    left = polynomial(power - (shifted - rounder), EXP2_32)
    return (left * (shifted.bits() << layout.digits).as_float()).single()


def _magnitude64(a: Term, y: Term) -> Term:
    """a**y as e**(y log a), with the product as a sum of two."""
    log, log_low = _logarithm_pair(a)
    high = y * log
    low = fma(y, log, -high) + y * log_low
    return exponential_of_sum(high, where(high.abs() < 1000.0, low, 0.0))


def _pow(x: Term, y: Term) -> Term:
    """The cases are those of C: Annex F of ISO/IEC 9899:1999."""
    a, half = x.abs(), y * 0.5
    whole = y.rounded().equals(y)
    odd = whole & half.rounded().differs(half)
    power = _magnitude32(a, y) if x.kind == F32 else _magnitude64(a, y)
    power = where(a.equals(1.0), x.like(1.0), power)
    sign = where(odd, x.bits() & x.format.sign, 0)
    power = (power.bits() ^ sign).as_float()
    rootless = (x < 0.0) & (x > -math.inf) & ~whole
    power = where(rootless, x.like(math.nan), power)
    return where(y.equals(0.0) | x.equals(1.0), x.like(1.0), power)


pow = formula(_pow)
