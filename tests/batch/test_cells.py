"""Cells that nobody has written as functions: found, and rows of one body each."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from tests.batch.nets import WIDTH, Net, Tree, trees
from tests.batch.test_batching import agree, both, value_and_gradients
from tests.core.twins import in_python
from treadle.batch import grow, members
from treadle.batch.grow import (
    ENDS,
    LEAF,
    LONE,
    MOVES,
    NODES,
    PART,
    PRODUCT,
    RESULT,
    SHARED,
    grown,
)
from treadle.batch.members import CellGraph, members_of
from treadle.runtime.rows import counts

F = td.nn.functional

# Nodes as (what it is, what it reads), and the cell of each.
GRAPHS: dict[str, tuple[list[tuple[int, list[int]]], list[int]]] = {
    "what follows a product is a cell": (
        [(LEAF, []), (SHARED, []), (PRODUCT, [0, 1]), (PART, [2]), (PART, [3, 2])],
        [-1, -1, 2, 2, 2],
    ),
    "another product is another cell": (
        [(LEAF, []), (PRODUCT, [0]), (PART, [1]), (PRODUCT, [2]), (PART, [3])],
        [-1, 1, 1, 3, 3],
    ),
    "what two cells make is a cell; what it waits for anyway can be read": (
        [
            *[(LEAF, []), (PRODUCT, [0]), (PART, [1]), (PRODUCT, [0]), (PART, [3])],
            *[(MOVES, [2, 4]), (PRODUCT, [5]), (PART, [6]), (PART, [7, 2])],
        ],
        [-1, 1, 1, 3, 3, 5, 5, 5, 5],
    ),
    "a product joins none that computes, but may take it over": (
        [
            *[(LEAF, []), (PRODUCT, [0]), (PART, [1]), (PRODUCT, [0]), (PART, [3])],
            *[(PART, [2, 4]), (PRODUCT, [5]), (PART, [6, 2]), (PART, [1, 3])],
        ],
        [-1, 1, 1, 3, 3, 6, 6, 6, -1],
    ),
    "a sum of two cells is in neither": (
        [
            *[(LEAF, []), (PRODUCT, [0]), (PART, [1]), (PRODUCT, [0]), (PART, [3])],
            *[(PART, [2, 4]), (PRODUCT, [2]), (PART, [6]), (PRODUCT, [4])],
        ],
        [-1, 1, 1, 3, 3, -1, 6, 6, -1],
    ),
    "a product read by one sum alone is part of that, the deepest one": (
        [
            *[(LEAF, []), (PRODUCT, [0]), (PRODUCT, [0]), (PART, [2])],
            *[(PRODUCT, [3]), (PART, [1, 4]), (PART, [5])],
        ],
        [-1, -1, 2, 2, 5, 5, 5],
    ),
    "the one with the most products before it, not the one behind a look-up": (
        [
            *[(LEAF, []), (PART, [0]), (PRODUCT, [1]), (PART, [2])],
            *[(PRODUCT, [0]), (PART, [3, 4]), (PART, [5])],
        ],
        [-1, -1, 2, 2, 5, 5, 5],
    ),
    "what reads leaves alone begins none": (
        [(LEAF, []), (PART, [0]), (PART, [1]), (PRODUCT, [2]), (PART, [3])],
        [-1, -1, -1, 3, 3],
    ),
    "results belong to what has several": (
        [(LEAF, []), (PRODUCT, [0]), (PART, [1]), (RESULT, [2]), (LONE, [3])],
        [-1, 1, 1, 1, -1],
    ),
    "what somebody may derive by is not read in its cell": (
        [
            *[(LEAF, []), (PRODUCT, [0]), (PART + ENDS, [1]), (PART, [2])],
            *[(PART, [3]), (PRODUCT, [0]), (PART + ENDS, [5])],
        ],
        [-1, 1, 1, 3, 3, 5, 5],
    ),
    "nor is a result of it": (
        [
            *[(LEAF, []), (PRODUCT, [0]), (PART, [1]), (RESULT, [2])],
            *[(RESULT + ENDS, [2]), (PART, [3]), (PART, [4])],
        ],
        [-1, 1, 1, 1, 1, 1, -1],
    ),
    "a cell is no part of the only one that reads it if that may be derived by": (
        [
            *[(LEAF, []), (PRODUCT, [0]), (PART + ENDS, [1]), (PART, [0])],
            *[(MOVES, [2, 3]), (PART, [4])],
        ],
        [-1, 1, 1, -1, 4, 4],
    ),
    "what is added is no part of a total, or one would wait for the other": (
        [
            *[(LEAF, []), (PRODUCT, [0]), (PART, [1]), (PART, [2, 0])],
            *[(PRODUCT, [0]), (PART, [4]), (PART, [5, 3])],
            *[(PRODUCT, [0]), (PART, [7]), (PART, [8, 6])],
        ],
        [-1, 1, 1, 1, 4, 4, 9, 7, 7, 9],
    ),
    "nothing made later is read": (
        [
            *[(LEAF, []), (PRODUCT, [0]), (PRODUCT, [1]), (PART, [1])],
            *[(PART, [2, 3]), (PART, [2, 1])],
        ],
        [-1, 1, 4, 1, 4, 4],
    ),
}


def columns(graph: list[tuple[int, list[int]]]) -> tuple[Any, Any, Any]:
    starts = np.cumsum([0, *(len(read) for _, read in graph)])
    operands = np.array([x for _, read in graph for x in read], np.int64)
    return starts, operands, np.array([role for role, _ in graph], np.int64)


@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_a_cell(name: str) -> None:
    graph, want = GRAPHS[name]
    assert grown(*columns(graph)).tolist() == want
    with in_python(grow):
        assert grown(*columns(graph)).tolist() == want


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, list[int]]]:
    roles = st.sampled_from(
        [SHARED, LEAF, LONE, RESULT, MOVES, MOVES, *[PART] * 5, *[PRODUCT] * 3]
    )
    span = draw(st.integers(1, 12))
    made: list[tuple[int, list[int]]] = [(LEAF, [])]
    for k, role in enumerate(draw(st.lists(roles, max_size=60)), 1):
        few = 0 if role in (SHARED, LEAF) else 1
        ends = ENDS if role >= RESULT and draw(st.integers(0, 7)) == 0 else 0
        most = few if role == RESULT else 12 * few
        back = draw(st.lists(st.integers(1, span), min_size=few, max_size=most))
        made.append((role + ends, [max(k - x, 0) for x in back]))
    return made


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_python_finds_the_same_cells(graph: list[tuple[int, list[int]]]) -> None:
    own = grown(*columns(graph))
    with in_python(grow):
        read = grown(*columns(graph))
    assert own.tolist() == read.tolist()
    # No cell waits for itself: in the order of what they go by, all is there.
    for k, (_, operands) in enumerate(graph):
        for x in operands:
            if graph[x][0] not in (SHARED, LEAF):
                mine, other = [own[i] if own[i] >= 0 else i for i in (k, x)]
                assert other <= mine


@settings(max_examples=200, deadline=None)
@given(graphs(), st.integers(0, 2**32))
def test_python_finds_the_same_kinds(
    graph: list[tuple[int, list[int]]], seed: int
) -> None:
    draw, count = np.random.default_rng(seed), len(graph)
    starts, operands, roles = columns(graph)
    shares = np.where(roles == SHARED, draw.integers(0, 3, count), -1)
    codes, types = draw.integers(0, 2, (2, count))
    read = np.bincount(operands, minlength=count)
    held = read + draw.integers(0, 2, count)
    given = CellGraph(starts, operands, roles, shares, codes, types, held)
    found = members_of(given)
    with in_python(grow, members):
        own = members_of(given)
    for name in ("began", "starts", "nodes", "opens", "rows", "kinds", "seen"):
        assert getattr(own, name).tolist() == getattr(found, name).tolist(), name


def test_cells_are_alike_word_for_word() -> None:
    same = [(PRODUCT, [0, 1]), (PART, [2]), (PART, [3, 2])]
    turned = [(PRODUCT, [0, 1]), (PART, [5]), (PART, [5, 6])]
    again = [(PRODUCT, [0, 1]), (PART, [8]), (PART, [9, 8])]
    graph = [(LEAF, []), (SHARED, []), *same, *turned, *again]
    starts, operands, roles = columns(graph)
    count = len(graph)
    shares = np.where(roles == SHARED, 0, -1)
    zeros = np.zeros(count, np.int64)
    given = CellGraph(starts, operands, roles, shares, zeros, zeros, zeros)
    with in_python(grow, members):
        python = members_of(given)
    for found in (python, members_of(given)):
        assert found.kinds.tolist() == [0, 1, 0]
        assert found.read(np.array([0, 2])).tolist() == [[0], [0]]
        assert found.opens.tolist() == [0, 1, 2, 3]
        assert found.inside(np.array([0, 2])).tolist() == [[2, 3, 4], [8, 9, 10]]
        assert found.seen.tolist() == [k in (0, 1, 4, 7, 10) for k in range(count)]


def test_rows_that_are_one_in_some_cells() -> None:
    """The first step of a sequence may read one state twice, the others do not."""
    step, weights = recurrent("skipped")
    draw = np.random.default_rng(4)
    zero = td.zeros(WIDTH, dtype="float64")
    words = [draw.normal(size=(int(n), WIDTH)) for n in draw.integers(2, 9, 16)]

    def run() -> list[Any]:
        losses = []
        for sequence in words:
            h, c = zero, zero
            for x in sequence:
                h, c = step(h, td.asarray(x)) * c + td.asarray(x), h
            losses.append((h * c).sum())
        grads = td.grad(td.stack(losses).mean(), weights)
        return [g.numpy() for g in grads]

    agree(both(run))


def test_a_long_chain_is_cut() -> None:
    graph = [(LEAF, []), (PRODUCT, [0]), *[(PART, [k]) for k in range(1, 3 * NODES)]]
    found = grown(*columns(graph))
    with in_python(grow):
        assert found.tolist() == grown(*columns(graph)).tolist()
    assert np.bincount(found[1:]).max() == NODES


TOTALS: dict[str, Any] = {
    "sum": sum,
    "stack": lambda losses: td.stack(list(losses)).sum(),
    "loop": lambda losses: functools.reduce(lambda total, x: total + x, losses, 0.0),
    "other way": lambda losses: functools.reduce(lambda y, x: x + y, losses, 0.0),
}


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("once", [True, False])
def test_all_that_is_added_up_is_of_one_kind(total: str, once: bool) -> None:
    draw = np.random.default_rng(2)
    step, weights = recurrent("sum")
    words = [td.asarray(draw.normal(size=(1, WIDTH))) for _ in range(24)]

    def loss(sequence: list[Any]) -> Any:  # computed while they are added up, or before
        h = td.zeros((1, WIDTH), dtype="float64")
        for x in sequence:
            h = step(h, x)
        return (h * h).sum()

    before = counts.rows, counts.groups
    y = TOTALS[total](loss(words[3 * k : 3 * k + 3]) for k in range(8))
    if once:
        td.optim.SGD(weights, lr=0.1).step(y)
    else:
        td.evaluate(td.grad(y, weights))
    rows, groups = counts.rows - before[0], counts.groups - before[1]
    chain = 8 if once and total != "stack" else 0  # of the total itself
    assert groups - chain <= 8 < 3 * 8 <= rows - chain


def rows_of(net: Net, forest: list[Tree]) -> tuple[int, int]:
    before = counts.rows, counts.groups
    value_and_gradients(net, forest)
    return counts.rows - before[0], counts.groups - before[1]


def test_op_by_op_trees_have_a_unit_for_each_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("treadle.runtime.rows.MOST", 1 << 60)  # equal ones are left
    forest = trees(5, 24)
    (rows, groups), (cells, deep) = [rows_of(Net(own), forest) for own in (False, True)]
    assert cells <= rows <= 1.5 * cells  # look-ups are units of their own
    assert groups <= deep + 4


def test_held_and_read_inside_a_cell() -> None:
    net, forest = Net(False), trees(6, 20)
    kept: list[Any] = []

    def inner(h1: Any, c1: Any, h2: Any, c2: Any) -> tuple[Any, Any]:
        gates = td.concat([h1, h2]) @ net.inner + net.bias
        i, f, g, o, u = td.split(gates, 5)
        c = td.sigmoid(i) * td.tanh(u) + td.sigmoid(f) * c1 + td.sigmoid(g) * c2
        kept.append((gates, td.sigmoid(o)))
        return kept[-1][1] * td.tanh(c), c

    net.inner_cell = inner

    def run() -> list[Any]:
        kept.clear()
        found = value_and_gradients(net, forest)
        return found + [x.numpy() for pair in kept for x in pair]

    agree(both(run))


def test_a_cell_that_is_no_row_begins_with_a_join() -> None:
    net = Net(False)

    def run() -> list[Any]:
        logits = net.encode((0, ((1, (2, (3, 4))), 5)))[0] @ net.top
        gradients = td.grad(F.cross_entropy(logits, 1), net.parameters, unused="zero")
        return [g.numpy() for g in gradients]

    agree(both(run))


@pytest.mark.parametrize("once", [True, False])
def test_what_is_held_is_derived_by_after_the_value_was_read(once: bool) -> None:
    """All that reads it counts, also what would be in its cell."""
    net, forest = Net(False), trees(8, 20, 4)
    inside = net.keep()

    def run() -> list[Any]:
        inside.clear()
        loss = td.stack(net.losses(forest)).sum()
        value = float(loss)
        asked = inside[:1] if once else inside
        return [value, *[g.numpy() for g in td.grad(loss, asked, unused="zero")]]

    agree(both(run))


def test_derived_by_what_is_inside_of_cells() -> None:
    net, forest = Net(False), trees(7, 20, 4)

    def run() -> list[Any]:
        states = [net.encode(t) for t in forest]
        loss = td.stack([(h @ net.top).sum() for h, _ in states]).sum()
        grads = td.grad(loss, [c for _, c in states] + net.parameters, unused="zero")
        return [g.numpy() for g in grads]

    with td.options(autobatch=False):
        want = run()
    agree((run(), want))


def recurrent(kind: str, width: int = WIDTH) -> Any:
    """A step of a recurrent network, op by op, of its state and an input."""
    draw = np.random.default_rng(8)

    def param(*shape: int) -> td.Parameter:
        return td.param("w", init=draw.normal(size=shape) / 3, dtype="float64")

    w, u, b = param(width, width), param(width, width), param(width)
    steps = {
        "sum": lambda h, x: td.tanh(x @ w + h @ u + b),
        "turned sum": lambda h, x: td.tanh(h @ u + x @ w + b),
        "joined": lambda h, x: td.tanh(td.concat([x, h]) @ td.concat([w, u]) + b),
        "state alone": lambda h, x: td.tanh(h @ u + x),
        "normalized": lambda h, x: F.layer_norm(td.relu(h @ u + x @ w), width),
        "skipped": lambda h, x: h + td.sigmoid(h @ u + b) * td.tanh(x @ w),
    }
    return steps[kind], [w, u, b]


KINDS = ("sum", "turned sum", "joined", "state alone", "normalized", "skipped")


@pytest.mark.parametrize("kind", KINDS)
def test_sequences_op_by_op(kind: str) -> None:
    step, weights = recurrent(kind)
    draw = np.random.default_rng(9)
    words = [draw.normal(size=(int(n), WIDTH)) for n in draw.integers(1, 9, 24)]

    def run() -> list[Any]:
        losses = []
        for sequence in words:
            h = td.zeros(WIDTH, dtype="float64")
            for x in sequence:
                h = step(h, td.asarray(x))
            losses.append((h * h).sum())
        loss = td.stack(losses).mean()
        grads = td.grad(loss, weights, unused="zero")
        return [float(loss), *[g.numpy() for g in grads]]

    agree(both(run))
