"""The statements of Nervana Graph's document: creation order is effect order."""

from __future__ import annotations

import treadle as td
from treadle.graph.variable import Update


def test_s9_an_assignment_precedes_what_is_written_after_it() -> None:
    x = td.placeholder((), initial_value=0)
    a = x.assign(5)
    z = x + 1
    assert z.inputs[0] is a and isinstance(a.op, Update)
    assert float(z) == 6


def test_s10_each_evaluation_runs_the_update() -> None:
    w = td.Variable(0)
    w.assign(w + 1)
    compute = td.computation(w)
    assert [int(compute()) for _ in range(3)] == [1, 2, 3]


def test_s11_a_guarded_update_runs_only_where_it_is_named() -> None:
    w = td.Variable(0)
    with td.explicit_updates():
        update = w.assign(w + 1)
    compute = td.computation(w)
    assert [int(compute()) for _ in range(3)] == [0, 0, 0]
    both = td.computation([w, update])
    assert [int(both()[0]) for _ in range(3)] == [1, 2, 3]


def test_s12_what_a_node_tells_of_itself() -> None:
    x = td.param("x", init=1.0)
    with td.metadata(stochastic="dropout"):
        y = x + 1.0
    assert y.inputs[0] is x.node()
    assert y.metadata == {"stochastic": "dropout"}
    assert y.filename == __file__ and y.lineno > 0
    assert f"{__file__}:{y.lineno}" in y.line
    assert y.axes is None and y.name != (x + 1.0).name
    y.name = "sum"
    assert y.name == "sum"


def test_s14_a_derivative_is_a_graph_and_computes_nothing() -> None:
    w = td.param("w", shape=(2, 3), init=0.5)
    b = td.param("b", shape=(2,), init=0.0)
    x, y0 = td.ones((3,)), td.zeros((2,))
    y = td.tanh(w @ x + b)
    c = ((y - y0) ** 2).sum()
    d = td.grad(c, [w])[0]
    assert d.stored is None and c.stored is None
    assert [v.name for v in td.variables(c)] == ["w", "b"]
    assert d.shape == (2, 3)
