"""Functions and layers under torch's names compute what torch does."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.nn.names import CALLS, NUMBERS, Inputs, checksum
from treadle.nn import functional as F


@pytest.mark.parametrize("letter", sorted({name[0] for name in CALLS}))
def test_values_and_gradients_are_torchs(letter: str) -> None:
    names = [name for name in CALLS if name[0] == letter]
    results: list[td.Tensor] = []
    for name in names:
        inputs = Inputs(td.Parameter, td.asarray)
        y = CALLS[name](F, td.nn, inputs)
        shape = NUMBERS[name][0]
        assert y.shape == shape, name
        places = np.cos(np.arange(y.size) * 0.37 + 0.1).reshape(shape)
        (g,) = td.grad(td.sum(y * places.astype(np.float32)), [inputs.first])
        results += [y, g]
    numbers = map(checksum, td.evaluate(results))  # one program: they are small
    for name in names:
        _, value, slope = NUMBERS[name]
        assert next(numbers) == pytest.approx(value, rel=2e-5, abs=2e-5), name
        assert next(numbers) == pytest.approx(slope, rel=2e-4, abs=2e-4), name


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_stays_where_it_is(bad: float) -> None:
    """What a result is not computed from does not reach it, nor its gradient."""
    x = np.array([[[bad, 1.0, 2.0, 3.0, 5.0]]], np.float32)
    for y in (F.adaptive_avg_pool1d(x, 2), F.interpolate(x, size=2, mode="area")):
        np.testing.assert_allclose(y.numpy()[0, 0], [bad, 10 / 3], rtol=1e-6)
    flat = np.full((1, 1, 2), bad, np.float32)
    y = F.interpolate(flat, size=3, mode="linear", align_corners=True)
    assert (np.isnan(y.numpy()) if bad != bad else y.numpy() == bad)[0, 0, 1]
    scores = np.array([[0.0, bad, 0.5], [1.0, 0.0, 0.5]], np.float32)
    y = F.multilabel_margin_loss(scores, [[1, 0, 2], [0, -1, -1]], reduction="none")
    np.testing.assert_allclose(y.numpy(), [0.0, 0.5 / 3], rtol=1e-6)
    p = td.Parameter(np.ones((2, 3), np.float32))
    weights = np.array([1.0, bad, 1.0], np.float32)
    loss = F.nll_loss(p, [1, 0], weight=weights, reduction="sum")
    (g,) = td.grad(loss, [p])
    np.testing.assert_array_equal(g.numpy(), [[0.0, -bad, 0.0], [-1.0, 0.0, 0.0]])


def test_a_window_wider_than_the_input_may_reach_over_its_end() -> None:
    """In `ceil_mode`, where its first element is inside."""
    x = np.array([[[3.0, 4.0]]], np.float32)
    assert F.avg_pool1d(x, 3, 2, ceil_mode=True).tolist() == [[[3.5]]]
    assert F.max_pool1d(x, 3, 2, ceil_mode=True).tolist() == [[[4.0]]]
    y = F.lp_pool1d(x, 2, 3, ceil_mode=True).numpy()
    np.testing.assert_allclose(y, [[[37.5**0.5]]], rtol=1e-6)  # torch: 3 means
    with pytest.raises(td.ShapeError, match="a window of 5 is wider than 2"):
        F.max_pool1d(x, 5, 2, ceil_mode=True)


def test_running_statistics_are_updated_in_training() -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    mean, var = td.Variable(np.zeros(2)), td.Variable(np.ones(2))
    td.evaluate(F.batch_norm(x, mean, var, training=True, momentum=0.5))
    np.testing.assert_allclose(mean.numpy(), x.mean(0) / 2)
    np.testing.assert_allclose(var.numpy(), (1 + x.var(0, ddof=1)) / 2)


def test_draws_of_classes_are_ones_with_a_gradient() -> None:
    x = td.Parameter(np.array([[0.0, 3.0, -1.0]] * 50, np.float32))
    with td.options(seed=3):
        y = F.gumbel_softmax(x, tau=0.5, hard=True)
    assert sorted(set(y.numpy().round(6).ravel().tolist())) == [0.0, 1.0]
    assert (y.numpy().sum(-1) == 1).all() and y.numpy()[:, 1].mean() > 0.8
    (g,) = td.grad(y[:, 1].sum(), [x])
    assert np.isfinite(g.numpy()).all() and g.numpy().any()


def test_slopes_are_drawn_in_training() -> None:
    with td.options(seed=3):
        y = td.nn.RReLU(0.25, 0.5)(-td.ones(100)).numpy()
    assert -0.5 <= y.min() < -0.4 and -0.35 < y.max() <= -0.25


def test_what_is_wrong_is_said() -> None:
    x = td.ones((1, 3, 4, 4))
    for call, message in (
        (lambda: F.pixel_shuffle(x, 2), "does not divide"),
        (lambda: F.pixel_unshuffle(x, 3), "does not divide"),
        (lambda: F.channel_shuffle(x, 2), "2 groups do not divide"),
        (lambda: F.grid_sample(x, td.ones((1, 2, 2, 3))), "a grid"),
        (lambda: F.grid_sample(x, td.ones((1, 2, 2, 2)), "linear?"), "mode is"),
        (lambda: F.affine_grid(td.ones((1, 2, 2)), (1, 1, 2, 2)), "theta"),
        (lambda: F.pad(x, (1, 2, 3)), "3 widths"),
        (lambda: F.adaptive_max_pool2d(x, (1, 2, 3)), "output_size is"),
        (lambda: F.adaptive_avg_pool1d(x, 2), "takes 1 dimensions"),
        (lambda: F.embedding_bag([[0]], td.ones((2, 2)), mode="median"), "mode is"),
        (lambda: td.nn.KLDivLoss("batch"), "reduction is"),
    ):
        with pytest.raises(td.TreadleError, match=message):
            call()


def test_what_torch_takes_is_taken_or_refused_and_never_ignored() -> None:
    x = np.array([[1.0, 2.0], [3.0, 5.0]], np.float32)
    for word in ("size_average", "reduce"):
        assert float(F.mse_loss(x, x + 1, **{word: True})) == 1.0
        with pytest.raises(td.CallError, match=f"takes no '{word}'"):
            F.mse_loss(x, x + 1, **{word: False})
    assert F.softmax(x, dim=-1, dtype="float64").dtype == np.float64
    assert F.log_softmax(x, -1, dtype="float64").dtype == np.float64
    assert F.softmin(x, -1, dtype="float64").dtype == np.float64
    assert float(td.norm(x, p="fro")) == float(td.norm(x))
    assert float(td.norm(x, p=1)) == 11.0
    with pytest.raises(td.ShapeError, match="weights"):
        F.l1_loss(x, x + 1, weight=x[0])


def test_layers_without_a_bias_have_none() -> None:
    layers = [
        td.nn.BatchNorm1d(4, bias=False),
        td.nn.GroupNorm(2, 4, bias=False),
        td.nn.InstanceNorm1d(4, affine=True, bias=False),
        td.distributed.SyncBatchNorm.convert_sync_batchnorm(
            td.nn.BatchNorm1d(4, bias=False)
        ),
        td.nn.TransformerEncoderLayer(4, 2, 8, bias=False),
        td.nn.TransformerDecoderLayer(4, 2, 8, bias=False),
    ]
    for layer in layers:
        names = [name for name, _ in layer.named_parameters()]
        assert names
        assert all(name.endswith("weight") for name in names), names
    y = layers[0](td.ones((3, 4)))
    assert y.shape == (3, 4)


def test_an_activation_may_be_a_function() -> None:
    with td.options(seed=3):
        named = td.nn.TransformerEncoderLayer(4, 2, 8, activation="gelu").eval()
        other = td.nn.TransformerEncoderLayer(4, 2, 8, activation=F.gelu).eval()
    other.load_state_dict(named.state_dict())
    x = np.sin(np.arange(12, dtype=np.float32)).reshape(1, 3, 4)
    np.testing.assert_array_equal(named(x).numpy(), other(x).numpy())


def test_bags_as_a_layer_has_them() -> None:
    bag = td.nn.EmbeddingBag(3, 2, None, 2.0, False, "sum", True, padding_idx=1)
    w = bag.weight.numpy()
    np.testing.assert_array_equal(bag([[0, 1], [2, 2]]).numpy(), [w[0], 2 * w[2]])
    assert bag.weight.sparse
    ends = td.nn.EmbeddingBag(3, 2, include_last_offset=True)
    w = ends.weight.numpy()
    np.testing.assert_allclose(
        ends([0, 1, 2], [0, 2]).numpy(), [(w[0] + w[1]) / 2], rtol=1e-6
    )


def test_a_lazy_layer_passes_on_what_its_first_call_is_given() -> None:
    layer = td.nn.LazyConvTranspose1d(2, 2, 2)
    assert layer(td.ones((1, 3, 4)), output_size=[9]).shape == (1, 2, 9)
