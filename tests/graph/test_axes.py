"""Named axes from the first day: operands align by name, or say why not."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td


def named(shape: tuple[int, ...], *names: str) -> td.Tensor:
    return td.asarray(
        np.arange(np.prod(shape), dtype=np.float32).reshape(shape), axes=names
    )


def test_operands_align_by_name() -> None:
    x, b = named((2, 3), "n", "c"), named((2,), "n")
    y = x + b
    assert y.axes == ("n", "c")
    np.testing.assert_array_equal(y.numpy(), x.numpy() + b.numpy()[:, None])


def test_the_result_has_the_firsts_axes_then_the_seconds_others() -> None:
    x, y = named((2, 3), "n", "c"), named((4, 2), "t", "n")
    z = x * y
    assert z.axes == ("n", "c", "t") and z.shape == (2, 3, 4)
    np.testing.assert_array_equal(
        z.numpy(), np.einsum("nc,tn->nct", x.numpy(), y.numpy())
    )


def test_a_bias_of_another_name_never_becomes_an_outer_sum_unseen() -> None:
    with pytest.raises(td.AxisError, match="no axis names"):
        named((2, 3), "n", "c") + td.ones(3)


def test_equal_names_have_equal_lengths() -> None:
    with pytest.raises(td.AxisError, match="lengths 3 and 4"):
        named((2, 3), "n", "c") + named((4,), "c")


def test_reductions_take_and_drop_names() -> None:
    x = named((2, 3), "n", "c")
    assert x.sum("c").axes == ("n",)
    assert x.sum(td.Axis("n", 2)).axes == ("c",)


def test_derivatives_come_back_in_the_axes_of_their_primal() -> None:
    w = td.Variable(np.ones(3, np.float32), trainable=True, axes=("c",))
    x = named((2, 3), "n", "c")
    (g,) = td.grad((x * w).sum(), [w])
    assert g.tolist() == [3.0, 5.0, 7.0]


def test_a_kept_dimension_broadcasts_by_position() -> None:
    x = named((2, 3), "n", "c")
    centered = x - td.mean(x, "c", keepdims=True)
    assert centered.axes == ("n", "c")
    np.testing.assert_allclose(centered.numpy().sum(1), 0.0)


def test_derivatives_through_an_op_that_drops_names() -> None:
    w = td.Variable(np.ones((2, 3), np.float32), trainable=True, axes=("n", "c"))
    (g,) = td.grad(td.diagonal(w * 2.0).sum(), [w])
    assert g.axes == ("n", "c")
    assert g.tolist() == [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
