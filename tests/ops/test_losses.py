"""Losses: values by hand, extremes that stay finite, labels that name no class."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(5, 3)).astype(np.float32)
LABELS = np.array([0, 2, 1, 2, 2])


def log_softmax(x: Any) -> Any:
    shifted = x.astype(np.float64) - x.max(1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))


def test_cross_entropy_by_hand() -> None:
    scores = log_softmax(LOGITS)
    own = -scores[np.arange(5), LABELS]
    close: Any = lambda got, want: np.testing.assert_allclose(  # noqa: E731
        got.numpy(), want, rtol=2e-6
    )
    close(td.cross_entropy(LOGITS, LABELS, reduction="none"), own)
    close(td.cross_entropy(LOGITS, LABELS), own.mean())
    kept = LABELS != 2
    close(td.cross_entropy(LOGITS, LABELS, ignore_index=2), own[kept].mean())
    w = np.array([1.0, 2.0, 0.5], np.float32)
    weighted = (own * w[LABELS]).sum() / w[LABELS].sum()
    close(td.cross_entropy(LOGITS, LABELS, weight=w), weighted)
    even = 0.9 * own - 0.1 * scores.mean(1)
    close(td.cross_entropy(LOGITS, LABELS, label_smoothing=0.1), even.mean())
    hot = np.eye(3, dtype=np.float32)[LABELS]
    close(td.cross_entropy(LOGITS, hot, label_smoothing=0.1), even.mean())
    close(td.nll_loss(scores.astype(np.float32), LABELS), own.mean())
    turned = td.cross_entropy(LOGITS.T.reshape(1, 3, 5), LABELS.reshape(1, 5))
    close(turned, own.mean())
    close(td.cross_entropy(LOGITS.T, LABELS, axis=0), own.mean())


def test_nothing_that_counts_has_the_mean_zero() -> None:
    x = td.param(init=LOGITS)
    loss = td.cross_entropy(x, np.full(5, -100), ignore_index=-100)
    assert float(loss) == 0.0
    assert not td.grad(loss, [x])[0].numpy().any()


@pytest.mark.parametrize(
    "loss",
    [
        lambda x: td.cross_entropy(x, [0, 1]),
        lambda x: td.cross_entropy(x, [0, 1], label_smoothing=0.1),
        lambda x: td.cross_entropy(x, [[1.0, 0.0], [0.5, 0.5]]),
        lambda x: td.unlikelihood(x, [0, 1]),
        lambda x: td.sparsemax_loss(x, [0, 1]),
        lambda x: td.class_hinge_loss(x, [0, 1]),
        lambda x: td.binary_cross_entropy_with_logits(x, [[0.0, 1.0]] * 2),
        lambda x: td.focal_loss(x, [[0.0, 1.0]] * 2),
        lambda x: td.huber_loss(x, [[0.0, 1.0]] * 2),
        lambda x: td.cosine_similarity(x, x).sum(),
        lambda x: td.triplet_margin_loss(x, x, x),
    ],
)
@pytest.mark.parametrize("size", [1e4, 0.0])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_losses_and_gradients_stay_finite(loss: Any, size: float, dtype: str) -> None:
    x = td.asarray(np.array([[size, -size], [size, -size]], np.float32), dtype)
    y = loss(x)
    assert np.isfinite(float(y))
    assert np.isfinite(td.grad(y, [x])[0].numpy().astype(np.float32)).all()


def test_small_losses_are_not_rounded_away() -> None:
    for logit, target in ((20.0, 1.0), (-20.0, 0.0)):
        found = float(td.binary_cross_entropy_with_logits([logit], [target]))
        assert found == pytest.approx(np.log1p(np.exp(-20.0)), rel=1e-5)


def test_certain_and_wrong_probabilities_still_teach() -> None:
    p = td.asarray([0.0, 1.0])
    loss = td.binary_cross_entropy(p, [1.0, 0.0], reduction="sum")
    assert float(loss) == 200.0
    slope = td.grad(loss, [p])[0].numpy()
    assert slope[0] < -1e9 and slope[1] > 1e9 and np.isfinite(slope).all()


def test_a_ruled_out_class_costs_nothing() -> None:
    x = td.asarray([[0.0, -np.inf]])
    loss = td.cross_entropy(x, [[1.0, 0.0]])
    assert float(loss) == 0.0
    assert np.isfinite(td.grad(loss, [x])[0].numpy()).all()


@pytest.mark.parametrize(
    "loss",
    [td.cross_entropy, td.nll_loss, td.unlikelihood, td.class_hinge_loss],
)
def test_labels_that_name_no_class(loss: Any) -> None:
    with pytest.raises(td.RunError, match="label 3 is out of range for 3 classes"):
        loss(LOGITS, [0, 1, 2, 3, 0]).numpy()
    with pytest.raises(td.RunError, match="label -1"):
        loss(LOGITS, [0, 1, 2, -1, 0]).numpy()
    with pytest.raises(td.ShapeError, match="with labels"):
        loss(LOGITS, [0, 1])


def test_shapes_that_would_broadcast_are_refused() -> None:
    with pytest.raises(td.ShapeError, match="with target"):
        td.mse_loss(td.zeros((3, 1)), td.zeros((3,)))
    with pytest.raises(td.ArgumentError, match="reduction is"):
        td.mse_loss([1.0], [1.0], reduction="average")


def test_distances_by_hand() -> None:
    x, y = LOGITS, LOGITS[::-1].copy()
    d = np.abs(x - y).astype(np.float64)
    huber = np.where(d <= 0.5, d * d / 2, 0.5 * (d - 0.25))
    assert float(td.huber_loss(x, y, delta=0.5)) == pytest.approx(
        huber.mean(), rel=1e-5
    )
    p, q = np.exp(log_softmax(x)), log_softmax(y)
    want = (p * (np.log(p) - q)).sum()
    found = td.kl_div(q.astype(np.float32), p.astype(np.float32), reduction="sum")
    assert float(found) == pytest.approx(want, rel=1e-5)
    found = td.kl_div(
        q.astype(np.float32), np.log(p).astype(np.float32), "batchmean", True
    )
    assert float(found) == pytest.approx(want / 5, rel=1e-5)
    rows = td.squared_distance(x, y, 1).numpy()
    np.testing.assert_allclose(rows, (d * d).sum(1), rtol=1e-5)
    hinge = np.maximum(0, 1 - x[np.arange(5), LABELS][:, None] + x)
    hinge[np.arange(5), LABELS] = 0
    found = td.multi_margin_loss(x, LABELS)
    assert float(found) == pytest.approx(hinge.sum(1).mean() / 3, rel=1e-5)


def test_several_labels_share_the_hot_row_of_sparsemax() -> None:
    rng = np.random.default_rng(0)
    x = td.Parameter(rng.normal(size=(3, 5)))
    labels = [[0, 2], [1, 1], [4, 3]]
    t = np.zeros((3, 5))
    t[[0, 0, 1, 2, 2], [0, 2, 1, 4, 3]] = [0.5, 0.5, 1.0, 0.5, 0.5]
    p = td.sparsemax(x).numpy()
    want = (((x.numpy() - t) ** 2).sum(1) - ((x.numpy() - p) ** 2).sum(1)) / 2
    for target in (labels, t):
        y = td.sparsemax_loss(x, target, reduction="none")
        np.testing.assert_allclose(y.numpy(), want, rtol=1e-12)
        (g,) = td.grad(y.sum(), [x])
        np.testing.assert_allclose(g.numpy(), p - t, atol=1e-12)
    one = td.sparsemax_loss(x, [1, 1, 0], reduction="none")
    again = td.sparsemax_loss(x, [[1], [1], [0]], reduction="none")
    np.testing.assert_allclose(one.numpy(), again.numpy(), rtol=1e-12)
    assert float(td.sparsemax_loss(x[0], labels[0])) == pytest.approx(want[0])
    with pytest.raises(td.ShapeError, match="several one more behind"):
        td.sparsemax_loss(x, [[1], [1]])
    with pytest.raises(td.RunError, match="label -1"):
        td.sparsemax_loss(x, [[1, -1]] * 3).numpy()


def test_distances_broadcast() -> None:
    x, y = np.arange(6.0).reshape(2, 1, 3), np.ones((4, 1))
    squared = td.squared_distance(x, y, axis=-1)
    np.testing.assert_array_equal(squared.numpy(), ((x - y) ** 2).sum(-1))
    np.testing.assert_array_equal(td.l1_distance(x, y).numpy(), np.abs(x - y).sum())
    with pytest.raises(td.ShapeError, match="do not broadcast"):
        td.squared_distance(np.ones(3), np.ones(4))
