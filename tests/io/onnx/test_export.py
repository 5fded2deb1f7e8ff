"""Computations written as ONNX: onnx's evaluator and Treadle read the same values."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

pytest.importorskip("onnx")

import onnx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import each
from tests.io.onnx.models import by_onnx, by_reference, by_treadle, same
from tests.ops.samples import Sample
from tests.ops.test_contract import CASES, arrays_of
from treadle.base.types import TupleType
from treadle.io.onnx.writer import EXPORTS
from treadle.ops.families import outputs_of

# Composites that are written out in what the table has.
WRITTEN_OUT = {
    "BinaryCrossEntropy",
    "CTC",
    "CrossEntropy",
    "GruCell",
    "Hypot",
    "LogAddExp",
    "LogSigmoid",
    "LogSumExp",
    "LstmCell",
    "Median",
    "Normalize",
    "PickLabel",
    "RootMeanSquare",
    "Silu",
    "Sort",
    "Sparsemax",
    "SparsemaxLoss",
    "Unlikelihood",
    "Var",
}
# What onnx 1.23's evaluator cannot do itself: transposed convolutions of sequences,
# softsign of scalars, NaN and equals in order.
NOT_BY_ONNX = {"ConvInputGradient", "Softsign", "ArgSort", "Sort"}


def _plain(sample: Sample) -> bool:
    """Whether the sample is of dtypes that ONNX computes with, and not of a loop's."""
    arrays = [np.asarray(a) for a in arrays_of(sample)]
    op: Any = sample.op
    if (op.name == "Scan" and op.draws) or (op.name == "Unslice" and {*op.steps} - {1}):
        return False
    return all(a.dtype.kind in "fiub" for a in arrays) and "complex" not in repr(op)


def _parts(case: Any) -> tuple[str, Sample]:
    return str(case.id), case.values[0]


ROWS = [
    pytest.param(sample, id=name)
    for name, sample in map(_parts, CASES)
    if sample.op.name in {*EXPORTS, *WRITTEN_OUT} and _plain(sample)
]


@each("sample", ROWS)
def test_an_op_is_written_and_read_again(sample: Sample, tmp_path: Path) -> None:
    arrays = [np.asarray(a) for a in arrays_of(sample)]
    named = {f"x{k}": a for k, a in enumerate(arrays)}
    inputs = [td.placeholder(a.shape, a.dtype, name=k) for k, a in named.items()]
    y = sample.op(*[p.node() for p in inputs])
    ys = list(outputs_of(y)) if isinstance(y.type, TupleType) else [y]
    what = td.computation(ys, *inputs)
    td.to_onnx(what, tmp_path / "m.onnx")
    with td.options(engine="reference"):
        want = what(*arrays)
    same(by_treadle(tmp_path / "m.onnx", named), want)
    op: Any = sample.op
    backward = op.name == "Scan" and op.reverse  # which onnx's evaluator cannot
    if op.name not in NOT_BY_ONNX and not backward:
        found = by_onnx(tmp_path / "m.onnx", named)
        same([np.asarray(v) for v in found], want)


def test_every_row_of_the_table_has_a_sample() -> None:
    shown = {p.values[0].op.name for p in ROWS}  # type: ignore[attr-defined]
    assert set(EXPORTS) | WRITTEN_OUT <= shown


NETS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), (3, 4)),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, stride=2, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ),
        (2, 3, 8, 8),
    ),
    "norm": (lambda: nn.Sequential(nn.LayerNorm(6), nn.GELU()), (2, 6)),
    "rectifiers": (
        lambda: nn.Sequential(
            nn.Linear(4, 8), nn.Hardswish(), nn.ELU(), nn.LeakyReLU(), nn.ReLU6()
        ),
        (3, 4),
    ),
}


@pytest.mark.parametrize("name", NETS)
def test_a_network_is_written_with_its_weights(name: str, tmp_path: Path) -> None:
    make, shape = NETS[name]
    net = make().eval()
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    td.to_onnx(net, tmp_path / "m.onnx", x, inputs=["x"])
    want = by_reference(lambda: net(x))
    same(by_onnx(tmp_path / "m.onnx", {"x": x}), want)
    same(by_treadle(tmp_path / "m.onnx", {"x": x}), want)
    again = td.from_onnx(tmp_path / "m.onnx")
    for named in ("named_parameters", "named_buffers"):
        read = {k for k, _ in getattr(again, named)()}
        used = {k for k, _ in getattr(net, named)() if "batches" not in k}
        assert read == used


@pytest.mark.parametrize("name", NETS)
def test_a_network_in_bfloat16_is_written(name: str, tmp_path: Path) -> None:
    make, shape = NETS[name]
    net = make().eval().astype("bfloat16")
    x = np.random.default_rng(0).normal(size=shape).astype(td.bfloat16)
    td.to_onnx(net, tmp_path / "m.onnx", x, inputs=["x"])
    kept = onnx.load(tmp_path / "m.onnx").graph.initializer
    assert {t.data_type for t in kept} == {onnx.TensorProto.BFLOAT16}
    want = by_reference(lambda: net(x))
    same(by_treadle(tmp_path / "m.onnx", {"x": x}), want, 2e-2)


class Loop(nn.Module):
    """A cell of a recurrent network in a loop: both of its products stand in it."""

    def __init__(self, activation: Any) -> None:
        self.below, self.past = nn.Linear(3, 4), nn.Linear(4, 4)
        self.activation = activation

    def forward(self, x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = self.activation(self.below(row) + self.past(h))
            return h, h

        return td.scan(step, td.zeros((x.shape[1], 4)), x)[1]


# Networks, the shape of the example, its open dimensions, other shapes, its ops.
OPEN: dict[str, tuple[Any, ...]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)),
        (1, 4), {0: "batch"}, [(3, 4), (7, 4)], {"Gemm": 2, "Relu": 1},
    ),
    "rows of rows": (
        lambda: nn.Linear(4, 3), (2, 5, 4), {0: "batch", 1: "time"}, [(3, 7, 4)],
        {"MatMul": 1},
    ),
    "cnn": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5),
        ),
        (2, 3, 8, 8), {0: "n"}, [(1, 3, 8, 8), (5, 3, 8, 8)],
        {"Conv": 1, "Gemm": 1, "BatchNormalization": 1, "Add": 0},
    ),
    "images": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.AvgPool2d(2)),
        (2, 3, 8, 8), {0: "n", 2: "h", 3: "w"}, [(1, 3, 4, 12)], {"Conv": 1},
    ),
    "lstm": (
        lambda: nn.LSTM(3, 4, 2, bidirectional=True),
        (5, 2, 3), {0: "time", 1: "batch"}, [(7, 1, 3), (2, 3, 3)], {"LSTM": 4},
    ),
    "gru": (
        lambda: nn.GRU(3, 4), (5, 2, 3), {0: "time", 1: "batch"}, [(7, 4, 3)],
        {"GRU": 1},
    ),
    "rnn": (
        lambda: nn.RNN(3, 4), (5, 2, 3), {0: "time", 1: "batch"}, [(7, 4, 3)],
        {"RNN": 1},
    ),
    "rnn of relu": (
        lambda: nn.RNN(3, 4, 2, nonlinearity="relu"), (5, 2, 3),
        {0: "time", 1: "batch"}, [(7, 4, 3)], {"RNN": 2},
    ),
    "rnn of a loop": (
        lambda: Loop(td.tanh), (5, 2, 3), {1: "batch"}, [(5, 4, 3)],
        {"RNN": 1, "Scan": 0},
    ),
    "loop": (
        lambda: Loop(td.sigmoid), (5, 2, 3), {1: "batch"}, [(5, 4, 3)],
        {"Scan": 1, "MatMul": 1},  # the other product is in the loop
    ),
    "pool": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1)),
        (2, 3, 8, 8), {0: "n", 2: "h", 3: "w"}, [(1, 3, 4, 12)],
        {"ReduceMean": 1, "MatMul": 0},
    ),
    "attention": (
        lambda: nn.MultiHeadAttention(8, 2), (2, 5, 8), {0: "batch", 1: "time"},
        [(1, 3, 8), (4, 6, 8)], {"Attention": 1, "Softmax": 0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OPEN)
def test_dimensions_are_left_open(name: str, tmp_path: Path) -> None:
    make, shape, dims, others, ops = OPEN[name]
    net = make().eval()
    rng = np.random.default_rng(0)
    path = tmp_path / "m.onnx"
    x = rng.normal(size=shape).astype(np.float32)
    td.to_onnx(net, path, x, inputs=["x"], dynamic={"x": dims})
    kinds = [n.op_type for n in onnx.load(path).graph.node]
    assert {kind: kinds.count(kind) for kind in ops} == ops and "Einsum" not in kinds
    declared = td.from_onnx(path).inputs[0].shape
    assert {k: n for k, n in enumerate(declared) if isinstance(n, str)} == dims
    for size in (shape, *others):
        x = rng.normal(size=size).astype(np.float32)
        want = by_reference(partial(net, x))
        same(by_treadle(path, {"x": x}), want, 1e-4)
        if name not in ("lstm", "rnn of relu"):  # which onnx's evaluator cannot
            same(by_onnx(path, {"x": x}), want, 1e-4)


def test_what_cannot_be_open_is_told(tmp_path: Path) -> None:
    path, x = tmp_path / "m.onnx", np.ones((4, 3), np.float32)
    net = nn.Linear(3, 2)
    with pytest.raises(td.ArgumentError, match="'y' is no input, which are x0"):
        td.to_onnx(net, path, x, dynamic={"y": {0: "n"}})
    with pytest.raises(td.ArgumentError, match="axis 2 is none of 'x0'"):
        td.to_onnx(net, path, x, dynamic={"x0": {2: "n"}})
    with pytest.raises(td.ArgumentError, match="'n' is 4 and 3"):
        td.to_onnx(net, path, x, dynamic={"x0": {0: "n", 1: "n"}})
    with pytest.raises(td.ModelFileError, match="grow evenly with 'n'"):
        td.to_onnx(lambda v: v[: v.shape[0] // 3], path, x, dynamic={"x0": {0: "n"}})
    with pytest.raises(td.ModelFileError, match="depends on an open dimension"):
        td.to_onnx(
            lambda v: v + np.arange(float(v.shape[0]))[:, None],
            path, x, dynamic={"x0": {0: "n"}},
        )  # fmt: skip
    assert not path.exists()


def test_torchs_word_for_open_dimensions(tmp_path: Path) -> None:
    path, x = tmp_path / "m.onnx", np.ones((4, 3), np.float32)
    td.to_onnx(nn.Linear(3, 2), path, x, inputs=["x"], dynamic_axes={"x": [0]})
    assert td.from_onnx(path).inputs[0].shape == ("x_0", 3)


class Dim:
    """What stands for a dimension in torch: it has a name."""

    def __init__(self, name: str) -> None:
        self.__name__ = name


AUTO = type("Hint", (), {"type": "_DimHintType.AUTO"})()
STATIC = type("Hint", (), {"type": "_DimHintType.STATIC"})()


@pytest.mark.parametrize(
    ("said", "want"),
    [
        ({"x": {0: Dim("batch")}}, ("batch", 3)),
        ({"x": {0: "rows", 1: None}}, ("rows", 3)),
        ({"x": (AUTO, STATIC)}, ("x_0", 3)),
        (({0: Dim("n")},), ("n", 3)),
        ([[Dim("n"), 3]], ("n", 3)),
        ((None,), (4, 3)),
        ({"x": None}, (4, 3)),
    ],
)
def test_the_words_of_torchs_newer_exporter(
    said: Any, want: tuple[Any, ...], tmp_path: Path
) -> None:
    path, x = tmp_path / "m.onnx", np.ones((4, 3), np.float32)
    td.to_onnx(nn.Linear(3, 2), path, x, inputs=["x"], dynamic_shapes=said)
    assert td.from_onnx(path).inputs[0].shape == want
    with pytest.raises(td.ArgumentError, match="2 entries for 1 inputs"):
        td.to_onnx(nn.Linear(3, 2), path, x, dynamic_shapes=(None, None))


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 3),
    c=st.integers(1, 3),
    size=st.integers(4, 8),
    k=st.integers(1, 3),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    groups=st.booleans(),
)
def test_convolutions_of_random_shapes(
    tmp_path_factory: pytest.TempPathFactory,
    n: int,
    c: int,
    size: int,
    k: int,
    stride: int,
    padding: int,
    groups: bool,
) -> None:
    path = tmp_path_factory.mktemp("onnx") / "m.onnx"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, c, size, size)).astype(np.float32)
    w = rng.normal(size=(2 * c, 1 if groups else c, k, k)).astype(np.float32)
    p = td.placeholder(x.shape, name="x")
    y = td.conv2d(p, w, None, stride, padding, 1, c if groups else 1)
    what = td.computation({"y": td.softmax(y, 1), "z": y.mean((2, 3))}, p)
    td.to_onnx(what, path)
    want = list(what(x=x).values())
    same(by_onnx(path, {"x": x}), want, 1e-4)
    same(by_treadle(path, {"x": x}), want, 1e-4)


def test_what_onnx_cannot_say_is_told_all_at_once(tmp_path: Path) -> None:
    x = td.placeholder((2, 2), name="x")
    y = td.atan2(x, 1.0) + td.linalg.inv(x)
    with pytest.raises(td.ModelFileError, match=r"no way to say: Atan2.*; Inverse"):
        td.to_onnx(td.computation(y, x), tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_state_and_draws_are_refused(tmp_path: Path) -> None:
    x, v = td.placeholder((2,), name="x"), td.Variable(0.0, name="v")
    with pytest.raises(td.ModelFileError, match="draws random numbers"):
        td.to_onnx(td.computation(td.dropout(x), x), tmp_path / "m.onnx")
    v.assign(v + 1.0)
    with pytest.raises(td.ArgumentError, match="it changes v"):
        td.to_onnx(td.computation(x * v, x), tmp_path / "m.onnx")
    with pytest.raises(td.ArgumentError, match="1 examples and 2 names"):
        td.to_onnx(td.relu, tmp_path / "m.onnx", [1.0], inputs=["a", "b"])
    with pytest.raises(td.ArgumentError, match="takes a computation"):
        td.to_onnx(3, tmp_path / "m.onnx")


def test_what_was_assigned_before_is_written(tmp_path: Path) -> None:
    net = nn.Linear(3, 2)
    x = np.ones((1, 3), np.float32)
    td.optim.SGD(net, lr=0.1).step(td.sum(net(x) ** 2))
    net.weight.assign(net.weight * 2.0)
    td.to_onnx(net, tmp_path / "m.onnx", x, inputs=["x"])
    same(by_onnx(tmp_path / "m.onnx", {"x": x}), by_reference(lambda: net(x)))


def test_names_that_meet_are_told_apart(tmp_path: Path) -> None:
    x = td.placeholder((2,), name="y")
    a, b = td.param("w", init=[1.0, 2.0]), td.param("w", init=[3.0, 4.0])
    td.to_onnx(td.computation({"y": x * a + b, "w": x}, x), tmp_path / "m.onnx")
    net = td.from_onnx(tmp_path / "m.onnx")
    assert [k for k, _ in net.named_parameters()] == ["w", "w.1"]
    y, same_ = net(td.asarray([1.0, 1.0]))
    assert (y.tolist(), same_.tolist()) == ([4.0, 6.0], [1.0, 1.0])


def test_metadata_is_kept(tmp_path: Path) -> None:
    x = td.placeholder((2,), name="x")
    what = td.computation(x * 2.0, x)
    td.to_onnx(what, tmp_path / "m.onnx", metadata={"made by": "a test"})
    (prop,) = onnx.load(tmp_path / "m.onnx").metadata_props
    assert (prop.key, prop.value) == ("made by", "a test")
