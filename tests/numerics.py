"""Tolerance by class, and derivatives by differences, for tests of ops and rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import bfloat16, float16
from treadle.graph.tolerance import difference, unit

__all__ = ["assert_close", "complex_differences", "differences", "is_half", "unit"]


def assert_close(got: Any, want: Any, tolerance: str, terms: int = 1) -> None:
    """`got` is `want` by class: E same bits, U ulps, R rounding of `terms` sums."""
    wrong = difference(got, want, tolerance, terms)
    assert not wrong, wrong


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


def complex_differences(f: Any, z: np.ndarray[Any, Any]) -> Any:
    """Derivatives of real f by real parts of z, plus i times those by the others."""
    by_parts = [
        differences(lambda t, d=d: float(f(z + d * t)), np.zeros(z.shape))
        for d in (1, 1j)
    ]
    return by_parts[0] + 1j * by_parts[1]


def is_half(dtype: Any) -> bool:
    return dtype in (float16, bfloat16)
