"""Activations that are smaller ops here are written as ONNX's own."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

pytest.importorskip("onnx")

import onnx

from tests.io.onnx.models import by_onnx, is_right, kinds_of, same

X = np.linspace(-8, 8, 24, dtype=np.float32).reshape(2, 3, 4)
SLOPES = np.array([[0.5], [-1.0], [2.0]], np.float32)

Activation = Callable[[Any], Any]
ONE: dict[str, tuple[str, Activation]] = {
    "relu6": ("Clip", td.relu6),
    "hardtanh": ("Clip", nn.Hardtanh(-2.0, 3.0)),
    "hard_sigmoid": ("HardSigmoid", td.hard_sigmoid),
    "another ramp": ("HardSigmoid", lambda x: _between(x * 0.25 + 0.75, 0.0, 1.0)),
    "hard_swish": ("HardSwish", td.hard_swish),
    "elu": ("Elu", lambda x: td.elu(x, 0.5)),
    "celu": ("Celu", lambda x: td.celu(x, 0.5)),
    "leaky_relu": ("LeakyRelu", lambda x: td.leaky_relu(x, 0.1)),
    "prelu": ("PRelu", nn.PReLU(3)),
    "slopes": ("PRelu", lambda x: td.leaky_relu(x, td.asarray(SLOPES))),
    "gelu_tanh": ("Gelu", td.gelu_tanh),
}
# What looks like one and is none: another number, or a result of another shape.
OTHERS: dict[str, tuple[str, Activation]] = {
    "ends in the wrong order": ("Where", lambda x: _between(x, 1.0, -1.0)),
    "other values at the ends": (
        "Where",
        lambda x: td.where(x <= 0.0, 1.0, td.where(x >= 2.0, 2.0, x)),
    ),
    "a leak from 1 on": ("Where", lambda x: td.where(x > 1.0, x, x * 0.1)),
    "an elu from 1 on": (
        "Where",
        lambda x: td.where(x > 1.0, x, td.expm1(td.minimum(x, 0.0)) * 2.0),
    ),
    "slopes that widen": (
        "Where",
        lambda x: td.leaky_relu(x[:1], td.asarray(SLOPES[None] * X[:, :1, :1])),
    ),
    "a steeper gate": ("HardSigmoid", lambda x: x * _between(x * 0.5 + 0.5, 0.0, 1.0)),
    "another curve": (
        "Tanh",
        lambda x: x * 0.5 * (td.tanh((x + x * x * x * 0.04) * 0.8) + 1.0),
    ),
}


def _between(x: Any, low: float, high: float) -> Any:
    return td.where(x <= low, low, td.where(x >= high, high, x))


def written(f: Activation, path: Path, x: Any) -> list[str]:
    """The ops of the file of a function, but for constants, shapes and names."""
    td.to_onnx(f, path, x, inputs=["x"])
    return kinds_of(path)


@pytest.mark.parametrize("name", ONE)
def test_an_activation_is_one_node(name: str, tmp_path: Path) -> None:
    kind, f = ONE[name]
    assert written(f, tmp_path / "m.onnx", X) == [kind]
    is_right(f, tmp_path / "m.onnx", X)


@pytest.mark.parametrize("name", OTHERS)
def test_what_looks_like_an_activation_is_written_out(
    name: str, tmp_path: Path
) -> None:
    kind, f = OTHERS[name]
    assert kind in written(f, tmp_path / "m.onnx", X)
    assert len(written(f, tmp_path / "m.onnx", X)) > 1
    is_right(f, tmp_path / "m.onnx", X)


@pytest.mark.parametrize("name", ["hard_swish", "elu", "leaky_relu", "gelu_tanh"])
def test_activations_in_double_precision_are_written_out(
    name: str, tmp_path: Path
) -> None:
    kind, f = ONE[name]
    x = X.astype(np.float64)
    assert kind not in written(f, tmp_path / "m.onnx", x)
    is_right(f, tmp_path / "m.onnx", x)


def test_what_a_form_leaves_over_is_in_no_loop(tmp_path: Path) -> None:
    def net(x: Any) -> Any:
        return td.scan(lambda h, v: (td.relu6(h + v),) * 2, td.zeros(4), x)[1]

    td.to_onnx(net, tmp_path / "m.onnx", X[0], inputs=["x"])
    nodes = onnx.load(tmp_path / "m.onnx").graph.node
    (scan,) = [node for node in nodes if node.op_type == "Scan"]
    (body,) = [a.g for a in scan.attribute if a.name == "body"]
    kinds = {node.op_type for node in body.node}
    assert "Clip" in kinds and "Where" not in kinds and "LessOrEqual" not in kinds
    is_right(net, tmp_path / "m.onnx", X[0])


LOGARITHMS: dict[str, Activation] = {"log1p": td.log1p, "log_sigmoid": td.log_sigmoid}


@pytest.mark.parametrize("name", LOGARITHMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithms_keep_far_and_small_values(
    name: str, dtype: Any, tmp_path: Path
) -> None:
    f = LOGARITHMS[name]
    x = np.array([1e-6, 0.0, 1e-30, -0.5, -1.0, 40.0, 3e38, np.inf, np.nan], dtype)
    x = x if name == "log1p" else np.concatenate([x, -x])
    td.to_onnx(f, tmp_path / "m.onnx", x, inputs=["x"])
    is_right(f, tmp_path / "m.onnx", x)
    if name == "log1p":
        (y,) = by_onnx(tmp_path / "m.onnx", {"x": x})
        with np.errstate(divide="ignore"):
            np.testing.assert_allclose(y[:5], np.log1p(x[:5]), rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "end", "within"),
    [("float16", 2.5, 2e-3), ("float32", 9.0, 6e-6), ("float64", 26.0, 2e-13)],
)
def test_complements_of_the_error_function_keep_their_tails(
    dtype: str, end: float, within: float, tmp_path: Path
) -> None:
    x = np.linspace(-5, end, 501).astype(dtype)
    x = np.concatenate([x, np.array([np.inf, -np.inf, np.nan, 60], dtype)])
    td.to_onnx(td.erfc, tmp_path / "m.onnx", x, inputs=["x"])
    (y,) = by_onnx(tmp_path / "m.onnx", {"x": x})
    want = np.array([math.erfc(v) for v in x.astype(np.float64)])
    assert y.dtype == x.dtype
    np.testing.assert_allclose(y.astype(np.float64), want, rtol=within)


def test_training_graphs_of_gelu(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    x = td.placeholder((6, 4), name="x")
    loss = td.mean(net(x) ** 2)
    step = td.computation([loss, *td.grad(loss, list(net.parameters()))], x)
    td.to_onnx(step, tmp_path / "m.onnx")
    rows = 3 * X.reshape(6, 4)  # the normal distribution function is 1e-7 and less
    same(by_onnx(tmp_path / "m.onnx", {"x": rows}), list(step(rows)))
