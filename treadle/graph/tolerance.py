"""Tolerance classes: the error allowed against the reference, for tests and checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import bfloat16, is_inexact

ULPS = 4


def unit(dtype: Any) -> float:
    """The unit roundoff of a float or complex dtype.

    >>> unit(np.float32) == 2.0**-24
    True
    """
    if dtype == bfloat16:
        return 2.0**-8
    return float(np.finfo(dtype).eps) / 2


def widened(x: Any) -> Array:
    """Floats and complex numbers in double precision, anything else as it is."""
    x = np.asarray(x)
    if not is_inexact(x.dtype):
        return x
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def difference(got: Any, want: Any, tolerance: str, terms: int = 1) -> str:
    """The error of the result of one op as text; empty if it is right by its class.

    "E" means the same bits, "U" some ulps, "R" the rounding of sums of `terms`.

    >>> difference([1.0], [1.0 + 1e-16], "E"), difference(1.0, 2.0, "R")
    ('', '[1.] differs from [2.]')
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype != want.dtype:
        return f"dtype {got.dtype}, expected {want.dtype}"
    if tolerance == "E" or not is_inexact(want.dtype):
        same = (got == want) | ((got != got) & (want != want))
        if not bool(np.all(same)):
            return f"{got} differs from {want}"
        if want.dtype.kind == "f":
            signs = np.signbit(got) == np.signbit(want)
            if not bool(np.all(signs | np.isnan(want))):
                return "a zero has another sign"
        return ""
    a, b = widened(got), widened(want)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return f"NaN elsewhere: {got}, {want}"
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return f"infinite elsewhere: {got}, {want}"
    steps = 2 * ULPS if tolerance == "U" else 4 * max(terms, 16)
    scale = np.abs(b) if tolerance == "U" else np.maximum(np.abs(b), 1.0)
    with np.errstate(invalid="ignore"):
        wrong = np.abs(a - b) > steps * unit(want.dtype) * scale + 1e-300
    wrong = np.asarray(wrong & finite)
    return f"{got[wrong]} differs from {want[wrong]}" if wrong.any() else ""


def strays(got: Any, expected: Any, wide: Any, noise: float) -> Array:
    """The mask of where a graph's result is off: |got - wide| > 4 |expected - wide| + 8
    noise.

    `expected` is the reference's in the graph's precision, `wide` in double; `noise` is
    the unit roundoff of the largest value on the way. Where the reference is not finite
    nothing is asked: a stable form may be.
    """
    got, expected = widened(got), widened(expected)
    if not is_inexact(expected.dtype):
        return np.asarray(got != expected)
    with np.errstate(all="ignore"):
        bound = 4 * np.abs(expected - wide) + 8 * noise
        near = np.abs(got - wide) <= bound
    return np.asarray(~near & np.isfinite(expected) & np.isfinite(wide))
