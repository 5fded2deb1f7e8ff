"""Graphs run as rows give what they give node by node, and gradients too."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from tests.batch.nets import Net, Tree, trees
from treadle.batch import bodies, signature
from treadle.runtime.rows import counts


def both(make: Callable[[], Any]) -> tuple[Any, Any]:
    """What `make` gives as rows, and node by node on the reference engine."""
    before = counts.runs
    batched = make()
    assert counts.runs > before, "nothing was run as rows"
    with td.options(autobatch=False, engine="reference"):
        return batched, make()


def agree(pair: tuple[Any, Any]) -> None:
    for x, y in zip(*pair, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def value_and_gradients(net: Net, forest: list[Tree]) -> list[Any]:
    loss = td.stack(net.losses(forest)).mean()
    grads = td.grad(loss, net.parameters, unused="zero")
    return [float(loss), *[g.numpy() for g in grads]]


@pytest.mark.parametrize("cells", [True, False])
def test_trees_as_rows(cells: bool) -> None:
    net, forest = Net(cells), trees(0, 16)
    agree(both(lambda: value_and_gradients(net, forest)))


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.integers(8, 20), st.integers(1, 12), st.booleans())
def test_any_forest(seed: int, count: int, most: int, cells: bool) -> None:
    net, forest = Net(cells), trees(seed, count, most)
    result = value_and_gradients(net, forest)
    with td.options(autobatch=False, engine="reference"):
        agree((result, value_and_gradients(net, forest)))


def test_single_precision_and_any_number_of_threads() -> None:
    net, forest = Net(dtype="float32"), trees(1, 30)
    found = []
    for threads in (1, 2, 4):
        with td.options(threads=threads):
            found.append(value_and_gradients(net, forest))
    for other in found[1:]:
        for x, y in zip(found[0], other, strict=True):
            assert np.array_equal(x, y)


def test_steps_of_an_optimizer() -> None:
    forest = trees(2, 16)

    def run() -> list[Any]:
        net = Net()
        optimizer = td.optim.Adagrad(lr=0.1)
        losses = [
            float(optimizer.step(td.stack(net.losses(forest)).mean())) for _ in range(5)
        ]
        return [losses, *[p.numpy() for p in net.parameters]]

    agree(both(run))


def test_what_is_held_keeps_its_value() -> None:
    net, forest = Net(), trees(3, 12)

    def run() -> list[Any]:
        tops = [net.encode(t) for t in forest]
        logits = [h @ net.top for h, _ in tops]
        loss = td.stack([(x * x).sum() for x in logits]).sum()
        first = td.grad(loss, [net.top])[0].numpy()
        # The rows are there already: of them again, and by what lies within.
        again = td.grad(loss, [net.top, net.table])
        inner = td.grad(loss, [tops[3][0]])[0]
        return [
            first,
            *[x.numpy() for x in again],
            inner.numpy(),
            np.array([x.numpy() for x in logits]),
            tops[0][1].numpy(),
        ]

    agree(both(run))


def test_values_in_the_middle_of_a_graph() -> None:
    net, forest = Net(), trees(4, 12)

    def run() -> list[Any]:
        below = [net.encode(t) for t in forest]
        chosen = [float(h.sum()) > 0 for h, _ in below]
        above = []
        for k, (h, c) in enumerate(below):
            other = below[k - 1] if chosen[k] else below[k - 2]
            above.append(net.inner_cell(h, c, *other)[0])
        above = [net.inner_cell(h, h, h, h)[1] for h in above]
        loss = td.stack([(h * h).sum() for h in above]).sum()
        grads = td.grad(loss, net.parameters[:4])
        return [np.array(chosen), float(loss), *[g.numpy() for g in grads]]

    agree(both(run))


def test_values_of_one_result_of_several() -> None:
    """The other result, and what it comes from, is computed with the rest later."""
    net = Net()

    def run() -> list[Any]:
        pairs = [net.leaf_cell(td.rows(net.table, k % 11)) for k in range(40)]
        early = [float(h.sum()) for h, _ in pairs[:3]]
        above = [net.inner_cell(h, c, h, c) for h, c in pairs]
        late = [float(h.sum()) for h, _ in above[:3]]
        parts = [(h * h + c).sum() for h, c in [*pairs, *above]]
        grads = td.grad(td.stack(parts).sum(), [*net.parameters[:4], pairs[1][0]])
        return [np.array(early + late), *[g.numpy() for g in grads]]

    agree(both(run))


def test_subtrees_that_are_shared() -> None:
    net = Net()

    def run() -> list[Any]:
        layer = [net.encode(k % 7) for k in range(10)]
        for _ in range(4):
            layer = [
                net.inner_cell(*layer[k], *layer[k - 1]) for k in range(len(layer))
            ]
        loss = td.stack([h.sum() for h, _ in layer]).sum()
        grads = td.grad(loss, net.parameters[:4])
        return [float(loss), *[g.numpy() for g in grads]]

    agree(both(run))


def test_draws_are_those_of_each_node() -> None:
    net, forest = Net(), trees(5, 16)

    def run() -> list[Any]:
        with td.options(seed=7):
            tops = [td.dropout(net.encode(t)[0], 0.5) for t in forest]
            loss = td.stack([(h * h).sum() for h in tops]).sum()
            return [float(loss), td.grad(loss, [net.inner])[0].numpy()]

    agree(both(run))


def test_constants_of_a_gradient() -> None:
    net, forest = Net(), trees(6, 16)

    def run() -> list[Any]:
        with td.no_grad():
            fixed = [net.encode(t)[0] for t in forest]
        moving = [net.encode(t)[0] for t in forest]
        pairs = zip(fixed, moving, strict=True)
        loss = td.stack(
            [(td.stop_gradient(h * h) * f * h).sum() for f, h in pairs]
        ).sum()
        return [float(loss), td.grad(loss, [net.inner])[0].numpy()]

    agree(both(run))


def test_a_wrong_id_is_told_as_ever() -> None:
    net, forest = Net(), [*trees(7, 16), 99]
    with pytest.raises(td.RunError, match="id 99 is out of"):
        td.stack(net.losses(forest)).mean().numpy()


def test_after_a_step_its_graph_is_gone() -> None:
    net, forest = Net(), trees(8, 16)
    tops = [net.encode(t)[0] for t in forest]
    loss = td.stack([(h * h).sum() for h in tops]).sum()
    td.optim.SGD(lr=0.1).step(loss)
    assert tops[0].numpy().shape == (6,)
    with pytest.raises(td.GradientError):
        td.grad(tops[0].sum(), [net.inner])


@pytest.mark.parametrize("asked", [(), ("loss",), ("g",), ("loss", "g")])
def test_rows_are_derived_again(asked: tuple[str, ...]) -> None:
    """Whatever of it had its value before: the recipes of rows stand in for a tape."""
    net, forest = Net(), trees(9, 16)

    def run() -> list[Any]:
        loss = td.stack(net.losses(forest)).mean()
        read = [float(loss)] if "loss" in asked else []
        (g,) = td.grad(loss, [net.top])
        read += [g.numpy()] if "g" in asked else []
        again = td.grad((g * g).sum(), [net.top, net.inner])
        return [*read, *[x.numpy() for x in again]]

    agree(both(run))


@pytest.mark.parametrize("what", ["jvp", "hvp", "hessian", "jacobian", "third"])
def test_every_derivative_goes_through_rows(what: str) -> None:
    net, forest = Net(), trees(3, 16)
    bias = net.parameters[-1]
    some = td.asarray(np.linspace(-1.0, 1.0, bias.type.size).reshape(bias.shape))

    def run() -> list[Any]:
        loss = td.stack(net.losses(forest)).mean()
        assert float(loss)
        if what == "jvp":
            found = td.jvp(loss, [bias], [some])
        elif what == "hvp":
            found = td.hvp(loss, bias, some)
        elif what == "hessian":
            found = td.hessian(loss, bias)
        elif what == "jacobian":
            (found,) = td.jacobian(loss, [bias])
        else:
            found = loss
            for _ in range(3):
                (g,) = td.grad(found, [bias])
                found = (g * some).sum()
        return [found.numpy()]

    agree(both(run))


def test_off_means_off() -> None:
    net, forest = Net(), trees(10, 16)
    before = counts.runs
    with td.options(autobatch=False):
        td.stack(net.losses(forest)).mean().numpy()
    assert counts.runs == before


def test_regular_graphs_are_left_alone() -> None:
    x = td.param("x", init=np.ones((4, 4), "float32"))
    before = counts.runs
    y = x
    for _ in range(60):
        y = td.tanh(y @ x)
    td.grad(y.sum(), [x])[0].numpy()
    assert counts.runs == before


def test_calls_are_rows_by_what_is_done_inside() -> None:
    """Short sentences are no program of their own: others have other lengths."""
    cells = [td.nn.GRUCell(3, 4, dtype="float64") for _ in range(2)]
    ahead, back = [td.function(lambda x, h, cell=cell: cell(x, h)) for cell in cells]
    first = np.linspace(-1, 1, 40).reshape(8, 5)
    score = td.param("score", init=first, dtype="float64")
    given = [p for cell in cells for p in cell.parameters()] + [score]
    draw = np.random.default_rng(12)
    sentences = [draw.normal(size=(n, 3)) for n in (4, 3, 5, 4, 2, 4, 5, 3)]

    def states(cell: Any, rows: list[Any]) -> list[Any]:
        found = [cell(rows[0], td.zeros(4, "float64"))]
        for x in rows[1:]:
            found.append(cell(x, found[-1]))
        return found

    def loss_of(words: Any) -> Any:
        rows = [td.constant(word, "float64") for word in words]
        pairs = zip(states(ahead, rows), states(back, rows[::-1])[::-1], strict=True)
        tops = [td.concat(pair) @ score for pair in pairs]
        labels = [k % 5 for k in range(len(words))]
        return td.nn.functional.cross_entropy(td.stack(tops), labels)

    def run() -> list[Any]:
        loss = td.stack([loss_of(words) for words in sentences]).sum()
        return [float(loss), *[g.numpy() for g in td.grad(loss, given)]]

    agree(both(run))


def test_many_rows_joined_are_read_together() -> None:
    net, forest = Net(), trees(11, 70)

    def run() -> list[Any]:
        tops = [net.encode(t)[0] for t in forest]
        logits = td.stack(tops) @ net.top
        labels = [k % 3 for k in range(len(tops))]
        loss = td.nn.functional.cross_entropy(logits, labels)
        grads = td.grad(loss, net.parameters)
        return [float(loss), *[g.numpy() for g in grads]]

    agree(both(run))


def test_gradients_by_data() -> None:
    net = Net()
    words = [np.sin(np.arange(6.0) + k) for k in range(40)]

    def run() -> list[Any]:
        xs = [td.constant(x, "float64") for x in words]
        tops = [net.leaf_cell(x)[0] for x in xs]
        loss = td.stack([(h * h).sum() for h in tops]).sum()
        grads = td.grad(loss, [net.below, xs[0], xs[39]])
        return [float(loss), *[g.numpy() for g in grads]]

    agree(both(run))


def test_gradients_by_data_may_be_asked_for_after_values() -> None:
    net = Net()

    def run() -> list[Any]:
        xs = [td.constant(np.sin(np.arange(6.0) + k), "float64") for k in range(40)]
        loss = td.stack([(net.leaf_cell(x)[0] ** 2).sum() for x in xs]).sum()
        return [float(loss), td.grad(loss, [xs[3]])[0].numpy()]

    agree(both(run))


def test_parts_of_data_are_one_kind_of_rows() -> None:
    net = Net()
    sequences = [np.sin(np.arange(6.0 * n)).reshape(n, 6) for n in (3, 9, 14, 20) * 3]

    def run() -> list[Any]:
        before = counts.groups
        states = []
        for x in sequences:
            h, c = net.leaf_cell(td.zeros(6, "float64"))
            for part in td.unstack(td.constant(x, "float64")):
                h, c = net.inner_cell(part, c, h, c)
            states.append(h)
        loss = td.stack([(h * h).sum() for h in states]).sum()
        grads = td.grad(loss, [net.below, net.inner])
        assert counts.groups - before < 40
        return [float(loss), *[g.numpy() for g in grads]]

    agree(both(run))


def test_rows_of_what_is_computed() -> None:
    """The gradient of a look-up in what differs for each node needs their numbers."""
    w = td.param("w", init=np.random.default_rng(12).normal(size=(5, 4)))
    draw = np.random.default_rng(13)
    tables = [draw.normal(size=(6, 5)).astype("f4") for _ in range(40)]
    ids = [draw.integers(0, 6, (3, 2)) for _ in tables]

    def run(count: int) -> list[Any]:
        found = [
            td.rows(td.tanh(td.asarray(x) @ w), td.asarray(k))
            for x, k in zip(tables[:count], ids, strict=False)
        ]
        loss = td.stack([(y * y).sum() for y in found]).sum()
        return [float(loss), td.grad(loss, [w])[0].numpy()]

    for count in (24, 40, 33):
        found = run(count)
        with td.options(autobatch=False, engine="reference"):
            for x, y in zip(found, run(count), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-5)


def test_loops_are_left_to_programs() -> None:
    """Loops among nodes that are rows, alone and within a cell, and their gradients."""
    draw = np.random.default_rng(14)
    w = td.param("w", init=draw.normal(size=(4, 4)) / 3, dtype="float64")
    tables = [draw.normal(size=(3 + k % 2, 4)) for k in range(24)]

    def over(x: Any) -> Any:
        y = td.tanh(x @ w)
        zero = td.zeros(4, "float64")
        h, ys = td.scan(lambda h, r: (td.tanh(h @ w + r), h * r), zero, y)
        return (ys * ys).sum() + h.sum()

    def run(f: Any) -> list[Any]:
        loss = td.stack([f(td.asarray(x)) for x in tables]).sum()
        return [float(loss), td.grad(loss, [w])[0].numpy()]

    for f in (over, td.function(over)):
        found = run(f)
        with td.options(autobatch=False):
            for x, y in zip(found, run(f), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-10)


def test_a_table_is_read_by_numbers_of_two_types() -> None:
    table = td.lookup("table", (7, 3), init=np.arange(21.0).reshape(7, 3) / 9)

    @td.function
    def first(x: Any, h: Any) -> Any:
        return td.tanh(x * h)

    def loss(shift: int) -> Any:
        found = []
        for k in range(12):
            row = td.ones(3)
            for i in range(4 + k % 3):
                kind = "int32" if (i + k) % 2 else "int64"
                row = first(td.rows(table, td.asarray((i + k + shift) % 7, kind)), row)
            found.append(row.sum())
        return td.stack(found).sum()

    def trained(autobatch: bool) -> list[Any]:
        table.assign(np.arange(21.0).reshape(7, 3) / 9)
        own = td.optim.Adam(lr=0.1)
        with td.options(autobatch=autobatch):
            return [float(own.step(loss(k))) for k in range(4)] + [table.numpy()]

    for a, b in zip(trained(True), trained(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("cells", [True, False])
def test_what_ran_without_gradients_is_derived_later(
    monkeypatch: pytest.MonkeyPatch, cells: bool
) -> None:
    """Bodies are kept for all, whatever scope the first to need one was in."""
    monkeypatch.setattr(bodies, "_bodies", OrderedDict())
    monkeypatch.setattr(signature, "_templates", OrderedDict())
    net, forest = Net(cells), trees(6, 30)
    with td.no_grad():
        td.evaluate(*net.losses(forest))

    def run() -> list[Any]:
        losses = net.losses(forest)
        td.evaluate(*losses)
        grads = td.grad(sum(losses[:9]), net.parameters, unused="zero")
        return [g.numpy() for g in grads]

    found = both(run)
    assert all(np.any(g) for g in found[0])
    agree(found)


def test_expressions_of_variables_may_have_several_results() -> None:
    draw = np.random.default_rng(2)
    data = draw.normal(size=(40, 3, 3))
    weights = [td.param("w", init=x, dtype="float64") for x in data]

    def run() -> list[Any]:
        loss = td.stack([td.tanh(td.linalg.qr(w)[1]).sum() for w in weights]).sum()
        return [float(loss), *[g.numpy() for g in td.grad(loss, weights)]]

    found = run()
    with td.options(autobatch=False, engine="reference"):
        agree((found, run()))


@pytest.mark.parametrize("first", [False, True])
def test_rows_of_variables_of_their_own_are_derived(first: bool) -> None:
    """Each row reads another Variable, and the value may be read before a gradient."""
    draw = np.random.default_rng(4)
    data = draw.normal(size=(40, 3))
    weights = [td.param("w", init=x, dtype="float64") for x in data]
    cell = td.function(lambda x: (td.sin(x), td.tanh(x)))

    def run() -> list[Any]:
        states = [cell(td.asarray(w)) for w in weights]
        loss = td.stack([(td.exp(a) * b).sum() for a, b in states]).sum()
        read = [float(loss)] if first else []
        return [*read, *[g.numpy() for g in td.grad(loss, weights)]]

    agree(both(run))


def test_a_variable_that_is_not_trained_may_be_derived_by() -> None:
    net = Net()
    shift = td.Variable(np.linspace(-1.0, 1.0, 6))

    def run(first: bool) -> list[Any]:
        leaves = [td.constant(np.full(6, k / 40.0), "float64") for k in range(40)]
        tops = [net.leaf_cell(x * shift)[0] for x in leaves]
        loss = td.stack([(h * h).sum() for h in tops]).sum()
        read = [float(loss)] if first else []
        return [*read, *[g.numpy() for g in td.grad(loss, [shift, net.below])]]

    with td.options(dtype="float64"):
        agree(both(lambda: run(False)))
        agree(both(lambda: run(True)))
