"""Nodes that the collector does not see are freed by counts, or shown to it in time."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.core.twins import needs_core
from treadle.autodiff.tape import TapeGradient
from treadle.batch.columns import columns
from treadle.graph.numbers import number_of
from treadle.graph.op import registry
from treadle.graph.traversal import pending
from treadle.runtime.rows import _looks


@pytest.fixture
def counting() -> Iterator[None]:
    """Without the collector: what is freed is freed by counts alone."""
    (td.ones(2) + td.ones(2)).numpy()  # the engine is there
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def cells() -> Any:
    weight = td.param("weight", init=np.full((4, 2), 0.5, np.float32))

    @td.function
    def join(a: Any, b: Any) -> Any:
        return td.tanh(td.concat([a, b]) @ weight)

    table = td.param("table", init=np.ones((3, 2), np.float32))
    return join, table, weight


@needs_core
def test_the_results_of_a_cell_are_not_seen_either() -> None:
    (td.ones(2) + td.ones(2)).numpy()

    @td.function
    def both(x: Any) -> Any:
        return x * 2, x + 1

    x = td.constant([1.0])
    for _ in range(4):  # as it is traced, and by its plan
        pair = both(x)
        assert type(pair) is tuple and not gc.is_tracked(pair)
        with td.metadata(layer=[]):
            assert gc.is_tracked(both(x))


def forest(join: Any, table: Any) -> list[Any]:
    def tree(deep: int) -> Any:
        if not deep:
            return td.rows(table, deep % 3)
        return join(tree(deep - 1), tree(deep - 1))

    return [tree(4) for _ in range(6)]


@needs_core
def test_closed_nodes_are_not_seen() -> None:
    (td.ones(2) + td.ones(2)).numpy()
    x = td.constant([1.0])
    assert not gc.is_tracked(x + x)
    assert not gc.is_tracked((x + x).inputs)
    with td.metadata(layer="one"):
        assert not gc.is_tracked(x * x)
    with td.metadata(layer=[]):
        assert gc.is_tracked(x * x)
    y = x * x
    y.metadata["later"] = y
    assert gc.is_tracked(y)


def test_ops_that_hold_more_than_data_are_open() -> None:
    for name in ("Version", "Update", "Row", "TapeGradient", "Scan", "Cond"):
        assert not registry[name].closed, name
    for name in ("Add", "Reshape", "Contract", "Embedding", "Output", "Constant"):
        assert registry[name].closed, name


def test_a_graph_is_freed_by_counts(counting: None) -> None:
    join, table, _ = cells()
    refs = [weakref.ref(x) for x in forest(join, table)]
    assert not any(ref() for ref in refs)


@pytest.mark.parametrize("gradient", [False, True])
def test_a_batched_run_is_freed_by_counts(counting: None, gradient: bool) -> None:
    join, table, weight = cells()
    roots = forest(join, table)
    total = td.stack(roots).sum()
    if gradient:
        (g,) = td.grad(total, [weight])
        g.numpy()
        del g
    else:
        total.numpy()
    refs = [weakref.ref(x) for x in (*roots, total, total.inputs[0])]
    del roots, total
    assert not any(ref() for ref in refs)


def test_no_table_keeps_a_batched_run(counting: None) -> None:
    join, table, weight = cells()
    total = td.stack(forest(join, table)).sum()
    (gradient,) = td.grad(total, [weight])
    pulled = [x for x in pending([gradient]) if type(x.op) is TapeGradient]
    rows_of = columns([gradient])
    _looks(rows_of, ())
    for x in pulled:
        number_of(x.op)
    (tape,) = {weakref.ref(x.op.tape) for x in pulled}
    del total, gradient, pulled, rows_of, x
    assert tape() is None


@needs_core
def test_rows_are_seen_when_something_older_refers_to_them() -> None:
    join, table, weight = cells()
    roots = forest(join, table)
    td.stack(roots).sum().numpy()
    rows = [x for x in roots if type(x.op).__name__ == "Row"]
    assert rows and not any(map(gc.is_tracked, rows))
    weight.metadata["later"] = rows
    assert all(map(gc.is_tracked, rows))


def test_a_pending_gradient_of_a_dropped_variable_is_collected() -> None:
    def train() -> Any:
        weight = td.param("weight", init=np.ones((2, 2), np.float32))
        for _ in range(2):
            td.tanh(td.constant([1.0, 2.0]) * weight[0]).sum().backward()
        weight.grad = weight.grad + weight[1].sum()
        return weakref.ref(weight)

    ref = train()
    assert ref() is not None
    gc.collect()
    assert ref() is None


def test_what_is_noted_on_a_node_is_collected() -> None:
    def make() -> Any:
        x = td.constant([1.0])
        y = x + x
        y.metadata["self"] = y
        return weakref.ref(y)

    ref = make()
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("holder", ["variable", "tensor"])
@pytest.mark.parametrize(
    "form", ["plain", "list", "update", "setdefault", "or", "results"]
)
def test_what_reads_a_node_is_noted_on_it_and_collected(holder: str, form: str) -> None:
    (td.ones(2) + td.ones(2)).numpy()

    def make() -> Any:
        v = td.Variable(np.ones(2))
        y = v * 2.0
        later = td.tanh(y + 1.0)
        notes = v.metadata if holder == "variable" else y.metadata
        if form == "plain":
            notes["later"] = later
        elif form == "list":
            notes["later"] = {"some": [later]}
        elif form == "update":
            notes.update(later=later)
        elif form == "setdefault":
            notes.setdefault("later", later)
        elif form == "results":
            notes["later"] = td.function(lambda x: (x, x * 2))(later)
        else:
            notes |= {"later": later}
        return weakref.ref(v), weakref.ref(later)

    refs = make()
    gc.collect()
    assert not any(ref() for ref in refs)
