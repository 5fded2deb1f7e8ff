"""Hyperbolic functions and their inverses."""

from __future__ import annotations

from treadle.engines.native.elementary.terms import Term, fma, formula, polynomial

__all__ = ["tanh"]

LOG2_E = 1.4426950408889634
HALF_LN2 = 0.34657359027997264
ROUNDER_32 = 1.5 * 2.0**23 + 127  # with n added, the last bits are those of 2**n
# (e**(2 s) - 1 - 2 s) / s**2 on |s| <= ln(2) / 4.
EXPM1_TWICE_32 = (
    2.000000238418579,
    1.3333219289779663,
    0.6666532754898071,
    0.2677880525588989,
    0.0892174020409584,
)


def _tanh32(x: Term) -> Term:
    """y / (y + 2) with y = e**(2 |x|) - 1, where an error in a large y is not seen."""
    a = x.abs().at_most(10.0)
    shifted = fma(a, 2 * LOG2_E, ROUNDER_32)
    s = fma(shifted - ROUNDER_32, -HALF_LN2, a)
    small = fma(s * s, polynomial(s, EXPM1_TWICE_32), s + s)
    power = (shifted.bits() << 23).as_float()
    y = fma(power, small, power - 1.0)
    return (y / (y + 2.0)).signed(x)


tanh = formula(_tanh32, _tanh32)
