"""The error function and its complement."""

from __future__ import annotations

from treadle.engines.native.elementary.terms import (
    Term,
    fma,
    formula,
    polynomial,
    where,
)

__all__ = ["erf"]

# erf(x) / x - 1 in x**2 for |x| <= 1.25.
ERF_SMALL_32 = (
    0.12837913632392883,
    -0.3761245608329773,
    0.11281997710466385,
    -0.026799114421010017,
    0.005102305673062801,
    -0.0007379422313533723,
    6.0968039178987965e-05,
)
# erf(x) in x - ERF_MIDDLE_32 for 1.25 <= x <= 3.9258: it is 1 from there on.
ERF_MIDDLE_32 = 2.5625
ERF_LARGE_32 = (
    0.9997098445892334,
    0.0015873000957071781,
    -0.004068315494805574,
    0.006422931794077158,
    -0.006866252049803734,
    0.00510143768042326,
    -0.002547750249505043,
    0.0006697095232084394,
    0.00014735176227986813,
    -0.0002322511572856456,
    7.062935037538409e-05,
    1.3348409993341193e-05,
    -8.43394809635356e-06,
)


def _erf32(x: Term) -> Term:
    a = x.abs().at_most(3.9257)
    small = fma(a, polynomial(a * a, ERF_SMALL_32), a)
    large = polynomial(a - ERF_MIDDLE_32, ERF_LARGE_32)
    return where(a < 1.25, small, large).signed(x)


erf = formula(_erf32, _erf32)
