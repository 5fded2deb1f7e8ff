"""Loops side by side: chains of a region with a core, one after the other without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td


@pytest.mark.parametrize("lengths", [(8, 8), (8, 5)])
def test_gradients_through_two_loops_side_by_side(lengths: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    w = td.param("w", init=rng.normal(size=(9, 5)))
    v = td.param("v", init=rng.normal(size=(9, 4)))
    drawn = [[rng.integers(0, n, k) for n in (9, 5, 4)] for k in lengths]

    def loss() -> Any:
        def step(s: Any, x: Any) -> Any:
            i, j, k = x
            return s + td.sin(w[i, j]) * v[i, k], s

        start = td.asarray(np.float64(0))
        sums = [td.scan(step, start, tuple(map(td.asarray, x)))[0] for x in drawn]
        return sums[0] + sums[1]

    found = td.evaluate(*td.grad(loss(), [w, v]))
    with td.options(engine="reference"):
        wanted = td.evaluate(*td.grad(loss(), [w, v]))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
