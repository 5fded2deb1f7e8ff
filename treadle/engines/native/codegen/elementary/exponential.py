"""Exponentials: n = round(x / ln 2), e**x = 2**n e**r, with a polynomial for e**r."""

from __future__ import annotations

from typing import NamedTuple

from treadle.engines.native.codegen.builder import F32, F64
from treadle.engines.native.codegen.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

LOG2_E = 1.4426950408889634


class FloatConstants(NamedTuple):
    """Constants of a float type for the formulas."""

    two: tuple[float, float]  # ln 2, rounded, and the rest
    rest: tuple[float, ...]  # (e**r - 1 - r) / r**2 for |r| <= ln(2) / 2
    high: float  # e**x / 2 overflows here
    low: float  # e**x is 0 here
    small: float  # and not subnormal here, nor where n is 1 more
    flat: float  # e**x - 1 is -1 here


CONSTANTS = {
    F32: FloatConstants(
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
    F64: FloatConstants(
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


def divided(x: Term, halvings: int) -> tuple[Term, Term, Term]:
    """n, the bits of 2**n / 2**halvings (before their shift), and x - n ln(2).

    The last is exact but for the float that is taken for ln 2.
    """
    layout = x.format
    rounder = layout.rounder + layout.bias - halvings
    shifted = fma(x, LOG2_E, rounder)
    n = shifted - rounder
    return n, shifted.bits(), fma(n, -CONSTANTS[x.kind].two[0], x)


def limited(x: Term) -> Term:
    """x where e**x is neither 0 nor infinite, else the nearest such number."""
    constants = CONSTANTS[x.kind]
    return x.at_most(constants.high).at_least(constants.low)


def multiplied(y: Term, bits: Term, x: Term) -> Term:
    """y times the power of 2 that is nearly e**x, rounded once."""
    # Where 2**n would be subnormal, 64 powers of 2 are multiplied in at the end.
    tiny = x < CONSTANTS[x.kind].small
    bits = where(tiny, bits + 64, bits)
    y = y * (bits << x.format.digits).as_float()
    return where(tiny, y * 2.0**-64, y)


def exponential(x: Term, halvings: int = 0) -> Term:
    """e**x / 2**halvings.

    The polynomial is doubled and the power of 2 halved: 2**1024 is no float64, but
    2**1024 e**r can be one. halvings: at most 1.
    """
    constants, x = CONSTANTS[x.kind], limited(x)
    n, bits, r = divided(x, 1 + halvings)
    r = fma(n, -constants.two[1], r)
    twice = polynomial(r, [2.0, 2.0, *(2 * c for c in constants.rest)])
    return multiplied(twice, bits, x)


def less_one(x: Term) -> tuple[Term, Term]:
    """(e**x - 1) / 4, and e**x - 1, whose sign is lost if it is 0."""
    constants, layout = CONSTANTS[x.kind], x.format
    n, bits, r = divided(x.at_most(constants.high).at_least(constants.flat), 2)
    r = fma(n, -constants.two[1], r)
    little = fma(r * r, polynomial(r, constants.rest), r)
    power = (bits << layout.digits).as_float()
    quarter = fma(power, little, power - 0.25)
    return quarter, where(n.equals(0.0), little, quarter * 4.0)


def rough_less_one(x: Term) -> Term:
    """e**x - 1 for x >= 0 that is not large, with more relative error the larger it is.

    n units of error in the last place of ln 2, where e**x is 2**n.
    """
    _, bits, r = divided(x, 0)
    little = fma(r * r, polynomial(r, CONSTANTS[x.kind].rest), r)
    power = (bits << x.format.digits).as_float()
    return fma(power, little, power - 1.0)


def exponential_of_sum(x: Term, low: Term) -> Term:
    """e**(x + low), nearly always the nearest float; low is at most an ulp of x."""
    constants, x = CONSTANTS[x.kind], limited(x)
    n, bits, first = divided(x, 1)
    second = fma(n, -constants.two[1], low)
    r = first + second
    left = (first - r) + second
    head = fma(r, 2.0, 2.0)
    tail = fma(r, 2.0, 2.0 - head) + fma(left, r, left) * 2.0
    bend = r * r * polynomial(r, [2 * c for c in constants.rest])
    return multiplied(head + (bend + tail), bits, x)


def exponential_product(x: Term, low: Term, times: Term) -> Term:
    """times e**(x + low); e**x is neither 0 nor infinite, low at most an ulp of x."""
    constants = CONSTANTS[x.kind]
    n, bits, r = divided(x, 1)
    r = r + fma(n, -constants.two[1], low)
    twice = r * polynomial(r, [2.0, *(2 * c for c in constants.rest)])
    return multiplied(fma(times, twice, times + times), bits, x)


def _expm1(x: Term) -> Term:
    return less_one(x)[1].signed(x)


exp = formula(lambda x: exponential(x))
expm1 = formula(_expm1)
