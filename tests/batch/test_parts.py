"""Rows of values, expressions of Variables, and symbolic numbers of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, trees
from tests.batch.test_batching import agree, both, value_and_gradients
from treadle.base.buckets import size_bucket, steps_of
from treadle.engines.native.forest import parts
from treadle.runtime.rows import counts

LENGTHS = (3, 9, 14, 20) * 3


def sequences(dtype: str = "float64") -> list[Any]:
    """Sequences of unequal length, of width 6."""
    made = [np.sin(np.arange(6.0 * n)).reshape(n, 6) for n in LENGTHS]
    return [td.constant(x, dtype) for x in made]


READ = {
    "unstack": td.unstack,
    "index": lambda x: [x[k] for k in range(len(x))],
    "from the end": lambda x: [x[-k - 1] for k in range(len(x))],
    "lookup": lambda x: [td.rows(x, k) for k in range(len(x))],
    "slice and index": lambda x: [x[k:][0] for k in range(len(x))],
    "two at a time": lambda x: [x[k : k + 2].sum(0) for k in range(0, len(x) - 1, 2)],
    "reshaped": lambda x: [y.reshape((6,)) for y in td.split(x, len(x))],
    "columns": lambda x: [x.T[:, k] for k in range(len(x))],
}


@pytest.mark.parametrize("how", READ)
def test_gradients_by_what_rows_are_part_of(how: str) -> None:
    net = Net()

    def run() -> list[Any]:
        xs = sequences()
        states = []
        for x in xs:
            h, c = net.leaf_cell(td.zeros(6, "float64"))
            for step in READ[how](x):
                h, c = net.inner_cell(step, c, h, c)
            states.append(h)
        loss = td.stack([(h * h).sum() for h in states]).sum()
        grads = td.grad(loss, [net.below, net.inner, *xs])
        return [float(loss), *[g.numpy() for g in grads]]

    agree(both(run))


def test_parts_of_sequences_are_few_groups() -> None:
    net, before = Net(), counts.groups
    states = []
    for x in sequences():
        h, c = net.leaf_cell(td.zeros(6, "float64"))
        for step in td.unstack(x):
            h, c = net.inner_cell(step, c, h, c)
        states.append(h)
    td.stack(states).sum().numpy()
    assert counts.groups - before <= max(LENGTHS) + 2


def test_a_row_that_a_derivative_is_asked_for() -> None:
    net = Net()

    def run() -> list[Any]:
        xs = sequences()
        rows = [row for x in xs for row in td.unstack(x)]
        tops = [net.leaf_cell(row)[0] for row in rows]
        loss = td.stack([(h * h).sum() for h in tops]).sum()
        return [g.numpy() for g in td.grad(loss, [rows[4], xs[0], rows[-1]])]

    agree(both(run))


def test_rows_that_others_read_too() -> None:
    net = Net()

    def run() -> list[Any]:
        xs = sequences()
        rows = [row for x in xs for row in td.unstack(x)]
        tops = [net.leaf_cell(row)[0] + row for row in rows]
        loss = td.stack([(h * h).sum() for h in tops]).sum() + (rows[2] ** 2).sum()
        grads = td.grad(loss, [net.below, *xs])
        return [float(loss), rows[5].numpy(), *[g.numpy() for g in grads]]

    agree(both(run))


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_parts_of_integers_and_of_small_arrays(dtype: str) -> None:
    table = td.param("table", init=np.arange(12.0).reshape(4, 3), dtype="float64")
    ids = td.constant(np.arange(60) % 4, dtype)

    def run() -> list[Any]:
        rows = [td.exp(td.rows(table, ids[k].astype("int64")) / 9.0) for k in range(60)]
        loss = td.stack(rows).sum()
        return [float(loss), td.grad(loss, [table])[0].numpy()]

    agree(both(run))


def test_expressions_of_variables_are_computed_once() -> None:
    draw = np.random.default_rng(0)
    w = td.param("w", init=draw.normal(size=(5, 6)), dtype="float64")
    mask = td.constant(draw.normal(size=(5, 6)) > 0)

    def run() -> list[Any]:
        rows = [td.constant(np.cos(np.arange(6.0) + k), "float64") for k in range(50)]
        outs = []
        for x in rows:
            h = x @ w.T + td.exp(w).sum(1)
            outs.append(td.tanh(h * w[1, 2]) + td.where(mask, w, 0.0) @ x)
        loss = td.stack(outs).sum()
        grads = td.grad(loss, [w, rows[3]])
        return [float(loss), *[g.numpy() for g in grads]]

    agree(both(run))


def test_a_derivative_by_an_expression_of_variables_goes_node_by_node() -> None:
    w = td.param("w", init=np.arange(30.0).reshape(5, 6) / 30, dtype="float64")

    def run() -> list[Any]:
        turned = w.T
        rows = [td.constant(np.cos(np.arange(6.0) + k), "float64") for k in range(50)]
        loss = td.stack([td.tanh(x @ turned) for x in rows]).sum()
        return [g.numpy() for g in td.grad(loss, [turned, w])]

    found = run()
    with td.options(autobatch=False, engine="reference"):
        agree((found, run()))


# -- numbers of rows -------------------------------------------------------------------


def cell_rows() -> parts.RowKernels:
    """The forward pass of a cell by numbers of rows."""
    net = Net(dtype="float32")
    with td.options(engine="native"):  # of which the numbers are looked at
        x = [td.constant(np.ones(6, "float32")) for _ in range(40)]
        td.stack([net.inner_cell(a, a, a, a)[0] for a in x]).sum().numpy()
    return next(reversed(parts.native_bodies.known.values()))


def filled(rows: Any, n: int) -> tuple[Any, Any]:
    steps, numbers = rows.filled(n)
    return steps.like(n), numbers


def test_a_symbolic_number_of_rows_gives_what_compiling_for_it_gives() -> None:
    rows = cell_rows()
    assert not rows.variants.failed and len(rows.variants.all) == 1
    for n in (33, 64, 90, 254, 17, 16, 8, 5, 2, 1000):
        (like, ours), made = filled(rows, n), parts._Alone(rows.make(n))
        alone, theirs = made.like(n), made.numbers
        assert np.array_equal(ours, theirs) and like.ends == alone.ends, n
        assert like.arena >= alone.arena
    assert not rows.variants.failed and len(rows.variants.all) < 6


def test_numbers_of_rows_at_once_are_those_one_by_one() -> None:
    rows = cell_rows()
    counts = np.array([40, 3, 1, 40, 100, 3])
    assert len(list(rows.alike(counts[counts > 1]))) <= len(rows.variants.all)
    seen = []
    for like, numbers, which in rows.alike(counts):
        own = np.arange(len(counts))[which]
        seen += own.tolist()
        for k, found in zip(own.tolist(), numbers, strict=True):
            alone = filled(rows, int(counts[k]))
            assert like.arena >= alone[0].arena
            assert np.array_equal(found, alone[1])
    assert sorted(seen) == list(range(len(counts)))


def test_row_counts_never_seen_compile_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = Net(dtype="float32")

    numbers = np.linspace(-1.0, 1.0, 6, dtype="float32")
    scaled = td.function(lambda x: td.tanh(x * 0.37 + numbers))

    def run(n: int) -> None:
        x = [td.constant(np.full(6, k, "float32")) for k in range(n)]
        loss = td.stack([net.leaf_cell(scaled(a))[0] for a in x]).sum()
        td.grad(loss, [net.below])[0].numpy()
        wanted = np.tanh(np.float32(n - 1) * np.float32(0.37) + numbers)
        np.testing.assert_allclose(scaled(x[-1]).numpy(), wanted, rtol=1e-5)

    run(200)
    run(100)  # its sums over rows are of another number
    before = td.cache_info().kernels
    monkeypatch.setattr(parts, "TranslatedBody", None)
    for n in (97, 99, 193, 195):
        run(n)
    assert td.cache_info().kernels == before


def test_there_is_room_for_few_numbers() -> None:
    numbers = {size_bucket(n) for n in range(1, 5000)}
    assert len(numbers) < 160
    assert all(n <= size_bucket(n) <= n + n // 16 + 1 for n in range(1, 5000))
    assert all(size_bucket(n) % steps_of(n) == 0 for n in range(1, 5000))


@pytest.mark.parametrize("cells", [True, False])
def test_trees_of_other_forms_are_of_known_families(cells: bool) -> None:
    net, families = Net(cells), parts.native_bodies.families
    large = max(trees(0, 9), key=lambda x: len(repr(x)))  # kinds come as they do in it
    first, *others = [[large, *trees(seed, 5)] for seed in range(4)]
    value_and_gradients(net, first)
    before, known = len(families), [value_and_gradients(net, x) for x in others]
    assert len(families) == before > 0
    td.clear_cache()
    assert not families
    for forest, expected in zip(reversed(others), reversed(known), strict=True):
        for x, y in zip(value_and_gradients(net, forest), expected, strict=True):
            np.testing.assert_array_equal(x, y)
