"""Tolerance by class, and derivatives by differences, for tests of ops and rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import bfloat16, float16, is_inexact

ULPS = 4


def unit(dtype: Any) -> float:
    """The unit roundoff of a float or complex dtype."""
    if dtype == bfloat16:
        return 2.0**-8
    return float(np.finfo(dtype).eps) / 2


def assert_close(got: Any, want: Any, tolerance: str, terms: int = 1) -> None:
    """`got` is `want` by class: E same bits, U ulps, R rounding of `terms` sums."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    assert got.dtype == want.dtype, f"dtype {got.dtype}, expected {want.dtype}"
    if tolerance == "E" or not is_inexact(want.dtype):
        same = (got == want) | ((got != got) & (want != want))
        assert bool(np.all(same)), f"{got} differs from {want}"
        if want.dtype.kind == "f":
            signs = np.signbit(got) == np.signbit(want)
            assert bool(np.all(signs | np.isnan(want))), "a zero has another sign"
        return
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    a, b = got.astype(wide), want.astype(wide)
    assert np.array_equal(np.isnan(a), np.isnan(b)), f"NaN elsewhere: {got}, {want}"
    steps = 2 * ULPS if tolerance == "U" else 4 * max(terms, 16)
    scale = np.abs(b) if tolerance == "U" else np.maximum(np.abs(b), 1.0)
    finite = np.isfinite(b)
    assert np.array_equal(a[~finite], b[~finite], equal_nan=True)
    with np.errstate(invalid="ignore"):
        wrong = np.abs(a - b) > steps * unit(want.dtype) * scale + 1e-300
    assert not bool(np.any(wrong & finite)), f"{got[wrong]} differs from {want[wrong]}"


def differences(f: Any, x: np.ndarray[Any, Any], step: float = 1e-3) -> Any:
    """The derivative of scalar f by each element of x: central, Richardson-refined."""
    result = np.zeros(x.size)
    flat = x.reshape(-1)

    def central(k: int, h: float) -> float:
        bent = flat.copy()
        bent[k] = flat[k] + h
        up = f(bent.reshape(x.shape))
        bent[k] = flat[k] - h
        return (up - f(bent.reshape(x.shape))) / (2 * h)

    for k in range(x.size):
        fine, coarse = central(k, step / 2), central(k, step)
        result[k] = (4 * fine - coarse) / 3
    return result.reshape(x.shape)


def is_half(dtype: Any) -> bool:
    return dtype in (float16, bfloat16)
