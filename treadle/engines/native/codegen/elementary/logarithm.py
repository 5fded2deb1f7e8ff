"""Logarithms: x = 2**n (1 + f), with sqrt(1/2) <= 1 + f < sqrt(2)."""

from __future__ import annotations

import math
from typing import NamedTuple

from treadle.engines.native.codegen.builder import F32, F64
from treadle.engines.native.codegen.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

ROOT_HALF = {F32: 0x3F3504F3, F64: 0x3FE6A09E667F3BCD}  # the bits of sqrt(1/2)

# (log(1 + f) - f) / f**2 for float32.
REST_32 = (
    -0.4999998211860657,
    0.33333927392959595,
    -0.25002628564834595,
    0.19963687658309937,
    -0.1655115932226181,
    0.1488126963376999,
    -0.14429621398448944,
    0.08988621830940247,
)
# (log((1 + s) / (1 - s)) - 2 s) / s**3 in s**2 for float64.
ODD_64 = (
    0.6666666666666735,
    0.39999999999412883,
    0.2857142874282521,
    0.22222198524598666,
    0.1818356703209332,
    0.15313976912847585,
    0.14796728742374618,
)


class Base(NamedTuple):
    """The logarithms of 2 and of e, each as a float and the rest; that of 2 is >= 0."""

    two: tuple[float, float]
    e: tuple[float, float]


NATURAL = {
    F32: Base((0.6931471228599548, 5.7699990475432854e-08), (1.0, 0.0)),
    F64: Base((0.6931471805599453, 2.3190468138462996e-17), (1.0, 0.0)),
}
BINARY = {
    F32: Base((1.0, 0.0), (1.4426950216293335, 1.9259629911266175e-08)),
    F64: Base((1.0, 0.0), (1.4426950408889634, 2.0355273740931033e-17)),
}
DECIMAL = {
    F32: Base(
        (0.3010299801826477, 1.5481333490135613e-08),
        (0.4342944920063019, -1.0103050052231683e-08),
    ),
    F64: Base(
        (0.30102999566398114, 5.270742310347266e-17),
        (0.4342944819032518, 1.098319650216765e-17),
    ),
}


def exponent(x: Term) -> Term:
    """n as an integer, for x > 0 and not subnormal."""
    return (x.bits() - ROOT_HALF[x.kind]) >> x.format.digits


def _outside(x: Term, n: Term) -> Term:
    """n, or where x is no positive number the infinity or NaN that its logarithm is."""
    n = where(x < math.inf, n, x)
    wrong = where(x.equals(0.0), x.like(-math.inf), math.nan)
    return where(x <= 0.0, wrong, n)


def split(x: Term) -> tuple[Term, Term]:
    """n and f; n is infinite or NaN where the logarithm is."""
    digits = x.format.digits
    subnormal = x < 2.0 ** (1 - x.format.bias)
    y = where(subnormal, x * 2.0**digits, x)
    power = exponent(y)
    f = (y.bits() - (power << digits)).as_float() - 1.0
    n = power.to_float()
    n = where(subnormal, n - digits, n)
    return _outside(x, n), f


def _rest(f: Term) -> Term:
    """log(1 + f) - f."""
    if f.kind == F32:
        return f * f * polynomial(f, REST_32)
    # With s = f / (2 + f): log((1 + s) / (1 - s)), where 2 s = f - f**2 / 2 (1 - s).
    s = f / (f + 2.0)
    square, half = s * s, f * f * 0.5
    return fma(s, fma(square, polynomial(square, ODD_64), half), -half)


def _assembled(n: Term, f: Term, base: Base) -> Term:
    """The logarithm of 2**n (1 + f)."""
    low = _rest(f)
    if base.e[0] != 1.0:
        low = fma(f, base.e[1], low * base.e[0])
    if base.two[1]:
        low = fma(n, base.two[1], low)
    return fma(n, base.two[0], fma(f, base.e[0], low))


def logarithm(x: Term) -> Term:
    """The natural logarithm."""
    return _assembled(*split(x), NATURAL[x.kind])


def one_plus(x: Term) -> Term:
    """log(1 + x), where 1 + f is (1 + x) / 2**n without the rounding of 1 + x."""
    layout = x.format
    digits = layout.digits
    y = x + 1.0
    power = exponent(y)
    large = x > 2.0 ** (digits + 2)
    inverse = ((layout.bias - power) << digits).as_float()
    f = fma(x, inverse, inverse - 1.0)
    f = where(large, (y.bits() - (power << digits)).as_float() - 1.0, f)
    n = _outside(y, power.to_float())
    return _assembled(n, f, NATURAL[x.kind]).signed(x)


log = formula(logarithm)
log1p = formula(one_plus)
log2 = formula(lambda x: _assembled(*split(x), BINARY[x.kind]))
log10 = formula(lambda x: _assembled(*split(x), DECIMAL[x.kind]))
