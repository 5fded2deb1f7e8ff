"""What gradients and expressions look like when they are simplified."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.rewrite.rules.inference import INFERENCE

v = td.placeholder((4, 2), name="v")
t = td.placeholder((4, 3), name="t")


def parameters() -> tuple[Any, Any, Any]:
    x, y = td.param("x", init=2.0), td.param("y", init=3.0)
    return x, y, td.param("w", (2, 3), init=1.0)


READS = [
    (lambda x, y, w: x * y + td.sin(x), "x * y + sin(x)", "cos(x) + y"),
    (lambda x, y, w: x * 1 + 0 * y, "x + 0 * y", "1"),
    (lambda x, y, w: x**3, "x**2 * x", "3 * x**2"),
    (lambda x, y, w: x + x + x + x, "4 * x", "4"),
    (lambda x, y, w: 2 * x * 3 / 4, "1.5 * x", "1.5"),
    (lambda x, y, w: td.tanh(x), "tanh(x)", "1 - tanh(x)**2"),
    (lambda x, y, w: 1 / (1 + td.exp(-x)), "sigmoid(x)", "sigmoid(x) * sigmoid(-x)"),
    (lambda x, y, w: td.log(1 + td.exp(x)), "softplus(x)", "sigmoid(x)"),
    (lambda x, y, w: td.log(td.sigmoid(x)), "log_sigmoid(x)", "sigmoid(-x)"),
    (lambda x, y, w: td.sqrt(x * x + y * y), "sqrt(x**2 + y**2)",
     "x / sqrt(x**2 + y**2)"),
    (lambda x, y, w: -(-x - y), "x + y", "1"),
]  # fmt: skip


@pytest.mark.parametrize("make, value, slope", READS)
def test_a_gradient_reads_as_algebra(make: Any, value: str, slope: str) -> None:
    x, y, w = parameters()
    z = make(x, y, w)
    assert str(td.simplify(z)) == value
    (g,) = td.grad(z, [x])
    assert str(td.simplify(g)) == slope


@pytest.mark.parametrize("keepdims", [True, False])
def test_cross_entropy_of_shares_reads_as_algebra(keepdims: bool) -> None:
    _, _, w = parameters()
    e = td.exp(v @ w)
    total = e.sum(1, keepdims=keepdims).reshape(4, 1)
    loss = -(t * td.log(e / total)).sum()
    assert str(td.simplify(loss)) == "-sum(t * log_softmax(v @ w, axis=1))"
    slope = str(td.simplify(td.grad(loss, [w])[0]))
    assert slope == "v.T @ (sum(t, 1, keepdims=True) * softmax(v @ w, axis=1) - t)"


def test_what_is_read_twice_stands_below() -> None:
    x, y, _ = parameters()
    a = td.exp(td.sin(x) * y)
    assert str(td.simplify(a * td.cos(a))) == "a * cos(a)\n  where a = exp(sin(x) * y)"


def test_a_simplified_graph_is_a_graph() -> None:
    x, y, _ = parameters()
    made = td.simplify({"z": x * y * 1, "same": x * 1})
    assert float(made["z"]) == 6.0 and float(made["same"]) == 2.0
    assert float(td.grad(made["z"], [x])[0]) == 3.0
    assert repr(made["z"]).startswith("Tensor") or "Formula" in repr(made["z"])
    with td.no_grad():
        held = x * 1
    with pytest.raises(td.GradientError):
        td.grad(td.simplify(held * 1) + y * 0.0, [x])


def test_batch_norm_is_folded_into_weights() -> None:
    x = td.placeholder((64, 8), name="x")
    w, b = td.param("w", (8, 4), init=1.0), td.param("b", (4,), init=0.5)
    mean, var = td.param("m", (4,), init=0.1), td.param("var", (4,), init=2.0)
    y = td.batch_norm(x @ w + b, mean, var)
    made = td.simplify(y, rules=[INFERENCE])
    plain, folded = td.computation(y, x), td.computation(made, x)
    given = np.random.default_rng(0).normal(size=(64, 8)).astype(np.float32)
    np.testing.assert_allclose(plain(given), folded(given), rtol=1e-5, atol=1e-5)
    # One product and one sum are left that have as many elements as the result.
    large = [n for n in td.nodes(made) if n.inputs and n.type.shape == (64, 4)]
    assert sorted({n.op.name for n in large}) == ["Add", "Contract"]


@pytest.mark.parametrize("rules", [np.float32, list, 3, "a", [3], [list]])
def test_what_is_no_list_of_rules_is_refused(rules: object) -> None:
    x = td.param("x", init=2.0)
    with pytest.raises(td.OptionError):
        td.simplify(x * 1, rules=rules)
    with pytest.raises(td.OptionError), td.options(rules=rules):
        pass


def test_who_watches_is_a_function() -> None:
    with pytest.raises(td.TreadleError, match="watch is a function"):
        td.simplify(td.asarray(1.0) + 0.0, watch=td.asarray(2.0))
