"""Every layer is a row: its shape, a gradient for each parameter, its state around."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn
from treadle.nn.module import Module

Row = tuple[Callable[[], Module], tuple[Any, ...], Any]
IDS = np.array([[1, 2], [0, 3]])
ENCODER = nn.TransformerEncoderLayer
DECODER = nn.TransformerDecoderLayer
MIXING: dict[str, Any] = {"average-attention": {"dim": 16}, "rnn": {}}
ROWS: list[Row] = [
    (lambda: nn.Linear(3, 4), ((2, 3),), (2, 4)),
    (lambda: nn.Linear(3, 4, bias=False), ((2, 5, 3),), (2, 5, 4)),
    (lambda: nn.Bilinear(3, 4, 5), ((2, 3), (2, 4)), (2, 5)),
    (lambda: nn.Embedding(5, 3), (IDS,), (2, 2, 3)),
    (lambda: nn.Embedding(5, 3, padding_index=0), (IDS,), (2, 2, 3)),
    (lambda: nn.UniversalEmbedding(np.eye(5, 3), np.eye(4, 3), 6), (IDS,), (2, 2, 6)),
    (nn.Identity, ((2, 3),), (2, 3)),
    (nn.Flatten, ((2, 3, 4),), (2, 12)),
    (lambda: nn.Unflatten(1, (2, 3)), ((2, 6),), (2, 2, 3)),
    (lambda: nn.Conv1d(2, 4, 3, padding=1), ((2, 2, 5),), (2, 4, 5)),
    (lambda: nn.Conv2d(4, 6, 3, 2, groups=2), ((1, 4, 7, 7),), (1, 6, 3, 3)),
    (lambda: nn.Conv3d(1, 2, 2, bias=False), ((1, 1, 3, 3, 3),), (1, 2, 2, 2, 2)),
    (lambda: nn.ConvTranspose1d(2, 3, 4, 2), ((1, 2, 3),), (1, 3, 8)),
    (
        lambda: nn.ConvTranspose2d(2, 4, 2, 2, output_padding=1, groups=2),
        ((1, 2, 3, 3),),
        (1, 4, 7, 7),
    ),
    (lambda: nn.ConvTranspose3d(1, 2, 2), ((1, 1, 2, 2, 2),), (1, 2, 3, 3, 3)),
    (lambda: nn.MaxPool1d(2), ((1, 2, 6),), (1, 2, 3)),
    (lambda: nn.MaxPool2d(3, 2, 1), ((1, 2, 6, 6),), (1, 2, 3, 3)),
    (lambda: nn.MaxPool3d(2), ((1, 1, 4, 4, 4),), (1, 1, 2, 2, 2)),
    (lambda: nn.AvgPool1d(2), ((1, 2, 6),), (1, 2, 3)),
    (lambda: nn.AvgPool2d((1, 2)), ((1, 2, 4, 6),), (1, 2, 4, 3)),
    (lambda: nn.AvgPool3d(2), ((1, 1, 4, 4, 4),), (1, 1, 2, 2, 2)),
    (lambda: nn.AdaptiveAvgPool((1, 2)), ((1, 2, 4, 6),), (1, 2, 1, 2)),
    (nn.GlobalAvgPool, ((2, 3, 4, 4),), (2, 3)),
    (nn.GlobalMaxPool, ((2, 3, 4, 4),), (2, 3)),
    (lambda: nn.Upsample(scale_factor=2), ((1, 1, 2, 3),), (1, 1, 4, 6)),
    (lambda: nn.LayerNorm(4), ((2, 3, 4),), (2, 3, 4)),
    (lambda: nn.LayerNorm((3, 4)), ((2, 3, 4),), (2, 3, 4)),
    (lambda: nn.LayerNorm(4, elementwise_affine=False), ((2, 4),), (2, 4)),
    (lambda: nn.RMSNorm(4), ((2, 4),), (2, 4)),
    (lambda: nn.BatchNorm1d(3), ((5, 3),), (5, 3)),
    (lambda: nn.BatchNorm1d(3, momentum=None), ((5, 3, 2),), (5, 3, 2)),
    (lambda: nn.BatchNorm2d(3), ((2, 3, 2, 2),), (2, 3, 2, 2)),
    (lambda: nn.BatchNorm3d(2, affine=False), ((2, 2, 2, 2, 2),), (2, 2, 2, 2, 2)),
    (lambda: nn.GroupNorm(2, 4), ((2, 4, 3),), (2, 4, 3)),
    (lambda: nn.InstanceNorm1d(2, affine=True), ((2, 2, 5),), (2, 2, 5)),
    (lambda: nn.InstanceNorm2d(2), ((2, 2, 3, 3),), (2, 2, 3, 3)),
    (lambda: nn.InstanceNorm3d(1), ((2, 1, 2, 2, 2),), (2, 1, 2, 2, 2)),
    (lambda: nn.WeightNorm(nn.Linear(3, 4)), ((2, 3),), (2, 4)),
    (lambda: nn.Dropout(0.5), ((4, 4),), (4, 4)),
    (lambda: nn.Dropout1d(0.5), ((2, 3, 4),), (2, 3, 4)),
    (lambda: nn.Dropout2d(0.5), ((2, 3, 4, 4),), (2, 3, 4, 4)),
    (lambda: nn.Dropout3d(0.5), ((2, 3, 2, 2, 2),), (2, 3, 2, 2, 2)),
    (lambda: nn.AlphaDropout(0.5), ((4, 4),), (4, 4)),
    (lambda: nn.GaussianDropout(0.5), ((4, 4),), (4, 4)),
    (lambda: nn.GaussianNoise(0.5), ((4, 4),), (4, 4)),
    *[
        (kind, ((2, 3),), (2, 3))
        for kind in (
            nn.CELU,
            nn.ELU,
            nn.GELU,
            nn.Hardsigmoid,
            nn.Hardswish,
            nn.Hardtanh,
            nn.LeakyReLU,
            nn.LogSigmoid,
            nn.LogSoftmax,
            nn.Mish,
            nn.PReLU,
            nn.ReLU,
            nn.ReLU6,
            nn.SELU,
            nn.SiLU,
            nn.Sigmoid,
            nn.Softmax,
            nn.Softplus,
            nn.Softsign,
            nn.Tanh,
        )
    ],
    (lambda: nn.PReLU(3), ((2, 3, 4),), (2, 3, 4)),
    (lambda: nn.GELU("tanh"), ((2, 3),), (2, 3)),
    (nn.GLU, ((2, 6),), (2, 3)),
    (lambda: nn.RNNCell(3, 4), ((2, 3), (2, 4)), (2, 4)),
    (lambda: nn.RNNCell(3, 4, nonlinearity="relu"), ((2, 3), (2, 4)), (2, 4)),
    (lambda: nn.GRUCell(3, 4), ((2, 3), (2, 4)), (2, 4)),
    (lambda: nn.RNN(3, 4), ((5, 2, 3),), [(5, 2, 4), (1, 2, 4)]),
    (
        lambda: nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, dropout=0.5),
        ((2, 5, 3),),
        [(2, 5, 8), (4, 2, 4), (4, 2, 4)],
    ),
    (lambda: nn.GRU(3, 4, 2, bias=False), ((5, 3),), [(5, 4), (2, 4)]),
    (
        lambda: nn.Recurrent(nn.SRUCell, 3, 4, 2, layer_norm=True),
        ((5, 2, 3),),
        [(5, 2, 4), (2, 2, 4), (2, 2, 4)],
    ),
    (
        lambda: nn.Recurrent(nn.SparseLSTMCell, 3, 4, bidirectional=True, skip=True),
        ((5, 2, 3),),
        [(5, 2, 8), (2, 2, 4), (2, 2, 4)],
    ),
    (lambda: nn.GRUCell(3, 4, layer_norm=True), ((2, 3), (2, 4)), (2, 4)),
    (lambda: nn.NematusGRUCell(3, 4, layer_norm=True), ((2, 3), (2, 4)), (2, 4)),
    (lambda: nn.MGRUCell(3, 4), ((2, 3), (2, 4)), (2, 4)),
    (lambda: nn.ClassFactoredSoftmax(4, [0, 1, 1]), ((2, 4), IDS[0]), (2,)),
    (lambda: nn.HierarchicalSoftmax(4, ["0", "10", "11"]), ((2, 4), IDS[0]), (2,)),
    (
        lambda: nn.AdditiveAttention(3, 4, layer_norm=True),
        ((2, 3), (2, 5, 4)),
        [(2, 4), (2, 5)],
    ),
    (lambda: nn.GeneralAttention(3, 4), ((2, 3), (2, 5, 4)), [(2, 4), (2, 5)]),
    (lambda: nn.MultiHeadAttention(8, 2), ((2, 5, 8),), (2, 5, 8)),
    (
        lambda: nn.MultiHeadAttention(8, 2, kdim=6, vdim=4, batch_first=False),
        ((5, 2, 8), (3, 2, 6), (3, 2, 4)),
        (5, 2, 8),
    ),
    (lambda: ENCODER(8, 2, 16), ((2, 5, 8),), (2, 5, 8)),
    (lambda: ENCODER(8, 2, 16, activation="gelu", norm_first=True), ((2, 5, 8),), None),
    (lambda: DECODER(8, 2, 16), ((2, 5, 8), (2, 3, 8)), (2, 5, 8)),
    (
        lambda: ENCODER(8, 2, 16, preprocess="r", postprocess="hn", positions="alibi"),
        ((2, 5, 8),),
        None,
    ),
    *[
        (
            lambda kind=kind: DECODER(
                8, 2, 16, autoregression=kind, mixing=MIXING[kind]
            ),
            ((2, 5, 8), (2, 3, 8)),
            (2, 5, 8),
        )
        for kind in ("average-attention", "rnn")
    ],
    (lambda: nn.SinusoidalPositions(8), ((2, 5, 8),), (2, 5, 8)),
    (lambda: nn.LearnedPositions(5, 8), ((2, 5, 8),), (2, 5, 8)),
    (
        lambda: nn.TransformerEncoder([ENCODER(8, 2, 16)], norm=nn.LayerNorm(8)),
        ((2, 5, 8),),
        (2, 5, 8),
    ),
    (
        lambda: nn.TransformerDecoder([DECODER(8, 2, 16)]),
        ((2, 5, 8), (2, 3, 8)),
        (2, 5, 8),
    ),
    (lambda: nn.Sequential(nn.Linear(3, 2), nn.ReLU(), td.exp), ((2, 3),), (2, 2)),
]


def name_of(row: Row) -> str:
    return repr(row[0]()).split("(")[0]


def inputs_of(row: Row) -> list[Any]:
    rng = np.random.default_rng(0)
    return [
        td.asarray(x)
        if isinstance(x, np.ndarray)
        else td.asarray(rng.normal(size=x), "float32")
        for x in row[1]
    ]


def results_of(y: Any) -> list[td.Tensor]:
    if isinstance(y, tuple):
        return [leaf for part in y for leaf in results_of(part)]
    return [y]


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_shape_and_gradient_of_every_parameter(row: Row) -> None:
    with td.options(seed=3):
        layer = row[0]()
        results = results_of(layer(*inputs_of(row)))
        if row[2] is not None:
            wanted = row[2] if isinstance(row[2], list) else [row[2]]
            assert [y.shape for y in results] == wanted
        parameters = list(layer.parameters())
        total = sum(((y * y * y).sum() for y in results[1:]), (results[0] ** 3).sum())
        grads = td.grad(total, parameters) if parameters else []
        for p, g in zip(parameters, td.evaluate(grads), strict=True):
            assert g.shape == p.shape and np.isfinite(g).all()
            # Softmax does not see what is added to every key alike.
            assert p.name.endswith("k_proj.bias") or (g != 0).any(), p.name


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_state_goes_around(row: Row) -> None:
    one, two = row[0](), row[0]()
    two.load_state_dict(one.state_dict())
    one.eval(), two.eval()
    inputs = inputs_of(row)
    for a, b in zip(results_of(one(*inputs)), results_of(two(*inputs)), strict=True):
        assert a.numpy().tobytes() == b.numpy().tobytes()
    assert repr(one) == repr(two)


LOSSES: list[tuple[Module, Any, Any, float]] = [
    (nn.MSELoss(), [1.0, 3.0], [0.0, 1.0], 2.5),
    (nn.MSELoss("sum"), [1.0, 3.0], [0.0, 1.0], 5.0),
    (nn.L1Loss(), [1.0, 3.0], [0.0, 1.0], 1.5),
    (nn.HuberLoss(delta=1.0), [0.5, 3.0], [0.0, 0.0], (0.125 + 2.5) / 2),
    (nn.SmoothL1Loss(beta=2.0), [0.5, 3.0], [0.0, 0.0], (0.0625 + 2.0) / 2),
    (nn.BCELoss(), [0.5, 0.25], [1.0, 0.0], -(np.log(0.5) + np.log(0.75)) / 2),
    (nn.BCEWithLogitsLoss(), [0.0, 0.0], [1.0, 0.25], np.log(2.0)),
    (nn.PoissonNLLLoss(), [0.0, 1.0], [2.0, 1.0], (1.0 + np.e - 1.0) / 2),
    (nn.HingeLoss(), [0.5, 2.0], [1.0, -1.0], (0.5 + 3.0) / 2),
    (nn.NLLLoss(), [[-1.0, -2.0], [-3.0, -4.0]], [0, 1], 2.5),
    (nn.CrossEntropyLoss(), [[0.0, 0.0], [0.0, 0.0]], [0, 1], np.log(2.0)),
    (
        nn.CrossEntropyLoss(label_smoothing=0.2),
        [[2.0, 0.0]],
        [0],
        np.log(np.exp(2.0) + 1) - 0.9 * 2.0,
    ),
    (
        nn.CrossEntropyLoss(ignore_index=1),
        [[2.0, 0.0], [5.0, 1.0]],
        [0, 1],
        np.log(np.exp(2.0) + 1) - 2.0,
    ),
]


@pytest.mark.parametrize("row", LOSSES, ids=lambda r: type(r[0]).__name__)
def test_losses(row: tuple[Module, Any, Any, float]) -> None:
    loss, prediction, target, want = row
    x = td.param("x", init=prediction)
    value = loss(x, td.asarray(target))
    assert value.shape == () and float(value) == pytest.approx(want, rel=1e-5)
    (g,) = td.grad(value, [x])
    assert np.isfinite(g.numpy()).all()
    with pytest.raises(td.ArgumentError, match="reduction"):
        nn.MSELoss("most")


def test_batch_norm_keeps_running_statistics_with_the_step() -> None:
    layer, x = nn.BatchNorm1d(2), np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)
    td.optim.SGD(lr=0.1).step((layer(x) ** 2).sum())
    np.testing.assert_allclose(layer.running_mean.numpy(), [0.2, 0.4], rtol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), [1.1, 1.7], rtol=1e-6)
    assert int(layer.num_batches_tracked) == 1
    layer.eval()
    y = (x - layer.running_mean.numpy()) / np.sqrt(layer.running_var.numpy() + 1e-5)
    want = y * layer.weight.numpy() + layer.bias.numpy()
    np.testing.assert_allclose(layer(x).numpy(), want, rtol=1e-5)
    assert int(layer.num_batches_tracked) == 1
    with pytest.raises(td.ShapeError, match=r"takes \(n, 2"):
        layer(np.zeros((2, 3), np.float32))


EMPTY = [
    (nn.BatchNorm1d, (0, 3)),
    (nn.BatchNorm1d, (2, 3, 0)),
    (nn.BatchNorm2d, (0, 3, 4, 4)),
    (nn.BatchNorm2d, (2, 3, 0, 4)),
    (nn.BatchNorm3d, (2, 3, 4, 4, 0)),
]


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize(("layer", "shape"), EMPTY)
def test_an_empty_batch_changes_no_running_statistics(
    layer: Any, shape: tuple[int, ...], momentum: float | None, engine: str
) -> None:
    own = layer(3, momentum=momentum)
    full = np.ones([n or 2 for n in shape], np.float32)
    with td.options(engine=engine):
        own(full).numpy()
        before = {k: np.array(v) for k, v in own.state_dict().items()}
        x = td.param("x", init=np.zeros(shape, np.float32))
        td.optim.SGD(lr=0.1).step((own(x) ** 2).sum())
    for name, value in own.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_padding_row_has_no_gradient() -> None:
    layer = nn.Embedding(3, 2, padding_index=0)
    assert not layer.weight.numpy()[0].any()
    td.optim.SGD(lr=1.0).step(layer([0, 1]).sum())
    assert not layer.weight.numpy()[0].any()


def test_a_bidirectional_stack_is_two_runs() -> None:
    layer = nn.GRU(2, 3, bidirectional=True)
    x = np.random.default_rng(1).normal(size=(4, 1, 2)).astype(np.float32)
    output, last = layer(x)
    forward, backward = nn.GRU(2, 3), nn.GRU(2, 3)
    state = layer.state_dict()
    forward.load_state_dict({k: v for k, v in state.items() if "reverse" not in k})
    backward.load_state_dict(
        {k.replace("_reverse", ""): v for k, v in state.items() if "reverse" in k}
    )
    a, _ = forward(x)
    b, _ = backward(x[::-1].copy())
    np.testing.assert_allclose(output.numpy()[..., :3], a.numpy(), rtol=1e-6)
    np.testing.assert_allclose(output.numpy()[..., 3:], b.numpy()[::-1], rtol=1e-6)
    np.testing.assert_allclose(last.numpy()[1], b.numpy()[-1], rtol=1e-6)


def test_an_lstm_cell_is_a_step_of_the_stack() -> None:
    stack, cell = nn.LSTM(2, 3), nn.LSTMCell(2, 3)
    state = {k.removesuffix("_l0"): v for k, v in stack.state_dict().items()}
    cell.load_state_dict(state)
    x = np.random.default_rng(3).normal(size=(3, 4, 2)).astype(np.float32)
    output, (h, c) = stack(x)
    step = None
    for t in range(3):
        step = cell(x[t], step)
    rounding = {"rtol": 1e-6, "atol": 1e-7}  # an element may be near 0
    np.testing.assert_allclose(output[2].numpy(), step[0].numpy(), **rounding)
    np.testing.assert_allclose(c[0].numpy(), step[1].numpy(), **rounding)
    assert h.shape == (1, 4, 3)


def test_a_causal_mask_hides_the_future() -> None:
    layer = nn.MultiHeadAttention(4, 2)
    x = np.random.default_rng(2).normal(size=(1, 5, 4)).astype(np.float32)
    y = layer(x, is_causal=True).numpy()
    changed = x.copy()
    changed[0, 4] += 1.0
    z = layer(changed, is_causal=True).numpy()
    np.testing.assert_array_equal(y[0, :4], z[0, :4])
    assert (y[0, 4] != z[0, 4]).any()


def test_wrong_settings_are_refused() -> None:
    for make in (
        lambda: nn.Linear(0, 1),
        lambda: nn.Conv2d(3, 4, 3, groups=2),
        lambda: nn.Conv2d(3, 4, (3,)),
        lambda: nn.Dropout(1.5),
        lambda: nn.GroupNorm(3, 4),
        lambda: nn.MultiHeadAttention(5, 2),
        lambda: nn.RNN(2, 2, nonlinearity="sin"),
        lambda: nn.Embedding(3, 2, 5),
    ):
        with pytest.raises(td.ArgumentError):
            make()


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.BatchNorm1d(3), (1, 3)),
        (nn.BatchNorm1d(3), (1, 3, 1)),
        (nn.BatchNorm2d(3, track_running_stats=False), (1, 3, 1, 1)),
        (nn.BatchNorm3d(3), (1, 3, 1, 1, 1)),
        (nn.InstanceNorm1d(3), (2, 3, 1)),
        (nn.InstanceNorm2d(3, affine=True), (2, 3, 1, 1)),
    ],
)
def test_statistics_of_one_value_are_refused(layer: Any, shape: Any) -> None:
    x = np.ones(shape, "f4")
    with pytest.raises(td.ShapeError, match="one value for each channel"):
        layer(x)
    if getattr(layer, "track_running_stats", False):
        assert layer.eval()(x).shape == shape
        assert int(layer.num_batches_tracked) == 0
        layer.train()
    assert layer(np.ones((2, *shape[1:-1], shape[-1] + 1), "f4") if len(shape) > 2
                 else np.ones((2, 3), "f4")).shape[0] == 2  # fmt: skip


def test_running_statistics_move_by_the_momentum_of_now() -> None:
    layer, mean = nn.BatchNorm1d(2), np.zeros(2, np.float32)
    for k in range(8):
        layer.momentum = (0.5, 0.1)[k // 4]  # of a call that is known by then
        x = np.array([[k, 1.0], [k, 3.0]], np.float32)
        layer(x).numpy()
        mean += (x.mean(0) - mean) * np.float32(layer.momentum)
    np.testing.assert_allclose(layer.running_mean.numpy(), mean, rtol=1e-6)
