"""Folds, scans and movements where samples do not reach: names, infinities, traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

INF = float("inf")
FOLDS = [
    "max", "min", "prod", "sum", "mean", "var", "std", "logsumexp", "median",
    "l1_norm", "l2_norm", "squared_l2_norm", "norm",
]  # fmt: skip
SAME_SHAPE: dict[str, Callable[[Any, Any], Any]] = {
    "cumulative_sum": td.cumulative_sum,
    "cumulative_prod": td.cumulative_prod,
    "cumulative_logsumexp": td.cumulative_logsumexp,
    "cumulative_max": td.cumulative_max,
    "sort": td.sort,
    "flip": td.flip,
    "roll": lambda x, axis: td.roll(x, 1, axis),
    "shift": lambda x, axis: td.shift(x, 1, axis),
    "pad": lambda x, axis: td.pad(x, 1),
    "edge": lambda x, axis: td.pad(x, 1, "edge"),
    "repeat": lambda x, axis: td.repeat(x, 2, axis),
    "repeats": lambda x, axis: td.repeat(x, [1, 0, 2], axis),
    "tile": lambda x, axis: td.tile(x, (1, 2)),
    "tril": lambda x, axis: td.tril(x),
    "concat": lambda x, axis: td.concat([x, x], axis),
}
DATA = np.array([[1.0, 3.0, 2.0], [-1.0, 0.5, 4.0]])


def slopes(f: Callable[[Any], Any], data: Any, *names: str) -> tuple[Any, Any]:
    """The type of f(x) and the gradient of a weighted sum of it."""
    x = td.param("x", init=np.array(data), dtype="float64")
    y = f(td.name_axes(x, *names) if names else x)
    flat = td.unname(y).reshape(-1)
    weights = np.arange(1.0, flat.size + 1)
    (g,) = td.grad((flat * weights).sum(), [x])
    return y.type, g.numpy()


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", FOLDS)
def test_folds_of_named_axes(name: str, keepdims: bool) -> None:
    fold = getattr(td, name)
    _, want = slopes(lambda x: fold(x, axis=1, keepdims=keepdims), DATA)
    found, got = slopes(lambda x: fold(x, axis="b", keepdims=keepdims), DATA, "a", "b")
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert found.axes == (("a", None) if keepdims else ("a",))


@pytest.mark.parametrize("name", SAME_SHAPE)
def test_movements_and_scans_of_named_axes(name: str) -> None:
    f = SAME_SHAPE[name]
    _, want = slopes(lambda x: f(x, 1), DATA)
    found, got = slopes(lambda x: f(x, "b"), DATA, "a", "b")
    np.testing.assert_allclose(got, want, rtol=1e-12)
    assert found.axes == ("a", "b")


def test_logsumexp_of_nothing_finite_has_no_slope() -> None:
    data = [[-INF, -INF], [-INF, 1.0]]
    _, got = slopes(lambda x: td.logsumexp(x, 1), data)
    assert got.tolist() == [[0.0, 0.0], [0.0, 2.0]]
    x = td.constant(np.array(data))
    y = td.logsumexp(x, 1)
    assert y.tolist() == [-INF, 1.0]
    op: Any = y.op
    assert op.expand(x).tolist() == [-INF, 1.0]


@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_logsumexp_far_below_its_greatest(reverse: bool) -> None:
    data = np.array([-2000.0, 0.0, -INF, 5.0])
    data = data[::-1] if reverse else data
    _, got = slopes(lambda x: td.cumulative_logsumexp(x, reverse=reverse), data)
    y = np.logaddexp.accumulate(data[::-1] if reverse else data)
    y = y[::-1] if reverse else y
    weights = np.arange(1.0, 5.0)
    reached = np.tri(4, dtype=bool) if reverse else np.tri(4, dtype=bool).T
    shares = np.exp(np.where(reached, data[:, None] - y, -INF))
    want = np.sum(shares * weights, axis=1)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_exclusive_scans_pass_back_what_follows() -> None:
    data = [0.5, 2.0, -1.0, 3.0]
    # The first place is -inf, a constant: it is left out of the sum.
    _, got = slopes(lambda x: td.cumulative_logsumexp(x, exclusive=True)[1:], data)
    _, want = slopes(lambda x: td.cumulative_logsumexp(x)[:-1], data)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    _, got = slopes(lambda x: td.cumulative_max(x, exclusive=True)[1:], data)
    _, want = slopes(lambda x: td.cumulative_max(x)[:-1], data)
    np.testing.assert_allclose(got, want, rtol=1e-12)


def test_cumulative_max_gives_to_the_last_of_equals_and_to_nan() -> None:
    _, got = slopes(td.cumulative_max, [1.0, 1.0, 3.0, 2.0])
    assert got.tolist() == [1.0, 2.0, 7.0, 0.0]
    _, got = slopes(lambda x: td.cumulative_max(x, reverse=True), [1.0, 3.0, 2.0, 2.0])
    assert got.tolist() == [0.0, 3.0, 3.0, 4.0]
    _, got = slopes(td.cumulative_max, [1.0, np.nan, 3.0])
    assert got.tolist() == [1.0, 5.0, 0.0]
    assert td.cumulative_max([1, 3, 2]).dtype == td.int64


def test_a_long_product_is_differentiated_in_one_pass() -> None:
    n = 4000
    data = np.ones(n)
    data[[7, 900]] = 0.0, 2.0
    _, got = slopes(td.cumulative_prod, data)
    assert got[7] == np.sum(np.arange(8, 901)) + 2 * np.sum(np.arange(901, n + 1))
    assert not got[8:].any()


def test_equal_extremes_share_the_derivative() -> None:
    _, got = slopes(lambda x: td.max(x), [2.0, 1.0, 2.0])
    assert got.tolist() == [0.5, 0.0, 0.5]


def test_complex_norms_and_products() -> None:
    z = td.constant(np.array([3 + 4j, 0j]))
    assert float(td.l2_norm(z)) == 5.0 and float(td.l1_norm(z)) == 5.0
    assert [float(td.norm(z, k)) for k in (0, INF, -INF)] == [1.0, 5.0, 0.0]
    x = td.param("x", init=np.array([1 + 2j, 3 - 1j]), dtype="complex128")
    for y in (td.prod(x), td.cumulative_prod(x)[1]):
        (g,) = td.grad(td.real(y), [x])
        np.testing.assert_allclose(g.numpy(), np.conj([3 - 1j, 1 + 2j]))


def test_weights_of_one_axis() -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
    w = [1.0, 2.0, 1.0]
    want = np.average(x, 0, w)
    np.testing.assert_allclose(td.weighted_average(x, w, 0).numpy(), want)
    named = td.name_axes(td.constant(x), "n", "c")
    weights = td.name_axes(td.constant(np.array(w)), "n")
    y = td.weighted_average(named, weights, "n", keepdims=True)
    assert y.axes == (None, "c") and y.shape == (1, 2)
    np.testing.assert_allclose(y.numpy()[0], want)


def test_distinct_values_are_counted_at_the_call() -> None:
    x = td.param("x", init=np.array([[3.0, 1.0], [3.0, 2.0]]))
    values, inverse = td.unique_inverse(x)
    assert values.tolist() == [1.0, 2.0, 3.0]
    assert inverse.tolist() == [[2, 0], [2, 1]]
    assert td.grad(values.sum(), [x])[0].tolist() == [[1.0, 1.0], [0.0, 1.0]]
    with pytest.raises(td.TraceError, match="distinct"):
        td.function(td.unique_values)(x)


def test_several_rolls_and_names_that_stay() -> None:
    x = td.name_axes(td.zeros((2, 3, 4)), "a", "b", "c")
    assert td.flatten(x, 1).axes == ("a", None)
    assert td.unflatten(x, "c", (2, 2)).axes == ("a", "b", None, None)
    want = np.roll(DATA, (1, 2), (0, 1))
    assert td.roll(DATA, (1, 2), (0, 1)).tolist() == want.tolist()
    grids = td.meshgrid([1.0, 2.0], [3.0], [4.0, 5.0], indexing="ij")
    wants = np.meshgrid([1.0, 2.0], [3.0], [4.0, 5.0], indexing="ij")
    for g, w in zip(grids, wants, strict=True):
        assert g.tolist() == w.tolist()


def test_refusals_are_sentences() -> None:
    for call, says in (
        (lambda: td.argmax(DATA, (0, 1)), "one axis or among all"),
        (lambda: td.repeat([1.0], 0.5), "a count is"),
        (lambda: td.repeat([1.0], [1, 2]), "counts"),
        (lambda: td.pad(td.zeros((0,)), 1, "reflect"), "no border"),
        (lambda: td.flatten_at(DATA, 3), "out of range"),
        (lambda: td.meshgrid([1.0], indexing="up"), "'up'"),
    ):
        with pytest.raises(td.TreadleError, match=says):
            call()
