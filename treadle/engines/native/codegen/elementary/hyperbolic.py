"""Hyperbolic functions by e**x - 1, and their inverses by log(1 + x)."""

from __future__ import annotations

import math

from treadle.engines.native.codegen.elementary.exponential import (
    exponential,
    less_one,
    rough_less_one,
)
from treadle.engines.native.codegen.elementary.logarithm import one_plus
from treadle.engines.native.codegen.elementary.terms import Term, fma, formula, where

LN2 = 0.6931471805599453
FAR = {23: 2.0**30, 52: 2.0**60}  # from here on 1 + x is x, and the square is large


def _tanh(x: Term) -> Term:
    """y / (y + 2) with y = e**(2 |x|) - 1, where an error in a large y is not seen."""
    a = x.abs().at_most(20.0)
    y = rough_less_one(a + a)
    return (y / (y + 2.0)).signed(x)


def _sinh(x: Term) -> Term:
    """(y + y / (y + 1)) / 2 with y = e**|x| - 1; where that overflows y / 2."""
    a = x.abs()
    quarter, y = less_one(a)
    sine = (y + y / (y + 1.0)) * 0.5
    return where(a > 40.0, quarter + quarter, sine).signed(x)


def _cosh(x: Term) -> Term:
    """y + 1 / (4 y) with y = e**|x| / 2."""
    y = exponential(x.abs(), halvings=1)
    return y + 0.25 / y


def _asinh(x: Term) -> Term:
    """log(1 + a + a**2 / (1 + sqrt(1 + a**2))) with a = |x|; log(2 a) if it is far."""
    a = x.abs()
    far = a > FAR[x.format.digits]
    square = where(far, x.like(0.0), a * a)
    y = one_plus(a + square / (fma(a, a, 1.0).sqrt() + 1.0))
    return where(far, y + LN2, y).signed(x)


def _acosh(x: Term) -> Term:
    """log(1 + t + sqrt(2 t + t**2)) with t = x - 1; log(2 x) where x is far."""
    far = x > FAR[x.format.digits]
    t = x - 1.0
    near = t + fma(t, t, t + t).sqrt()
    y = one_plus(where(far, x, near))
    y = where(far, y + LN2, y)
    return where(x < 1.0, x.like(math.nan), y)


def _atanh(x: Term) -> Term:
    """log(1 + 2 a / (1 - a)) / 2 with a = |x|."""
    a = x.abs()
    return (one_plus((a + a) / (1.0 - a)) * 0.5).signed(x)


tanh = formula(_tanh)
sinh = formula(_sinh)
cosh = formula(_cosh)
asinh = formula(_asinh)
acosh = formula(_acosh)
atanh = formula(_atanh)
