"""Losses are written in few ops, which keep far values, and none that selects rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

pytest.importorskip("onnx")

import onnx

from tests.io.onnx.models import by_onnx, is_right, kinds_of, same

F = nn.functional
RNG = np.random.default_rng(0)
X = (2 * RNG.standard_normal((4, 6))).astype(np.float32)
Y = (X[::-1] + 0.5).astype(np.float32)
P = RNG.uniform(0.05, 0.95, (4, 6)).astype(np.float32)
LABELS = np.array([0, 5, 2, 2])


def cosine_of_parts(x: Any) -> Any:
    return td.sum(td.normalize(x) * td.exp(x), -1, keepdims=True)


def of_other_axes(x: Any) -> Any:
    return td.sum(td.normalize(x, 0) * td.normalize(x, 1), 1)


# A function of X, ops its file has, each as often as given, and none of the others.
WRITTEN: dict[str, tuple[Any, dict[str, int], set[str]]] = {
    "logits": (
        lambda x: F.binary_cross_entropy_with_logits(x, P),
        {"Log": 1, "Sigmoid": 1, "HardSigmoid": 1},
        {"Softplus", "Where", "Greater"},
    ),
    "probabilities": (
        lambda x: F.binary_cross_entropy(td.sigmoid(x), P),
        {"Log": 2, "Clip": 2, "Sub": 5, "Add": 1, "Mul": 2},
        {"Neg", "Min", "Max"},
    ),
    "masses": (
        lambda x: F.kl_div(x, P),
        {"Equal": 1, "Log": 1, "Where": 1},
        set(),
    ),
    "several labels": (
        lambda x: F.multilabel_soft_margin_loss(x, P),
        {"Log": 1},
        {"Softplus", "Where"},
    ),
    "cosine": (lambda x: F.cosine_similarity(x, Y), {"Div": 2, "Mul": 3}, set()),
    "one norm": (cosine_of_parts, {"Div": 1, "Mul": 2}, set()),
    "other axes": (of_other_axes, {"Div": 2, "ReduceSum": 3}, set()),
    "variances": (
        lambda x: F.gaussian_nll_loss(x, Y, td.abs(x) - 0.5),
        {"Max": 1},
        {"Where", "Less"},
    ),
    "margins": (
        lambda x: F.multi_margin_loss(x, LABELS),
        {"Where": 1},
        {"Greater"},
    ),
    "log targets": (
        lambda x: F.kl_div(x, Y, log_target=True),
        {"Exp": 1, "Where": 1},
        {"Max"},
    ),
    "log targets kept from a bound": (  # whose exp is not 0
        lambda x: td.where(td.exp(x) == 0, 0, td.exp(x) * (td.maximum(x, -1.0) - Y)),
        {"Max": 1},
        set(),
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_loss_is_written_in_few_ops(name: str, tmp_path: Path) -> None:
    f, kinds, others = WRITTEN[name]
    td.to_onnx(f, tmp_path / "m.onnx", X, inputs=["x"])
    seen = kinds_of(tmp_path / "m.onnx")
    assert {kind: seen.count(kind) for kind in kinds} == kinds
    assert not others & set(seen)
    is_right(f, tmp_path / "m.onnx", X)


def test_signs_change_after_a_mean(tmp_path: Path) -> None:
    for f in (lambda x: td.mean(-td.exp(x)), lambda x: td.sum(-td.exp(x), -1)):
        td.to_onnx(f, tmp_path / "m.onnx", X, inputs=["x"])
        assert kinds_of(tmp_path / "m.onnx")[-1] == "Neg"
        is_right(f, tmp_path / "m.onnx", X)


FAR = np.array([-np.inf, -1e4, -88, -30, -1, 0, 1, 30, 88, 1e4, np.inf], np.float32)


@pytest.mark.parametrize("label", [0.0, 1.0, 0.25])
def test_far_logits_cost_what_they_are(label: float, tmp_path: Path) -> None:
    targets = np.full_like(FAR, label)

    def f(x: Any, t: Any) -> Any:
        return F.binary_cross_entropy_with_logits(x, t, reduction="none")

    td.to_onnx(f, tmp_path / "m.onnx", FAR, targets, inputs=["x", "t"])
    (y,) = by_onnx(tmp_path / "m.onnx", {"x": FAR, "t": targets})
    wide = FAR.astype(np.float64)
    with np.errstate(invalid="ignore"):
        want = np.where(wide > 0, 1 - label, -label) * wide
        want = want + np.log1p(np.exp(-abs(wide)))
    np.testing.assert_allclose(y, want, rtol=1e-6, atol=2e-7)
    np.testing.assert_allclose(f(FAR, targets), want, rtol=1e-6)


def _far(f: Any, tmp_path: Path, *xs: Any) -> None:
    """Refuse a file of f whose far values are others than those of f in double."""
    names = [f"x{k}" for k in range(len(xs))]
    td.to_onnx(f, tmp_path / "m.onnx", *xs, inputs=names)
    (y,) = by_onnx(tmp_path / "m.onnx", dict(zip(names, xs, strict=True)))
    want = f(*[x.astype(np.float64) for x in xs]).numpy()
    np.testing.assert_allclose(y, want, rtol=1e-6, atol=2e-7)


def test_far_values_of_other_losses(tmp_path: Path) -> None:
    _far(F.logsigmoid, tmp_path, FAR)
    p = np.array([0, 1e-30, 1e-6, 0.4, 0.6, 1, np.nan], np.float32)
    some, every = np.meshgrid(p, np.array([0, 0.25, 1], np.float32))
    _far(
        lambda p, t: F.binary_cross_entropy(p, t, reduction="none"),
        tmp_path,
        some,
        every,
    )
    logs = np.array([-np.inf, -80, -1, -1e-6, 0], np.float32)
    q, log_p = np.meshgrid(logs, logs)
    for log in (False, True):

        def terms(q: Any, p: Any, log: bool = log) -> Any:
            return F.kl_div(q, p, reduction="none", log_target=log)

        _far(terms, tmp_path, q, log_p if log else np.exp(log_p))


def test_probabilities_of_nothing_cost_nothing() -> None:
    p, q = td.param("p", init=[-np.inf, -1.0]), td.param("q", init=[-1.0, -2.0])
    loss = td.sum(td.kl_div(q, p, log_target=True, reduction="none"))
    slopes = td.grad(loss, [p, q])
    assert float(loss) == pytest.approx(np.exp(-1))
    assert [g[0].item() for g in slopes] == [0, 0]


def test_nodes_have_the_paths_of_their_layers(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            self.body = nn.Sequential(nn.Linear(6, 6), nn.LayerNorm(6), nn.ReLU())
            self.head = td.function(nn.Linear(6, 2))

        def forward(self, x: Any) -> Any:
            return self.head(self.body(self.body(x))) * 2.0

    td.to_onnx(Net(), tmp_path / "m.onnx", X)
    graph = onnx.load(tmp_path / "m.onnx").graph
    names = [node.name for node in graph.node if node.op_type != "Constant"]
    assert names == [
        "/body/0/Gemm",
        "/body/1/LayerNormalization",
        "/body/2/Relu",
        "/body/0/Gemm_1",
        "/body/1/LayerNormalization_1",
        "/body/2/Relu_1",
        names[6],
        "/Net/Mul",
        "output",
    ]
    assert names[6].endswith("/Gemm")


def test_gradients_of_convolutions_and_pools_are_written(tmp_path: Path) -> None:
    net = nn.Sequential(
        *(nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.Tanh()),
        *(nn.Conv2d(8, 4, (3, 2), dilation=2), nn.MaxPool2d(2)),
    )
    images = RNG.standard_normal((2, 4, 16, 15)).astype(np.float32)
    x = td.placeholder(images.shape, name="x")
    loss = td.mean(net(x) ** 2)
    what = td.computation([loss, *td.grad(loss, list(net.parameters()))], x)
    td.to_onnx(what, tmp_path / "m.onnx")
    same(by_onnx(tmp_path / "m.onnx", {"x": images}), list(what(images)))
