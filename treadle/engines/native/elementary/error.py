"""The error function and its complement."""

from __future__ import annotations

from typing import NamedTuple

from treadle.engines.native.builder import F32, F64
from treadle.engines.native.elementary.exponential import exponential_product
from treadle.engines.native.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

__all__ = ["erf", "erfc"]

# erf(x) / x - 1 in x**2, for |x| <= 1.25 and |x| <= 1.
SMALL_32 = (
    0.12837913632392883,
    -0.3761245608329773,
    0.11281997710466385,
    -0.026799114421010017,
    0.005102305673062801,
    -0.0007379422313533723,
    6.0968039178987965e-05,
)
SMALL_64 = (
    0.12837916709551256,
    -0.3761263890318352,
    0.11283791670944185,
    -0.026866170643111403,
    0.005223977606117825,
    -0.000854832592928017,
    0.00012055293575828043,
    -1.4924712281051706e-05,
    1.6447131311890427e-06,
    -1.6206311779886072e-07,
    1.371097190177957e-08,
    -7.77945276425685e-10,
)
# erf(x) in x - MIDDLE_32 for 1.25 <= x <= END_32: it is 1 from there on.
MIDDLE_32, END_32 = 2.625, 3.95
LARGE_32 = (
    0.9997946619987488,
    0.0011477635707706213,
    -0.003013761481270194,
    0.004893740173429251,
    -0.005411113146692514,
    0.004200538620352745,
    -0.002254040678963065,
    0.0007167067378759384,
    4.197579255560413e-05,
    -0.0001884006051113829,
    7.115364132914692e-05,
    7.669243132113479e-06,
    -7.166824616433587e-06,
)


class Scaled(NamedTuple):
    """e**(x**2) erfc(x) / u with u = 1 / (x + add), a polynomial in t = mul u - sub.

    As x goes from 0 to infinity t goes from 1 to about -1 (the mapping of Shepherd and
    Laframboise, Mathematics of Computation 36, 1981, up to its scale).
    """

    end: float  # erfc(x) is 0 from here on
    add: float
    mul: float
    sub: float
    table: tuple[float, ...]


SCALED = {
    F32: Scaled(
        10.19,
        3.0,
        7.764705657958984,
        1.5882352590560913,
        (
            1.309244990348816,
            0.931718111038208,
            0.5027721524238586,
            0.19951067864894867,
            0.05268377810716629,
            0.005961161572486162,
            -0.001395177561789751,
            -0.0005600616568699479,
            2.847173163900152e-05,
            3.608324550441466e-05,
        ),
    ),
    F64: Scaled(
        27.3,
        4.0,
        9.172161172161172,
        1.293040293040293,
        (
            1.2346453817137675,
            1.049858360451383,
            0.7736291419282033,
            0.4922296531010988,
            0.26783076116085025,
            0.12232631109239578,
            0.04525319957341886,
            0.012539241998016554,
            0.0020230377882375773,
            -0.0001335545942380787,
            -0.00017712729704957657,
            -3.454177518554499e-05,
            6.3845325110990685e-06,
            4.042539743419108e-06,
            7.523087699233708e-08,
            -3.5813422600086034e-07,
            -4.379905069097709e-08,
            3.1721264083046526e-08,
            6.1334684329022154e-09,
            -3.029320579277837e-09,
            -6.465740177195716e-10,
            2.849175507481069e-10,
            4.34553275671998e-11,
            -1.796247421962105e-11,
        ),
    ),
}


def _complement(a: Term) -> Term:
    """erfc(a) for a >= 0; the rounding errors of a + add, u and a**2 are put right."""
    own = SCALED[a.kind]
    a = a.at_most(own.end)
    below = a + own.add
    u = 1.0 / below
    error = fma(-u, a - (below - own.add), fma(-u, below, 1.0)) * u
    t = fma(error, own.mul, fma(u, own.mul, -own.sub))
    scaled = polynomial(t, own.table)
    scaled = fma(scaled, u, scaled * error)
    square = a * a
    return exponential_product(-square, -fma(a, a, -square), scaled)


def _erf(x: Term) -> Term:
    if x.kind == F64:
        a = x.abs()
        small = fma(a, polynomial(a * a, SMALL_64), a)
        return where(a < 1.0, small, 1.0 - _complement(a)).signed(x)
    a = x.abs().at_most(END_32)
    small = fma(a, polynomial(a * a, SMALL_32), a)
    large = polynomial(a - MIDDLE_32, LARGE_32)
    return where(a < 1.25, small, large).signed(x)


def _erfc(x: Term) -> Term:
    y = _complement(x.abs())
    return where(x < 0.0, 2.0 - y, y)


erf = formula(_erf)
erfc = formula(_erfc)
