"""Sine, cosine and tangent: x = (pi / 2) n + r, a polynomial each for sin r and cos r."""

from __future__ import annotations

from treadle.engines.native.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

__all__ = ["cos", "sin", "tan"]

HALF_PI = 1.5707963267948966
ROUNDER_64 = 1.5 * 2.0**52  # adding it leaves an integer in the last bits
# (least |x|, high, low): high + low is 2/pi less a multiple of 2**25 / |x|, which is
# worth whole turns: a float32 x is a multiple of 2**-23 times its power of 2.
TWO_OVER_PI = (
    (0.0, 0.6366197723675813, 7.166494911215068e-17),
    (2.0**51, -4.119769120791653e-09, 2.8376220177865265e-25),
    (2.0**77, 7.166494911215068e-17, -2.1442872565786008e-33),
    (2.0**103, -5.434184107743751e-25, 3.8858987075186823e-41),
)
# (sin r - r) / r**3 and (cos r - 1) / r**2 in r**2, for |r| <= pi / 4.
SIN_32 = (-0.16666655242443085, 0.008332189172506332, -0.00019518285989761353)
COS_32 = (
    -0.5,
    0.04166664555668831,
    -0.0013887309469282627,
    2.4432327336398885e-05,
)


def _reduced32(x: Term) -> tuple[Term, Term]:
    """The last bits of n, and r, of x >= 0: any finite float32."""
    wide = x.double()
    high, low = (wide.like(c) for c in TWO_OVER_PI[0][1:])
    for least, next_high, next_low in TWO_OVER_PI[1:]:
        beyond = x >= least
        high = where(beyond, next_high, high)
        low = where(beyond, next_low, low)
    shifted = fma(wide, high, ROUNDER_64)
    n = shifted - ROUNDER_64
    # The product is exact within the fma: only its part below 1/2 is rounded.
    r = fma(wide, low, fma(wide, high, -n)) * HALF_PI
    return shifted.bits().short(), r.single()


def _both32(r: Term) -> tuple[Term, Term]:
    """sin r and cos r."""
    square = r * r
    sine = fma(r * square, polynomial(square, SIN_32), r)
    return sine, fma(square, polynomial(square, COS_32), 1.0)


def _sin32(x: Term) -> Term:
    n, r = _reduced32(x.abs())
    sine, cosine = _both32(r)
    y = where((n & 1).equals(0), sine, cosine)
    return _flipped(y, (n << 30) ^ x.bits())


def _cos32(x: Term) -> Term:
    n, r = _reduced32(x.abs())
    sine, cosine = _both32(r)
    y = where((n & 1).equals(0), cosine, sine)
    return _flipped(y, (n + 1) << 30)


def _tan32(x: Term) -> Term:
    n, r = _reduced32(x.abs())
    sine, cosine = _both32(r)
    even = (n & 1).equals(0)
    y = where(even, sine, cosine) / where(even, cosine, sine)
    return _flipped(y, (n << 31) ^ x.bits())


def _flipped(y: Term, sign: Term) -> Term:
    """y with its sign changed where the first bit of `sign` is set."""
    return (y.bits() ^ (sign & -(2**31))).as_float()


sin = formula(_sin32, _sin32)
cos = formula(_cos32, _cos32)
tan = formula(_tan32, _tan32)
