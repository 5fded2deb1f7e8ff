"""Exponentials: n = round(x / ln 2), e**x = 2**n e**r, with a polynomial for e**r."""

from __future__ import annotations

from typing import NamedTuple

from treadle.engines.native.builder import F32, F64
from treadle.engines.native.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

__all__ = ["exp", "expm1", "exponential", "less_one"]

LOG2_E = 1.4426950408889634


class Constants(NamedTuple):
    """What the formulas need to know of a float type."""

    two: tuple[float, float]  # ln 2, rounded, and the rest
    rest: tuple[float, ...]  # (e**r - 1 - r) / r**2 for |r| <= ln(2) / 2
    high: float  # e**x / 2 overflows here
    low: float  # e**x is 0 here
    small: float  # and not subnormal here, nor where n is 1 more
    flat: float  # e**x - 1 is -1 here


CONSTANTS = {
    F32: Constants(
        (0.693147182464599609375, -1.904654323148236017e-09),
        (
            0.4999999701976776,
            0.1666654646396637,
            0.04166743531823158,
            0.00836626160889864,
            0.001387065858580172,
        ),
        high=89.7,
        low=-104.0,
        small=-86.0,
        flat=-20.0,
    ),
    F64: Constants(
        (0.6931471805599453, 2.3190468138462996e-17),
        (
            0.5,
            0.16666666666666677,
            0.04166666666666651,
            0.008333333333321672,
            0.0013888888888962507,
            0.00019841269886019264,
            2.4801587172348604e-05,
            2.755724431450627e-06,
            2.755740274211783e-07,
            2.5109001588181165e-08,
            2.0875318157013243e-09,
        ),
        high=710.8,
        low=-746.0,
        small=-707.0,
        flat=-40.0,
    ),
}


def exponential(x: Term, low: Term | None = None, halvings: int = 0) -> Term:
    """e**(x + low) / 2**halvings, where low is less than an ulp of x; 0 or 1 halving.

    The polynomial is doubled and the power of 2 halved: 2**1024 is no float64, but
    2**1024 e**r can be one.
    """
    own, layout = CONSTANTS[x.kind], x.format
    x = x.at_most(own.high).at_least(own.low)
    rounder = layout.rounder + layout.bias - 1 - halvings
    shifted = fma(x, LOG2_E, rounder)
    n = shifted - rounder
    r = fma(n, -own.two[1], fma(n, -own.two[0], x))
    if low is not None:
        r = r + low
    twice = polynomial(r, (2.0, 2.0, *(2 * c for c in own.rest)))
    # Where 2**n would be subnormal, 64 powers of 2 are multiplied in at the end.
    tiny = x < own.small
    bits = shifted.bits()
    bits = where(tiny, bits + 64, bits)
    y = twice * (bits << layout.digits).as_float()
    return where(tiny, y * 2.0**-64, y)


def less_one(x: Term, exact: bool = True) -> tuple[Term, Term]:
    """(e**x - 1) / 2, and e**x - 1, whose sign is lost if it is 0.

    exact: otherwise a large result has more error than a few ulps.
    """
    own, layout = CONSTANTS[x.kind], x.format
    x = x.at_most(own.high).at_least(own.flat)
    rounder = layout.rounder + layout.bias - 1
    shifted = fma(x, LOG2_E, rounder)
    n = shifted - rounder
    r = fma(n, -own.two[0], x)
    if exact:
        r = fma(n, -own.two[1], r)
    little = fma(r * r, polynomial(r, own.rest), r)
    power = (shifted.bits() << layout.digits).as_float()
    half = fma(power, little, power - 0.5)
    return half, where(n.equals(0.0), little, half + half)


def _exp(x: Term) -> Term:
    return exponential(x)


def _expm1(x: Term) -> Term:
    return less_one(x)[1].signed(x)


exp = formula(_exp)
expm1 = formula(_expm1)
