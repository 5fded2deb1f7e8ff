"""Which loop runs in vectors."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import treadle as td
from treadle.graph.operators import functions
from treadle.optim.gradients import Gradient


def test_conditions_are_not_taken_for_memory() -> None:
    """Of what three parts are joined to, elements lie side by side, not the parts."""
    w = td.param("w", init=np.ones((16, 3 * 2 * 64), np.float32))
    x = td.asarray(np.ones((2, 32, 16), np.float32))
    joint = (x @ w).reshape((2, 32, 3, 2, 64))
    q, k, v = td.permute_dims(joint, (2, 0, 3, 1, 4))
    y = td.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    down = td.lower(td.grad(td.square(y).sum(), [w])[0])
    kernels = down.kernels.split("\nkernel ")
    joins = [text for text in kernels if text.count(" where ") >= 3]
    assert joins
    for text in joins:
        axis = re.findall(r"vector (\w+) <", text)[-1]
        assert re.search(rf"^ *b0\[.*\+ {axis}\] = ", text, re.MULTILINE), text


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rows, columns", [(1, 3), (5, 17), (29, 8), (50, 8), (70, 40)])
def test_a_sum_of_rows_that_are_made_beside_it_has_its_bits(
    rows: int, columns: int, seed: int
) -> None:
    """Rows are read where they lie, or as the kernel of the sum chooses them."""
    draws = np.random.default_rng(rows + seed)
    ids = draws.integers(0, 30, rows)
    values = draws.normal(size=(rows, columns)).astype(np.float32)

    def square_sum(is_there: bool) -> float:
        total = functions.combine_rows(td.constant(ids), td.constant(values), 30)
        total = td.constant(total.numpy()) if is_there else total
        return float(Gradient(total, td.constant(ids), 30).square_sum())

    assert square_sum(True) == square_sum(False)


@pytest.mark.parametrize("extent", [7, 100, 1000, 30000])
def test_a_sum_has_its_bits_whatever_is_made_of_it(extent: int) -> None:
    """A wider result in the same kernel leaves the lanes of the sum as they are."""
    draws = np.random.default_rng(extent)
    x = td.constant(draws.normal(size=extent).astype(np.float32))
    total = float((x * x).sum())
    assert float((x * x).sum().astype(td.float64) + 1.0) == total + 1.0
    wide = td.constant(x.numpy().astype(np.float64)).astype(td.float32)
    assert float((wide * wide).sum()) == total


def _reversed_axes(x: td.Tensor) -> td.Tensor:
    return td.permute_dims(x, (1, 0))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("rows, columns", [(4, 4), (5, 7), (64, 40)])
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x[0].reshape(-1, 1) * x[0].reshape(1, -1),
        lambda x: x[:, :1] * x[:1],
        lambda x: x + x[0],
        lambda x: x * x[:, :1],
        lambda x: _reversed_axes(x) * 2,
        lambda x: _reversed_axes(x) * x.reshape(x.shape[::-1]),
        lambda x: td.flip(x, axis=1) * 2,
        lambda x: td.concat([x, x], axis=0) * 2,
    ],
)
def test_a_sum_has_its_bits_whether_its_operand_is_there(
    make: Callable[[td.Tensor], td.Tensor], rows: int, columns: int, axis: int
) -> None:
    """What is summed is computed in its kernel, or stored there, or read before."""
    for seed in range(4):
        drawn = np.random.default_rng(seed).normal(size=(rows, columns))
        x = td.constant(drawn, "float64")
        alone = td.tanh(make(x)).sum(axis).numpy().tobytes()
        operand = td.tanh(make(x))
        beside, _ = td.evaluate(operand.sum(axis), operand)
        assert beside.tobytes() == alone
        inner = make(x)
        assert td.evaluate(td.tanh(inner).sum(axis), inner)[0].tobytes() == alone
        operand = td.tanh(make(x))
        operand.numpy()
        assert operand.sum(axis).numpy().tobytes() == alone


def test_sums_in_two_orders_are_two_kernels() -> None:
    """One loop over what two sums read would run across the one or along the other."""
    drawn = np.random.default_rng(0).normal(size=(64, 70))
    x, y = td.constant(drawn, "float64"), td.constant(drawn * 2, "float64")

    def sums(values: td.Tensor) -> list[td.Tensor]:
        return [td.tanh(values).sum(0), td.exp(_reversed_axes(values)).sum(1)]

    both = td.evaluate(*sums(td.sin(x * y)))
    for k, one in enumerate(both):
        assert one.tobytes() == sums(td.sin(x * y))[k].numpy().tobytes()
