"""Losses spelled out by hand at logits of ten thousand: finite, and right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

LOGITS = np.array([[1e4, -1e4, 0.0], [-1e4, 1e4, 5.0], [0.5, -0.25, 2.0]], np.float32)
LABELS = np.array([1, 0, 2])
HOT = np.eye(3, dtype=np.float32)[LABELS]


def shares(x: Any) -> Any:
    e = td.exp(x)
    return e / e.sum(1, keepdims=True)


def shares_by_reshape(x: Any) -> Any:
    e = td.exp(x)
    return e / td.sum(e, 1).reshape(-1, 1)


def shares_of_shifted(x: Any) -> Any:
    e = td.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def logistic(x: Any) -> Any:
    return 1 / (1 + td.exp(-x))


def logistic_by_growth(x: Any) -> Any:
    return td.exp(x) / (1 + td.exp(x))


SOFTMAXES = [td.softmax, shares, shares_by_reshape, shares_of_shifted]


def logistic_by_product(x: Any) -> Any:
    return td.exp(x) * (1 / (td.exp(x) + 1))


def logistic_shared(x: Any) -> Any:
    e = td.exp(x)
    return e / (1 + e)


def logistic_of_complement(x: Any) -> Any:
    return 1 - 1 / (1 + td.exp(x))


SIGMOIDS = [
    td.sigmoid, logistic, logistic_by_growth, logistic_by_product, logistic_shared,
    logistic_of_complement,
]  # fmt: skip


def hot(p: Any) -> Any:
    return -(HOT * td.log(p)).sum(1).mean()


def hot_total(p: Any) -> Any:
    return -td.sum(td.asarray(HOT) * td.log(p)) / 3.0


def labeled(p: Any) -> Any:
    return td.nll_loss(td.log(p), LABELS)


def picked(p: Any) -> Any:
    return -td.pick(td.log(p), LABELS, 1).mean()


def chosen(p: Any) -> Any:
    return -td.log(td.pick(p, LABELS, 1)).mean()


def part(p: Any) -> Any:
    return -sum(td.log(p)[k, label] for k, label in enumerate(LABELS)) / 3


def log_of_part(p: Any) -> Any:
    return -sum(td.log(p[k, label]) for k, label in enumerate(LABELS)) / 3


def by_arrays(p: Any) -> Any:
    return -td.log(p[np.arange(3), LABELS]).mean()


LOSSES = [hot, hot_total, labeled, picked, chosen, part, log_of_part, by_arrays]


def exactly(x: Any) -> tuple[float, Any]:
    wide = x.astype(np.float64)
    shifted = wide - wide.max(1, keepdims=True)
    e = np.exp(shifted)
    logs = shifted - np.log(e.sum(1, keepdims=True))
    value = -logs[np.arange(3), LABELS].mean()
    return float(value), (e / e.sum(1, keepdims=True) - HOT) / 3


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_cross_entropy_of_a_softmax(
    softmax: Callable[[Any], Any], loss: Callable[[Any], Any], traced: bool
) -> None:
    want, slope = exactly(LOGITS)

    def both(x: Any) -> Any:
        y = loss(softmax(x))
        return y, td.grad(y, [x])[0]

    run = td.function(both) if traced else both
    value, gradient = run(td.asarray(LOGITS))
    np.testing.assert_allclose(float(value), want, rtol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), slope, atol=1e-6)


@pytest.mark.parametrize("way", ["one run", "read", "traced"])
@pytest.mark.parametrize("sigmoid", SIGMOIDS)
def test_binary_cross_entropy_of_a_sigmoid(
    sigmoid: Callable[[Any], Any], way: str
) -> None:
    def both(x: Any) -> Any:
        p = sigmoid(x)
        loss = -(HOT * td.log(p) + (1 - HOT) * td.log(1 - p)).mean()
        if way == "read":
            assert np.isfinite(loss.numpy()) and np.isfinite(p.numpy()).all()
        return loss, td.grad(loss, [x])[0]

    loss, gradient = (td.function(both) if way == "traced" else both)(
        td.asarray(LOGITS)
    )
    wide = LOGITS.astype(np.float64)
    want = np.mean(np.logaddexp(0, wide) - HOT * wide)
    with np.errstate(over="ignore"):
        slope = (1 / (1 + np.exp(-wide)) - HOT) / HOT.size
    np.testing.assert_allclose(float(loss), want, rtol=1e-6)
    np.testing.assert_allclose(gradient.numpy(), slope, atol=1e-6)


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("sigmoid", SIGMOIDS)
@pytest.mark.parametrize("loss", ["sum", "log", "log of one less", "square"])
def test_a_sigmoid_and_its_slope(
    sigmoid: Callable[[Any], Any], loss: str, read: bool
) -> None:
    logits = np.array([-1e4, -30, -2, 0, 0.5, 3, 30, 1e4], np.float32)
    x = td.asarray(logits)
    wide = logits.astype(np.float64)
    with np.errstate(over="ignore"):
        s, c = 1 / (1 + np.exp(-wide)), 1 / (1 + np.exp(wide))
    p = sigmoid(x)
    if read:
        np.testing.assert_allclose(p.numpy(), s, atol=1e-7)
    y, slope = {
        "sum": (p, s * c),
        "log": (td.log(p), c),
        "log of one less": (td.log(1 - p), -s),
        "square": (p * p, 2 * s * s * c),
    }[loss]
    (gradient,) = td.grad(y.sum(), [x])
    np.testing.assert_allclose(gradient.numpy(), slope, atol=1e-6)


@pytest.mark.parametrize(
    "make, want",
    [
        (lambda x: td.log(td.exp(x).sum()), 1e4),
        (lambda x: td.log(1 + td.exp(x)).sum(), 1e4 + np.log(2) + np.log1p(np.exp(-1))),
        (lambda x: td.log(td.exp(x)).sum(), 1e4 - 1),
        (lambda x: td.log(td.exp(x[0]) + td.exp(x[1])), 1e4),
        (lambda x: (td.exp(x) * td.exp(-x)).sum(), 3.0),
    ],
)
def test_logarithms_of_exponentials(make: Any, want: float) -> None:
    x = td.asarray(np.array([1e4, 0.0, -1.0], np.float32))
    y = make(x)
    np.testing.assert_allclose(float(y), want, rtol=1e-6)
    assert np.isfinite(td.grad(y, [x])[0].numpy()).all()


def test_small_numbers_keep_their_digits() -> None:
    x = td.asarray(np.array([1e-6], np.float32))
    np.testing.assert_allclose((td.exp(x) - 1).numpy(), np.expm1(1e-6), rtol=1e-6)
    np.testing.assert_allclose(td.log(1 + x).numpy(), np.log1p(1e-6), rtol=1e-6)


@pytest.mark.parametrize(
    "make, want",
    [
        (lambda x: x * 0, [np.nan, np.nan, 0.0]),
        (lambda x: x - x, [np.nan, np.nan, 0.0]),
        (lambda x: 0 / (x - 2.0), [np.nan, 0.0, np.nan]),
        (lambda x: x / x, [np.nan, np.nan, 1.0]),
        (lambda x: td.maximum(x, 0) * 0, [np.nan, np.nan, 0.0]),
    ],
)
def test_what_is_no_number_stays_none(make: Any, want: Any) -> None:
    x = td.asarray(np.array([np.nan, np.inf, 2.0], np.float32))
    np.testing.assert_array_equal(make(x).numpy(), np.float32(want))


def test_what_is_finite_by_its_ancestors_vanishes() -> None:
    mask = (td.param("x", init=[1.0, 2.0]) > 1.5).astype("float32")
    assert str(td.simplify(mask * 0)) == "0"
    assert str(td.simplify(0 / (mask + 1))) == "0"


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("softmax", SOFTMAXES)
def test_several_in_one_graph_of_which_the_gradient_is_derived_once(
    softmax: Callable[[Any], Any], loss: Callable[[Any], Any], rows: bool
) -> None:
    arrays = [LOGITS, LOGITS[::-1].copy(), LOGITS * 0.5, LOGITS[:, ::-1].copy()]
    xs = [td.asarray(x) for x in arrays]
    total = sum((loss(softmax(x)) for x in xs), start=td.constant(0.0))
    with td.options(autobatch=rows):
        found = td.evaluate(td.grad(total, xs))
    for x, gradient in zip(arrays, found, strict=True):
        np.testing.assert_allclose(gradient, exactly(x)[1], atol=1e-6)


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("sigmoid", SIGMOIDS)
def test_several_binary_cross_entropies_in_one_graph(
    sigmoid: Callable[[Any], Any], rows: bool
) -> None:
    arrays = [LOGITS, LOGITS[::-1].copy(), LOGITS * 0.5, LOGITS[:, ::-1].copy()]
    xs = [td.asarray(x) for x in arrays]
    total: Any = td.constant(0.0)
    with td.options(autobatch=rows):
        for x in xs:
            p = sigmoid(x)
            total = total - (HOT * td.log(p) + (1 - HOT) * td.log(1 - p)).mean()
        found = td.evaluate(td.grad(total, xs))
    for x, gradient in zip(arrays, found, strict=True):
        with np.errstate(over="ignore"):
            slope = (1 / (1 + np.exp(-x.astype(np.float64))) - HOT) / HOT.size
        np.testing.assert_allclose(gradient, slope, atol=1e-6)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(5,), (5, 1)])
def test_any_function_of_a_softmax(shape: tuple[int, ...], keepdims: bool) -> None:
    scores = np.array([1e4, -1e4, 30.0, 0.0, 1e4 - 1], np.float32)
    x = td.param("x", init=scores.reshape(shape))
    e = td.exp(x)
    y = td.square(e / e.sum(0, keepdims=keepdims)).sum()
    p = np.exp(scores - 1e4, dtype=np.float64)
    p /= p.sum()
    slope = 2 * p * (p - (p * p).sum())
    np.testing.assert_allclose(float(y), (p * p).sum(), rtol=1e-6)
    found = td.grad(y, [x])[0].numpy()
    np.testing.assert_allclose(found.ravel(), slope, atol=1e-6)


def test_without_rules_a_derivative_is_that_of_the_ops() -> None:
    x = td.param("x", init=[1e4, 0.0])
    with td.options(optimize=False):
        e = td.exp(x)
        y = td.log(e / e.sum())[1]
        assert not np.isfinite(td.grad(y, [x])[0].numpy()).any()
