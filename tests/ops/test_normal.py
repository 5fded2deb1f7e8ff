"""Dropout, normalization, attention, positions: what samples of one op cannot see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

X = np.random.default_rng(0).normal(size=(4, 6, 5)).astype(np.float32)


def test_dropout_keeps_the_mean_and_its_mask() -> None:
    with td.options(seed=1):
        x = td.param(init=np.ones((100, 100), np.float32))
        y = td.dropout(x, 0.3)
    value = y.numpy()
    assert set(np.unique(value)) == {0.0, np.float32(1 / np.float32(0.7))}
    assert abs(value.mean() - 1) < 0.02
    slope = td.grad(y.sum(), [x])[0].numpy()
    np.testing.assert_array_equal(slope, value)


def test_dropout_shares_its_mask_along_axes() -> None:
    with td.options(seed=1):
        y = td.dropout(td.ones((50, 8, 3)), 0.5, shared=(1, 2)).numpy()
        named = td.dropout(td.name_axes(td.ones((50, 8)), "n", "c"), 0.5, shared="c")
    assert all(len(np.unique(row)) == 1 for row in y) and len(np.unique(y)) == 2
    assert named.axes == ("n", "c")
    assert all(len(np.unique(row)) == 1 for row in named.numpy())


@pytest.mark.parametrize("dropping", [td.dropout, td.alpha_dropout, td.block_dropout])
def test_nothing_is_dropped_in_use(dropping: Any) -> None:
    x = td.asarray(X)
    assert dropping(x, 0.5, training=False) is x
    assert dropping(x, 0.0) is x
    with pytest.raises(td.ArgumentError, match="from 0 to 1"):
        dropping(x, 1.5)


@pytest.mark.parametrize("dropping", [td.dropout, td.alpha_dropout, td.block_dropout])
def test_a_probability_of_one_keeps_nothing(dropping: Any) -> None:
    assert not dropping(td.asarray(X), 1.0).numpy().any()
    with pytest.raises(td.ArgumentError, match="below 1"):
        td.gaussian_dropout(X, 1.0)


def test_noise_has_the_variance_it_should() -> None:
    with td.options(seed=2):
        x = td.random.normal((40_000,))
        a = td.alpha_dropout(x, 0.2).numpy()
        g = td.gaussian_dropout(td.ones((40_000,)), 0.2).numpy()
        n = td.gaussian_noise(td.zeros((40_000,)), 0.5).numpy()
        z = td.zoneout(td.ones((40_000,)), td.zeros((40_000,)), 0.2).numpy()
    assert abs(a.mean()) < 0.03 and abs(a.var() - 1) < 0.03
    assert abs(g.mean() - 1) < 0.01 and abs(g.var() - 0.25) < 0.01
    assert abs(n.mean()) < 0.01 and abs(n.var() - 0.25) < 0.01
    assert abs(z.mean() - 0.8) < 0.01


def test_normalizations_agree_with_each_other() -> None:
    plain = {"atol": 1e-5}
    rows = td.layer_norm(X, axis=(1, 2)).numpy()
    np.testing.assert_allclose(td.group_norm(X, 1).numpy(), rows, **plain)
    channels = td.instance_norm(X).numpy()
    np.testing.assert_allclose(td.group_norm(X, 6).numpy(), channels, **plain)
    mean, var = td.moments(X, (0, 2))
    whole = td.batch_norm(X).numpy()
    np.testing.assert_allclose(td.batch_norm(X, mean, var).numpy(), whole, **plain)
    assert abs(whole.mean((0, 2))).max() < 1e-5
    assert abs(whole.var((0, 2)) - 1).max() < 1e-3


def test_weights_stand_at_their_axes() -> None:
    w = np.arange(1, 7, dtype=np.float32)
    plain = td.layer_norm(X, axis=1).numpy()
    found = td.layer_norm(X, w, -w, axis=1).numpy()
    np.testing.assert_allclose(found, (plain - 1) * w[:, None], rtol=1e-4, atol=1e-5)
    named = td.name_axes(X, "n", "c", "t")
    y = td.layer_norm(named, w, axis="c")
    assert y.axes == ("n", "c", "t")
    np.testing.assert_allclose(y.numpy(), plain * w[:, None], rtol=1e-5, atol=1e-6)
    with pytest.raises(td.ShapeError, match="does not fit"):
        td.layer_norm(X, w)


def test_gradients_by_named_axes() -> None:
    x = td.param(init=X)
    plain = td.grad((td.rms_norm(x, axis=1) ** 3).sum(), [x])[0].numpy()
    named = td.rms_norm(td.name_axes(x, "n", "c", "t"), axis="c")
    np.testing.assert_allclose(
        td.grad((named**3).sum(), [x])[0].numpy(), plain, atol=1e-6
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_statistics_of_16_bit_floats_are_wide(dtype: str) -> None:
    x = td.param(init=td.asarray(np.full((2, 512), 300.0), dtype).numpy())
    y = td.rms_norm(x)  # the squares and eps are beyond float16
    assert float(y[0, 0]) == 1.0
    assert np.isfinite(td.grad(y.sum(), [x])[0].numpy().astype(np.float32)).all()


def test_zeros_have_no_direction_and_a_gradient() -> None:
    x = td.param(init=np.zeros((2, 3), np.float32))
    y = td.normalize(x)
    assert not y.numpy().any()
    assert np.isfinite(td.grad(y.sum(), [x])[0].numpy()).all()


def test_rotations_depend_on_the_distance_alone() -> None:
    q, k = td.asarray(X[0, 0, :4]), td.asarray(X[0, 1, :4])
    rows = td.rotary(td.stack([q] * 5)), td.rotary(td.stack([k] * 5))
    scores = (rows[0] @ rows[1].mT).numpy()
    for offset in range(-3, 4):
        diagonal = np.diagonal(scores, offset)
        np.testing.assert_allclose(diagonal, diagonal[0], rtol=1e-4, atol=1e-5)
    moved = td.rotary(td.stack([q] * 3), start=2).numpy()
    np.testing.assert_allclose(moved, rows[0].numpy()[2:], atol=1e-6)


def test_alibi_slopes_are_the_papers() -> None:
    bias = td.alibi_bias(12, 1, 3).numpy()
    assert bias.shape == (12, 1, 3) and not bias[:, 0, 2].any()
    slopes = -bias[:, 0, 1]
    want = [2.0**-h for h in range(1, 9)] + [2 ** -(h / 2) for h in (1, 3, 5, 7)]
    np.testing.assert_allclose(slopes, want, rtol=1e-6)


@pytest.mark.parametrize("dropping", [None, lambda weights: weights])
def test_a_query_that_sees_no_key_takes_nothing(dropping: Any) -> None:
    x = td.param(init=X[0, :2])
    y = td.attention(x, x, x, [[True, True], [False, False]], dropout=dropping)
    assert y.numpy()[0].all() and not y.numpy()[1].any()
    assert np.isfinite(td.grad(y.sum(), [x])[0].numpy()).all()
    lost = td.attention(x * np.nan, x, x, [[True, True], [True, True]])
    assert np.isnan(lost.numpy()).all()
