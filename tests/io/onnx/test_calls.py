"""Calls of a network of an ONNX file: traced once, anew where structure differs."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td

pytest.importorskip("onnx")

from onnx import helper

from tests.io.onnx.models import save

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
W = np.arange(12, dtype=np.float32).reshape(3, 4)
NODES = [helper.make_node("MatMul", ["x", "w"], ["h"])]


def linear(path: Path) -> Any:
    """A product with a weight, then a Relu; the batch is open."""
    nodes = [*NODES, helper.make_node("Relu", ["h"], ["y"])]
    return td.from_onnx(save(path / "m.onnx", nodes, {"x": X}, {"w": W}, open_=("x",)))


def relu(x: Any) -> Any:
    return np.maximum(x @ W, 0)


def test_a_network_is_traced_once_for_each_shape(tmp_path: Path) -> None:
    net = linear(tmp_path)
    for rows in (2, 1, 2, 1, 2):
        np.testing.assert_array_equal(net(X[:rows]).numpy(), relu(X[:rows]))
    assert net._traced.count == 2


def test_a_call_of_what_is_not_computed_yet_is_a_part_of_its_graph(
    tmp_path: Path,
) -> None:
    net = linear(tmp_path)
    x = td.param("x", init=X)
    (g,) = td.grad(td.sum(net(x * 2.0)), [x])
    want = 2 * (X @ W > 0) @ W.T
    np.testing.assert_allclose(g.numpy(), want, rtol=1e-6)


def test_a_weight_that_is_replaced_is_read(tmp_path: Path) -> None:
    net = linear(tmp_path)
    net(X).numpy()
    net.weights["w"].assign(td.asarray(2 * W))
    np.testing.assert_array_equal(net(X).numpy(), 2 * relu(X))
    net.weights["w"] = td.Parameter(3 * W)
    np.testing.assert_array_equal(net(X).numpy(), 3 * relu(X))


def test_a_network_that_was_called_is_pickled_and_copied(tmp_path: Path) -> None:
    net = linear(tmp_path)
    net(X).numpy()
    for other in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net)):
        np.testing.assert_array_equal(other(X).numpy(), relu(X))


def test_a_whole_number_that_a_choice_depends_on_is_a_part_of_the_signature(
    tmp_path: Path,
) -> None:
    def branch(weight: str) -> Any:
        y = helper.make_empty_tensor_value_info("b")
        node = helper.make_node("MatMul", ["x", weight], ["b"])
        return helper.make_graph([node], weight, [], [y])

    # The other branch is one for another width of x: it cannot be built.
    nodes = [
        helper.make_node("Equal", ["rate", "sixteen"], ["c"]),
        helper.make_node(
            "If", ["c"], ["y"], then_branch=branch("w"), else_branch=branch("narrow")
        ),
    ]
    weights = {"w": W, "narrow": W[:2], "sixteen": np.array(16)}
    net = td.from_onnx(
        save(tmp_path / "m.onnx", nodes, {"x": X, "rate": np.array(16)}, weights)
    )
    for _ in range(3):
        np.testing.assert_array_equal(net(X, np.array(16)).numpy(), X @ W)
    with pytest.raises(td.ModelFileError, match="do not meet"):
        net(X, np.array(8))
    assert net._settings == {"rate"}
    assert not net._varies


def test_what_depends_on_weights_alone_is_computed_before_a_branch(
    tmp_path: Path,
) -> None:
    def branch(name: str, order: list[str]) -> Any:
        y = helper.make_empty_tensor_value_info(f"{name}_y")
        nodes = [
            helper.make_node("Concat", order, [f"{name}_w"], axis=1),
            helper.make_node("MatMul", ["x", f"{name}_w"], [f"{name}_y"]),
        ]
        return helper.make_graph(nodes, name, [], [y])

    nodes = [
        helper.make_node("ReduceMax", ["x"], ["top"], keepdims=0),
        helper.make_node("Greater", ["top", "limit"], ["c"]),
        helper.make_node(
            "If",
            ["c"],
            ["y"],
            then_branch=branch("a", ["w", "v"]),
            else_branch=branch("b", ["v", "w"]),
        ),
    ]
    weights = {"w": W, "v": -W, "limit": np.array(2, np.float32)}
    net = td.from_onnx(save(tmp_path / "m.onnx", nodes, {"x": X}, weights))
    x = td.placeholder(X.shape, name="x")
    graph = td.computation(net(x), x).body.nodes
    conds = [n for n in graph if n.op.name == "Cond"]
    assert conds and not net._varies
    inner = {n.op.name for c in conds for n in c.op.then.nodes}  # type: ignore[attr-defined]
    assert "Contract" in inner and "Concat" not in inner
    for scale in (1, 2, 1):  # both branches, and weights that are others
        both = W * scale, -W
        net.weights["w"].assign(td.asarray(W * scale))
        for x_ in (X, X + 9, X):
            order = both if x_.max() > 2 else both[::-1]
            want = x_ @ np.concatenate(order, 1)
            np.testing.assert_allclose(net(x_).numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_weights_are_held_in_another_dtype(tmp_path: Path, dtype: str) -> None:
    net = linear(tmp_path)
    net(X).numpy()
    state = {k: np.array(v) for k, v in net.state_dict().items()}
    net.weights["w"].trainable = False
    assert net.astype(dtype) is net
    (w,) = net.parameters()
    assert w.dtype.name == dtype and w.name == "w" and not w.trainable
    np.testing.assert_allclose(net(X).numpy(), relu(X), rtol=1e-6)
    net.load_state_dict({k: 2 * v for k, v in state.items()})
    np.testing.assert_allclose(net(X).numpy(), 2 * relu(X), rtol=1e-6)
    assert net.state_dict()["w"].dtype.name == dtype
    net.astype("float32").load_state_dict(state)
    net.trainable = True
    assert net.weights["w"].dtype == np.float32
    np.testing.assert_array_equal(net(X).numpy(), relu(X))


def test_a_structure_that_depends_on_data_is_built_at_each_call(tmp_path: Path) -> None:
    nodes = [*NODES, helper.make_node("NonZero", ["h"], ["y"])]
    net = td.from_onnx(save(tmp_path / "m.onnx", nodes, {"x": X}, {"w": W}))
    for x in (X, np.zeros_like(X), X + 1):
        got = net(x)
        np.testing.assert_array_equal(np.asarray(got), np.stack(np.nonzero(x @ W)))
    assert net._varies


def test_ties_are_rounded_as_they_were_written(tmp_path: Path) -> None:
    """As DynamicQuantizeLinear does: x / (range / 255), rounded half to even."""
    nodes = [
        helper.make_node("Div", ["range", "levels"], ["scale"]),
        helper.make_node("Div", ["x", "scale"], ["q"]),
        helper.make_node("Round", ["q"], ["y"]),
    ]
    scale = np.float32(3) / np.float32(255)
    x = (np.arange(-300, 300, dtype=np.float32) + np.float32(0.5)) * scale
    weights = {"range": np.array([3], np.float32), "levels": np.array(255, np.float32)}
    inputs = {"x": x, "range": weights.pop("range")}
    net = td.from_onnx(save(tmp_path / "m.onnx", nodes, inputs, weights))
    np.testing.assert_array_equal(net(**inputs).numpy(), np.round(x / scale))
