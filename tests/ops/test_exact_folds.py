"""How exact long folds are: as sums by halves, whatever divides their extents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(3)
LENGTHS = [
    *(1, 2, 3, 31, 33, 63, 65, 127, 257, 1009, 4099, 8191, 8193, 19997, 65537),
    *(262147, 1 << 18, (1 << 20) - 1, 2 * 499979, 999983),
]
DATA: dict[str, Callable[..., Any]] = {
    "uniform": lambda *n: RNG.uniform(0, 1, n),
    "normal": lambda *n: RNG.standard_normal(n),
    "equal": lambda *n: np.full(n, 0.1),
    "far from 0": lambda *n: 1e6 + RNG.integers(0, 2, n),
}


def by_halves(x: Any) -> Any:
    """The sum over the first axis: halves are added, down to single elements."""
    while len(x) > 1:
        half = len(x) // 2
        rest = x[2 * half :]
        x = np.concatenate([x[:half] + x[half : 2 * half], rest])
    return x[0]


def error(y: Any, x: Any, axis: Any) -> float:
    """The largest error over the sums of magnitudes."""
    wide = x.astype(np.longdouble)
    magnitudes = np.abs(wide).sum(axis)
    found = np.abs(np.asarray(y, np.longdouble) - wide.sum(axis))
    return float((found / magnitudes).max())


def allowed(x: Any) -> float:
    """Four times the error of a sum by halves, or of two roundings."""
    unit = np.finfo(x.dtype).eps / 2
    return 4 * max(error(by_halves(x), x, 0), 2 * unit)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums(kind: str, n: int, dtype: str) -> None:
    x = DATA[kind](n).astype(dtype)
    assert error(td.asarray(x).sum().numpy(), x, 0) <= allowed(x)
    for width in (1, 3, 70) if n < 1 << 17 else (3,):
        x = DATA[kind](n, width).astype(dtype)
        limit = allowed(x)
        assert error(td.asarray(x).sum(0).numpy(), x, 0) <= limit
        y = td.asarray(np.ascontiguousarray(x.T))
        assert error(y.sum(1).numpy(), x, 0) <= limit
