"""Weights of few bits: error bounds by table, layers, files, Marian's formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn
from treadle.base.errors import ArgumentError, DTypeError, ShapeError

RNG = np.random.default_rng(8)
WEIGHTS = {
    "normal": RNG.normal(size=(7, 33)),
    "of unequal rows": RNG.normal(size=(5, 20)) * 10.0 ** np.arange(-3, 2)[:, None],
    "zeros": np.zeros((3, 4)),
    "one number": np.full((1, 1), -3.5),
    "largest": np.array([[3e38, -1e38], [1e-38, 0.0]]),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_int8_is_within_half_a_scale_of_each_row(name: str, dtype: str) -> None:
    given = td.asarray(WEIGHTS[name], dtype)
    if not np.isfinite(given.numpy().astype("f8")).all():
        pytest.skip("out of range")
    q, scale = td.quantize(given)
    assert q.dtype.name == "int8" and scale.shape == (len(WEIGHTS[name]), 1)
    x, s = given.numpy().astype("f8"), scale.numpy().astype("f8")
    top = np.abs(x).max(1, keepdims=True)
    np.testing.assert_allclose(s, np.where(top > 0, top / 127, 1), 1e-6, 1e-44)
    assert np.abs(q.numpy()).max() <= 127
    back = q.numpy() * s
    assert (np.abs(back - x) <= s * 0.5001 + 1e-40).all()


def test_channels_may_be_any_axes() -> None:
    x = RNG.normal(size=(3, 4, 5)).astype("f4")
    for axis, shape in ((1, (1, 4, 1)), ((0, -1), (3, 1, 5)), ((), (1, 1, 1))):
        q, scale = td.quantize(x, axis)
        assert scale.shape == shape
        assert np.abs(td.dequantize(q, scale).numpy() - x).max() <= scale.numpy().max()


# rows, width, outputs: in one piece, in blocks, in blocks with a rest.
SIZES = [(3, 5, 4), (1, 512, 4096), (2, 700, 1600), (4, 2048, 1000)]


@pytest.mark.parametrize("size", SIZES)
def test_products_run_from_int8(size: tuple[int, int, int]) -> None:
    rows, width, outputs = size
    weight = RNG.normal(size=(outputs, width)).astype("f4")
    x = RNG.normal(size=(rows, width)).astype("f4")
    q, scale = (v.numpy() for v in td.quantize(weight))
    y = td.int8_linear(x, td.Variable(q), scale, np.ones(outputs, "f4"))
    want = x.astype("f8") @ (q * scale.astype("f8")).T + 1
    np.testing.assert_allclose(y.numpy(), want, atol=1e-4 * np.sqrt(width))
    # What rounding may do: half a scale for each element of x.
    bound = 0.51 * np.abs(x).sum(1)[:, None] * scale[:, 0] + 1e-3
    assert (np.abs(want - 1 - x.astype("f8") @ weight.T) <= bound).all()


def test_a_long_weight_is_never_whole_in_float() -> None:
    weight = td.Variable(np.ones((40000, 128), np.int8))
    x = np.ones((1, 128), "f4")
    y = td.int8_linear(x, weight, np.ones(40000, "f4"))
    with td.options(engine="native"), td.no_grad():
        assert (y.numpy() == 128).all()
        assert td.latest_program().memory.arena < 0.5 * 4 * 40000 * 128


def test_what_is_before_an_int8_layer_gets_its_gradient() -> None:
    layer = nn.QuantizedLinear(nn.Linear(4, 3))
    x = td.param(init=RNG.normal(size=(2, 4)).astype("f4"))
    (g,) = td.grad(layer(x).sum(), [x])
    whole = layer.weight.numpy() * layer.scale.numpy()[:, None]
    np.testing.assert_allclose(g.numpy(), np.tile(whole.sum(0), (2, 1)), atol=1e-6)
    assert [name for name, _ in layer.named_parameters()] == ["bias"]


def network() -> nn.Translator:
    with td.options(seed=3):
        return nn.Translator(
            30, 30, width=32, heads=4, feedforward=64, encoder_layers=1,
            decoder_layers=1, tied="decoder",
        ).eval()  # fmt: skip


@pytest.mark.parametrize("ending", ["npz", "safetensors", "bin"])
def test_networks_of_int8_are_close_and_files_keep_them(
    tmp_path: Path, ending: str
) -> None:
    net, ids = network(), RNG.integers(0, 30, (2, 5))
    want = net(ids, ids).numpy()
    size = sum(a.nbytes for a in net.state_dict().values())
    paths = nn.quantize_weights(net)
    assert "source_embedding" in paths and "decoder.layers.0.linear1" in paths
    assert "output" not in paths and "target_embedding" not in paths  # one weight
    found = net(ids, ids).numpy()
    assert np.abs(found - want).max() < 0.05 * np.abs(want).max()
    state = net.state_dict()
    assert sum(a.nbytes for a in state.values()) < 0.45 * size
    td.save(tmp_path / f"net.{ending}", net)
    again = network()
    nn.quantize_weights(again)
    for p in again.parameters():
        p.assign(p.numpy() * 0)
    td.load(tmp_path / f"net.{ending}", again)
    for name, array in again.state_dict().items():
        assert array.dtype == state[name].dtype
        assert array.tobytes() == state[name].tobytes(), name
    assert again(ids, ids).numpy().tobytes() == found.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("ending", ["npz", "safetensors", "bin"])
def test_networks_of_16_bits_are_close_and_files_keep_them(
    tmp_path: Path, dtype: str, ending: str
) -> None:
    net, ids = network(), RNG.integers(0, 30, (2, 5))
    want = net(ids, ids).numpy()
    net.astype(dtype)
    found = net(ids, ids)
    assert found.dtype.name == dtype
    assert net.output.weight is net.target_embedding.weight
    far = np.abs(found.numpy().astype("f4") - want).max() / np.abs(want).max()
    assert far < (0.01 if dtype == "float16" else 0.06)
    path = tmp_path / f"net.{ending}"
    if (dtype, ending) == ("bfloat16", "bin"):
        with pytest.raises(td.ModelFileError, match="bfloat16"):
            td.save(path, net)
        return
    td.save(path, net)
    again = network().astype(dtype)
    td.load(path, again)
    for name, array in again.state_dict().items():
        assert array.tobytes() == net.state_dict()[name].tobytes(), name


def fixed(x: Any, bits: int, size: float) -> Any:
    """Marian's quantizeFixed."""
    multiplier = (2 ** (bits - 1) - 1) / size
    return np.round(np.clip(x, -size, size) * multiplier) / multiplier


def log(x: Any, bits: int, size: float) -> Any:
    """Marian's quantizeLog."""
    n, y = 2 ** (bits - 1) - 1, np.clip(x, -size, size)
    with np.errstate(divide="ignore"):
        q = np.floor(np.log(np.abs(y / size) * (4 / 3)) / np.log(2.0))
    return np.sign(y) * size * 2.0 ** np.clip(q, -n, n)


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("kind", ["fixed", "log"])
def test_grids_are_marians(kind: str, bits: int, steps: int) -> None:
    x = RNG.normal(size=(40, 25))
    own, f = (td.quantize_fixed, fixed) if kind == "fixed" else (td.quantize_log, log)
    size = np.abs(x).max()
    for _ in range(steps):
        a = f(x, bits, size) / size
        size = (a * x).sum() / (a * a).sum()
    want = f(x, bits, size)
    found = own(td.asarray(x, "float64"), bits, steps=steps).numpy()
    np.testing.assert_allclose(found, want, atol=1e-12)
    assert len(np.unique(np.round(found, 12))) <= 2**bits + (kind == "log")
    if kind == "fixed" and not steps:
        assert np.abs(found - x).max() <= size / (2 ** (bits - 1) - 1) / 2 + 1e-12


def test_rounds_bring_the_grid_nearer() -> None:
    x = td.asarray(RNG.normal(size=4000), "float64")
    for f in (td.quantize_fixed, td.quantize_log):
        far = [float(((f(x, 4, steps=k) - x) ** 2).sum()) for k in (0, 10)]
        assert far[1] < far[0]


MISTAKES: list[tuple[Any, type[Exception], str]] = [
    (lambda: td.quantize([[1.0]], 2), ShapeError, "axis 2"),
    (lambda: td.int8_linear([[1.0]], [[1.0]], [1.0]), DTypeError, "td.quantize"),
    (lambda: td.int8_linear([[1.0]], np.ones((2, 3), np.int8), [1.0]), ShapeError,
     "do not meet"),
    (lambda: td.quantize_fixed([1.0], 1), ArgumentError, "2 to 16 bits"),
    (lambda: nn.quantize_weights(nn.ReLU()), ArgumentError, "no layer"),
    (lambda: nn.Linear(2, 2).astype("int8"), ArgumentError, "quantize_weights"),
    (lambda: td.optim.WeightQuantizer([], bits=0), ArgumentError, "2 to 16 bits"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "kind", "text"), MISTAKES)
def test_mistakes_are_told_with_the_remedy(
    mistake: Any, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        mistake()


def sums_of_marian(x: Any, w: Any, bits: int = 10) -> Any:
    """Marian's Quantize16 and ProdInt16: rounded, saturated, summed in 32 bits."""

    def quantized(a: Any) -> Any:
        return np.clip(np.rint(a * np.float32(2**bits)), -(2**15), 2**15 - 1)

    sums = quantized(x).astype("i4") @ quantized(w).astype("i4").T
    return sums.astype("f4") * np.float32(1.0 / (2.0**bits * 2.0**bits))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bits", [10, 7])
def test_int16_products_are_marians(size: tuple[int, int, int], bits: int) -> None:
    rows, width, outputs = size
    weight = RNG.normal(size=(outputs, width)).astype("f4")
    weight[0, 0], weight[1, 1] = 33.0, -1e9  # saturated with 10 bits
    x = RNG.normal(size=(rows, width)).astype("f4")
    x[0, 0] = 500.0 / width
    whole = td.fixed_point(weight, bits)
    assert whole.dtype.name == "int16"
    y = td.int16_linear(x, td.Variable(whole.numpy()), bits=bits)
    assert y.dtype.name == "float32"
    np.testing.assert_array_equal(y.numpy(), sums_of_marian(x, weight, bits))
    # Where nothing saturates, half a unit for each element of both.
    plain, calm = np.abs(weight).max(1) < 30, np.abs(x).max(1) < 30
    a, b, unit = x[calm].astype("f8"), weight[plain], 2.0 ** -(bits + 1)
    bound = unit * (np.abs(a).sum(1)[:, None] + np.abs(b).sum(1)) + width * unit**2
    assert (np.abs(y.numpy()[calm][:, plain] - a @ b.T) <= bound + 1e-4).all()
    assert bound.size


def test_int16_layers_stand_in_for_linear_ones() -> None:
    net = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))
    ids = [[1, 2, 8]]
    want = net(ids).numpy()
    assert nn.quantize_weights(net, dtype="int16") == ["1", "3"]
    assert [v.dtype.name for v in net.state_dict().values()] == [
        "float32", "int16", "float32", "int16", "float32"
    ]  # fmt: skip
    np.testing.assert_allclose(net(ids).numpy(), want, atol=0.01)
    with pytest.raises(ArgumentError, match="no layer of this Sequential"):
        nn.quantize_weights(net, dtype="int16")
    with pytest.raises(ArgumentError, match="int8 or int16, not 'int32'"):
        nn.quantize_weights(net, dtype="int32")


def test_the_gradient_passes_an_int16_product() -> None:
    layer = nn.FixedPointLinear(nn.Linear(4, 3))
    x = td.param(init=[[0.1, -0.2, 0.3, 50.0]])
    (g,) = td.grad(layer(x).sum(), [x])
    want = layer.weight.numpy().sum(0) / 1024.0
    want[3] = 0.0  # where it saturates
    np.testing.assert_allclose(g.numpy(), [want], rtol=1e-5)


def test_what_is_no_fixed_point_is_refused() -> None:
    w = td.fixed_point(np.ones((3, 2)))
    with pytest.raises(DTypeError, match="takes a weight of int16, got float32"):
        td.int16_linear([[1.0, 2.0]], np.ones((3, 2), "f4"))
    with pytest.raises(ShapeError, match="do not meet"):
        td.int16_linear([[1.0, 2.0, 3.0]], w)
    for bits in (-1, 16, 2.5, True):
        with pytest.raises(ArgumentError, match="bits from 0 to 15"):
            td.fixed_point([1.0], bits)
