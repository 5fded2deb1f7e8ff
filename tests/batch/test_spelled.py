"""Losses that are spelled out, one for each example: as rows and node by node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

LENGTHS = (3, 4, 5, 2, 3, 1, 4, 5, 5, 2)
RNG = np.random.default_rng(5)
W, V = (RNG.standard_normal(shape) for shape in ((6, 4), (4,)))


def logistic(s: Any) -> Any:
    return 1 / (1 + td.exp(-s))


def growth(s: Any) -> Any:
    return td.exp(s) / (1 + td.exp(s))


class Net:
    """A cell over as many rows of a table as an example is long, then one score."""

    def __init__(self, scale: float) -> None:
        self.w = td.param("w", init=W, dtype="float64")
        self.v = td.param("v", init=V * scale, dtype="float64")
        self.cell = td.function(lambda h, x: td.tanh(h + x))

    def score(self, length: int) -> Any:
        h: Any = td.constant(np.zeros(4))
        for k in range(length):
            h = self.cell(h, self.w[k])
        return (h * self.v).sum()

    def probabilities(self, sigmoid: Callable[[Any], Any]) -> list[Any]:
        return [sigmoid(self.score(length)) for length in LENGTHS]


def entropy(ps: list[Any]) -> Any:
    total: Any = td.constant(0.0, dtype="float64")
    for k, p in enumerate(ps):
        total = total - (td.log(p) if k % 2 else td.log(1 - p))
    return total


def trained(rows: bool, sigmoid: Any, scale: float, how: str) -> list[Any]:
    """The loss and its gradients."""
    with td.options(autobatch=rows):
        net = Net(scale)
        ps = net.probabilities(sigmoid)
        total = entropy(ps)
        if how != "held":
            del ps
        if how == "value first":
            float(total)
        grads = td.grad(total, [net.w, net.v])
        found = [np.asarray(x) for x in td.evaluate([total, *grads])]
        if how == "held":
            found += [np.asarray(p) for p in td.evaluate(ps)]
    return found


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("how", ["at once", "value first", "held"])
@pytest.mark.parametrize("sigmoid", [td.sigmoid, logistic, growth])
def test_as_rows_and_node_by_node(sigmoid: Any, how: str, scale: float) -> None:
    wanted, found = (trained(rows, sigmoid, scale, how) for rows in (False, True))
    for a, b in zip(wanted, found, strict=True):
        assert np.isfinite(b).all()
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("sigmoid", [td.sigmoid, logistic, growth])
def test_what_is_asked_for_inside_is_derived_by(sigmoid: Any) -> None:
    def both(rows: bool) -> list[Any]:
        with td.options(autobatch=rows):
            net = Net(1.0)
            ps = net.probabilities(sigmoid)
            grads = td.grad(entropy(ps), [net.v, ps[1], ps[4]])
            return [np.asarray(x) for x in (*td.evaluate(grads), *td.evaluate(ps))]

    for a, b in zip(both(False), both(True), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9)
    _, first, second, *ps = both(True)
    np.testing.assert_allclose(first, -1 / ps[1], rtol=1e-9)
    np.testing.assert_allclose(second, 1 / (1 - ps[4]), rtol=1e-9)


def test_such_expressions_are_one_body_each() -> None:
    net = Net(1.0)
    with td.options(engine="native"):  # which tells its moves
        total = entropy(net.probabilities(logistic))
        with td.profile() as p:
            td.evaluate(td.grad(total, [net.w, net.v]))
    parts = {part for row in p.by_kernel() for part in row.name.split("_")}
    assert "gather" in parts, "it ran as rows"
    assert "log1p" in parts and "log" not in parts
