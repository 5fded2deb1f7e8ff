"""Sine, cosine and tangent: of x = (pi / 2) n + r those of r, exchanged by n."""

from __future__ import annotations

from treadle.engines.native.codegen.builder import F32
from treadle.engines.native.codegen.elementary.reduction import reduced32, reduced64
from treadle.engines.native.codegen.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

# (sin r - r) / r**3 and (cos r - 1) / r**2 in r**2, for |r| <= 0.89.
SIN_32 = (-0.1666664183139801, 0.008331438526511192, -0.00019427340885158628)
COS_32 = (
    -0.5,
    0.04166662320494652,
    -0.0013886339729651809,
    2.4333145120181143e-05,
)
# (sin r - r) / r**3 and (cos r - 1 + r**2 / 2) / r**4 in r**2, for |r| <= pi / 4.
SIN_64 = (
    -0.16666666666666632,
    0.008333333333322236,
    -0.00019841269829632614,
    2.7557313622515465e-06,
    -2.5050746169690288e-08,
    1.589605078964637e-10,
)
COS_64 = (
    0.0416666666666666,
    -0.0013888888888874229,
    2.480158728942136e-05,
    -2.755731430959617e-07,
    2.087571497002786e-09,
    -1.1359119933117298e-11,
)


def _both(x: Term) -> tuple[Term, Term, Term]:
    """n as an integer of the width of x, sin r and cos r, of x >= 0."""
    if x.kind == F32:
        n, r = reduced32(x)
        square = r * r
        sine = fma(r * square, polynomial(square, SIN_32), r)
        return n, sine, fma(square, polynomial(square, COS_32), 1.0)
    n, r, low = reduced64(x)
    square = r * r
    rest = fma(r * square, polynomial(square, SIN_64), low * fma(square, -0.5, 1.0))
    half = square * 0.5
    near = 1.0 - half
    left = (1.0 - near) - half
    bend = fma(square * square, polynomial(square, COS_64), -(r * low))
    return n, r + rest, near + (left + bend)


def _flipped(y: Term, n: Term, sign: Term | None) -> Term:
    """y with its sign changed where bit 1 of n is set, and where `sign` is negative."""
    layout = y.format
    bits = n << (layout.width - 2)
    if sign is not None:
        bits = bits ^ sign.bits()
    return (y.bits() ^ (bits & layout.sign)).as_float()


def _sin(x: Term) -> Term:
    n, sine, cosine = _both(x.abs())
    y = where((n & 1).equals(0), sine, cosine)
    return _flipped(y, n, x)


def _cos(x: Term) -> Term:
    n, sine, cosine = _both(x.abs())
    y = where((n & 1).equals(0), cosine, sine)
    return _flipped(y, n + 1, None)


def _tan(x: Term) -> Term:
    n, sine, cosine = _both(x.abs())
    even = (n & 1).equals(0)
    y = where(even, sine, cosine) / where(even, cosine, sine)
    return _flipped(y, n + n, x)


sin = formula(_sin)
cos = formula(_cos)
tan = formula(_tan)
