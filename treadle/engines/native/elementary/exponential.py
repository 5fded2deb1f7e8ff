"""Exponentials: n = round(x / ln 2), e**x = 2**n e**r, with a polynomial for e**r."""

from __future__ import annotations

from treadle.engines.native.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

__all__ = ["exp"]

LOG2_E = 1.4426950408889634
# ln 2 as the sum of its nearest float32 and the rest.
LN2_32 = 0.693147182464599609375
LN2_REST_32 = -1.904654323148236017e-09
# A float32 whose last bits, after adding n, hold n + 126; none is lost to rounding.
ROUNDER_32 = 1.5 * 2.0**23 + 126
# 2 (e**r - 1 - r) / r**2 on |r| <= ln(2) / 2.
EXP_32 = (
    0.9999998807907104,
    0.33333033323287964,
    0.0833364948630333,
    0.016738170757889748,
    0.002764493227005005,
)


def _exp32(x: Term) -> Term:
    x = x.at_most(89.0).at_least(-104.0)
    shifted = fma(x, LOG2_E, ROUNDER_32)
    n = shifted - ROUNDER_32
    r = fma(n, -LN2_REST_32, fma(n, -LN2_32, x))
    twice = polynomial(r, (2.0, 2.0, *EXP_32))
    # Where 2**n would be subnormal, 64 powers of 2 are multiplied in at the end.
    small = x < -86.0
    bits = shifted.bits()
    bits = where(small, bits + 64, bits)
    y = twice * (bits << 23).as_float()
    return where(small, y * 2.0**-64, y)


exp = formula(_exp32, _exp32)
