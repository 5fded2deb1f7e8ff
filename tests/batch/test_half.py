"""Cells of 16-bit floats: run as rows, and derived node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(1)
LENGTHS = (3, 5, 7, 2, 6, 9, 4, 8)
DATA = [RNG.normal(size=(n, 16)).astype(np.float32) for n in LENGTHS]
CELLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "element by element": lambda x, h, w: td.tanh(x * w[0] + h),
    "a product": lambda x, h, w: td.tanh(w @ x + h),
    "derived in float32": lambda x, h, w: td.tanh(w.astype("float32") @ x + h),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", CELLS)
def test_gradients_are_those_of_each_step(name: str, dtype: str) -> None:
    draw = np.random.default_rng(2)  # the same whichever tests ran before
    start = draw.normal(size=(16, 16)).astype(np.float32) / 4
    own = "float32" if "float32" in name else dtype

    def run(autobatch: bool) -> list[Any]:
        w = td.param(init=start, dtype=dtype)
        cell = td.function(lambda x, h: CELLS[name](x, h, w))
        total: Any = 0.0
        with td.options(engine="native", autobatch=autobatch):
            for xs in DATA:
                h = td.zeros((16,), own)
                for x in xs:
                    h = cell(td.asarray(x).astype(own), h)
                total = total + h.astype("float32").sum()
            (g,) = td.grad(total, [w])
            return [float(total), g.numpy().astype(np.float32)]

    one, other = run(True), run(False)
    np.testing.assert_allclose(one[0], other[0], rtol=1e-2, atol=1e-2)
    np.testing.assert_allclose(one[1], other[1], rtol=0.05, atol=0.1)
    assert np.abs(other[1]).max() > 0.1
