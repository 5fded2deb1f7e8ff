"""Convolutions as programs state them to kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.loops.lower import row_major
from treadle.ops.convolution import Conv
from treadle.program.convolution import Convolution, convolution_of


def stated(*shapes: Any, **settings: Any) -> Convolution:
    """The convolution of row-major operands of these shapes."""
    x, w = (td.placeholder(shape) for shape in shapes)
    y: Tensor = td.nn.functional.conv2d(x, w, **settings)
    while type(y.op) is not Conv:
        (y,) = y.inputs
    found = convolution_of(y, *map(row_major, (*y.inputs, y)))
    assert found is not None
    return found


def test_images_one_pixel_wide_lie_down() -> None:
    high = stated((1, 3, 20, 1), (4, 3, 5, 1))
    assert (high.extents, high.kernel, high.counts) == ((1, 20), (1, 5), (1, 16))
    assert (high.x[3], high.w[3], high.y[3]) == (1, 1, 1)


def test_images_with_a_border_at_their_sides_stand() -> None:
    assert stated((1, 3, 20, 1), (4, 3, 5, 3), padding=(0, 1)).extents == (20, 1)


@pytest.mark.parametrize("layout", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_values_and_gradients_of_high_images(layout: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 3, 20, 1)).astype(np.float32).transpose(layout)
    w = rng.standard_normal((4, 3, 5, 1)).astype(np.float32)

    def both(engine: str) -> list[Any]:
        with td.options(engine=engine):
            a, b = td.param(init=x), td.param(init=w)
            back = np.argsort(layout).tolist()
            y = td.tanh(td.nn.functional.conv2d(a.transpose(back), b, stride=(2, 1)))
            loss = td.sum(y * y)
            return td.evaluate(y, *td.grad(loss, [a, b]))

    for got, want in zip(both("native"), both("reference"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
