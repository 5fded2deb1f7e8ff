"""Logarithms: x = 2**n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), a polynomial for 1 + f."""

from __future__ import annotations

import math
from typing import NamedTuple

from treadle.engines.native.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

__all__ = ["log"]

ROOT_HALF_32 = 0x3F3504F3  # the bits of sqrt(1/2) as a float32


class Base(NamedTuple):
    """What one logarithm of x is made of, each number in two parts, the latter >= 0."""

    two: tuple[float, float]  # the logarithm of 2
    slope: tuple[float, float]  # the logarithm of e
    rest: tuple[float, ...]  # (log(1 + f) - slope f) / f**2


# log(1 + f) = f + f**2 q(f): the coefficients of q.
E_32 = Base(
    (0.693145751953125, 1.428606765330187e-06),
    (1.0, 0.0),
    (
        -0.4999998211860657,
        0.33333927392959595,
        -0.25002628564834595,
        0.19963687658309937,
        -0.1655115932226181,
        0.1488126963376999,
        -0.14429621398448944,
        0.08988621830940247,
    ),
)


def _split32(x: Term) -> tuple[Term, Term]:
    """n and f; n is infinite or NaN where the logarithm is."""
    subnormal = x < 2.0**-126
    bits = where(subnormal, x * 2.0**23, x).bits()
    exponent = (bits - ROOT_HALF_32) >> 23
    f = (bits - (exponent << 23)).as_float() - 1.0
    n = exponent.to_float()
    n = where(subnormal, n - 23.0, n)
    n = where(x < math.inf, n, x)
    wrong = where(x.equals(0.0), x.like(-math.inf), math.nan)
    return where(x <= 0.0, wrong, n), f


def _logarithm32(x: Term, base: Base) -> Term:
    n, f = _split32(x)
    rest = f * f * polynomial(f, base.rest)
    if base.slope[0] == 1.0:
        return fma(n, base.two[0], f + fma(n, base.two[1], rest))
    low = fma(n, base.two[1], fma(f, base.slope[1], rest))
    return fma(n, base.two[0], fma(f, base.slope[0], low))


def _log32(x: Term) -> Term:
    return _logarithm32(x, E_32)


log = formula(_log32, _log32)
