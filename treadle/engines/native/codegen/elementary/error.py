"""The error function and its complement."""

from __future__ import annotations

from typing import NamedTuple

from treadle.engines.native.codegen.builder import F32, F64
from treadle.engines.native.codegen.elementary.exponential import exponential_product
from treadle.engines.native.codegen.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

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
    """e**(x**2) erfc(x) / u = least + (1 + t) p(t): u = 1 / (x + add), t = mul u - sub.

    As x goes from 0 to `end`, t goes from 1 to -1 (the mapping of Shepherd and
    Laframboise, Mathematics of Computation 36, 1981, up to its scale).
    """

    end: float  # erfc(x) is 0 from here on
    add: float
    mul: float
    sub: float
    least: float
    table: tuple[float, ...]  # p, for float32 such that erfc(0) is 1


SCALED = {
    F32: Scaled(
        10.19,
        2.0,
        4.785083293914795,
        1.392541766166687,
        0.671719491481781,
        (
            0.47027263045310974,
            0.18293005228042603,
            0.02229028195142746,
            -0.010092252865433693,
            -0.002344534732401371,
            0.0010416170116513968,
            0.00015316763892769814,
            -0.00011067080777138472,
        ),
    ),
    F64: Scaled(
        27.3,
        4.0,
        9.172161172161172,
        1.293040293040293,
        0.6464216327242286,
        (
            0.5882237489895388,
            0.46163461146184415,
            0.31199453046635844,
            0.18023512263473498,
            0.08759563852614448,
            0.03473067256640455,
            0.010522527006544108,
            0.0020167149894805346,
            6.32280261837026e-06,
            -0.00013987738264432115,
            -3.724993282166875e-05,
            2.7080962626924572e-06,
            3.676490807183481e-06,
            3.66217879003994e-07,
            -2.910904866417795e-07,
            -6.734674599386804e-08,
            2.3673461932837412e-08,
            8.400384841004978e-09,
            -2.3616169034113634e-09,
            -9.242631212871401e-10,
            3.179103272451452e-10,
            7.305775622544531e-11,
            -3.696714243957921e-11,
        ),
    ),
}


def _complement(a: Term) -> Term:
    """erfc(a) for a >= 0; the rounding errors of a + add, u and a**2 are put right."""
    constants = SCALED[a.kind]
    a = a.at_most(constants.end)
    below = a + constants.add
    u = 1.0 / below
    error = fma(-u, a - (below - constants.add), fma(-u, below, 1.0)) * u
    much = u * constants.mul
    t = (much - constants.sub) + fma(error, constants.mul, fma(u, constants.mul, -much))
    scaled = fma(t + 1.0, polynomial(t, constants.table), constants.least)
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
