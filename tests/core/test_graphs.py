"""The core reads the same of a graph as Python does, and leaves the same."""

from __future__ import annotations

import copy
import sys
import threading
import weakref
from dataclasses import fields
from functools import partial
from operator import is_
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from tests.core.twins import in_python, needs_core
from treadle.autodiff.tape import spent_by
from treadle.batch import columns as fields_of
from treadle.batch.columns import Columns, columns
from treadle.core import native
from treadle.engines.native.execution import tables
from treadle.graph import references, tensor, traversal
from treadle.graph.claim import InPlace
from treadle.graph.resident import Future, Runs
from treadle.graph.tensor import Tensor, forget, leave


def _first(numbers: Any) -> Any:
    """Where each number comes first."""
    _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
    return first[which]


def assert_same(roots: list[Tensor]) -> Columns:
    with in_python(fields_of):
        python = columns(roots)
    machine = columns(roots)
    assert len(python.nodes) == len(machine.nodes)
    pairs = zip(python.nodes, machine.nodes, strict=True)
    assert all(x is y for x, y in pairs)
    for field in fields(Columns):
        if field.name in ("nodes", "references", "count"):
            continue
        a, b = getattr(python, field.name), getattr(machine, field.name)
        if field.name in ("ops", "kinds", "types"):  # numbered in another order
            assert max(a.max(), b.max()) < max(python.count, machine.count)
            a, b = _first(a), _first(b)
        assert a.dtype == b.dtype, field.name
        np.testing.assert_array_equal(a, b, field.name)
    # The second reader finds each node in the list of the first one, too.
    np.testing.assert_array_equal(python.references + 1, machine.references)
    return machine


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=60))
def test_random_graphs(edges: list[tuple[int, int]]) -> None:
    nodes: list[Any] = [
        td.constant(1.0),
        td.constant([2.0, 3.0]),
        td.split(td.ones(4), 2)[0],
    ]
    for a, b in edges:
        nodes.append(nodes[a % len(nodes)] * nodes[b % len(nodes)])
        if a == b:
            nodes[-1].numpy()  # evaluated: nothing below it is visited
    assert_same(nodes[-3:])
    assert_same([nodes[0], nodes[0]])


@needs_core
@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=60),
    st.booleans(),
)
def test_walks_find_the_same_nodes(edges: list[tuple[int, int]], derive: bool) -> None:
    x = td.param("x", init=1.0)
    nodes: list[Any] = [x.node(), td.constant([2.0, 3.0])]
    for a, b in edges:
        nodes.append(nodes[a % len(nodes)] * nodes[b % len(nodes)])
        if a == b:
            nodes[-1].numpy()  # evaluated, and yet to be derived
    roots = nodes[-3:]
    if derive:
        roots = [*roots, *td.grad(nodes[-1].sum(), [x], unused="zero")]
    found = []
    for modules in ([traversal], []):  # Python's walk, and the core's
        with in_python(*modules):
            found.append((traversal.pending(roots), traversal.reach(roots)))
    for python, machine in zip(*found, strict=True):
        assert [n.serial for n in python] == [n.serial for n in machine]
        assert all(map(is_, python, machine))


def test_a_large_graph_after_a_small_one_and_before_it() -> None:
    x = td.constant(1.0)
    found = [x]
    for _ in range(12_000):
        found.append(found[-1] + x)
    wide = td.concat([td.reshape(y, (1,)) for y in found])
    assert_same([x + x])
    assert len(assert_same([wide]).nodes) > 24_000
    assert_same([x + x])  # the table is empty again


def test_threads_walk_at_once() -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                x = td.constant(1.0)
                for _ in range(200):
                    x = x * x + x
                assert_same([x])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_what_a_walk_is_given() -> None:
    if native is None:
        pytest.skip("the core was not built")
    for wrong in ([1], [None], [td.constant(1.0), "x"]):
        columns, walk = partial(native.columns, wrong, 0, set()), native.walk
        for look in (columns, partial(walk, wrong, False)):
            with pytest.raises(TypeError):
                look()
    assert native.walk([], True) == []


@pytest.mark.parametrize("core", [False, True])
def test_nodes_are_forgotten_the_last_one_first(core: bool) -> None:
    x = td.constant(1.0)
    order: list[int] = []
    nodes = [x * float(k) for k in range(40)]
    kept = nodes[3]
    for k, node in enumerate(nodes):
        weakref.finalize(node, order.append, k)
    del node
    with in_python(*[] if core else [tensor]):
        forget(nodes)
    assert nodes == [] and order == [k for k in range(39, -1, -1) if k != 3]
    assert kept.inputs


def test_a_finalizer_adds_to_what_is_forgotten() -> None:
    nodes: list[Any] = [td.constant(float(k)) * 2.0 for k in range(20)]
    weakref.finalize(nodes[10], lambda: nodes.extend([td.ones(1), td.ones(2)]))
    weakref.finalize(nodes[5], nodes.clear)
    forget(nodes)
    assert nodes == []


def test_where_arrays_lie() -> None:
    arrays = [np.ones(3)[1:], np.zeros(0), np.ones((2, 2)).T]
    want = [x.ctypes.data for x in arrays]
    assert tables.addresses_of(arrays).tolist() == want
    with in_python(tables):
        assert tables.addresses_of(tuple(arrays)).tolist() == want


@needs_core
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("core", [False, True])
def test_nodes_are_left_with_what_a_run_writes(core: bool, late: bool) -> None:
    x = td.constant(np.ones(2))
    nodes = [td.exp(x), td.sin(x) * x, td.exp(x)]
    nodes[1].mark = {"program": 1, "other": 2}
    arrays = [np.full(2, k, np.float32) for k in range(3)]
    spent = spent_by()
    counts, runs = sys.getrefcount(spent), Runs()
    with in_python(*[] if core else [tensor]):
        leave(nodes, arrays, spent, runs if late else None)
    for k in range(3):  # no pair refers to an array
        node, array = nodes[k], arrays[k]
        assert node.op is spent and node.inputs == () and node.array is array
        assert sys.getrefcount(array) == 4  # with the list, the value and the call
        if late:
            value = node.stored
            assert type(value) is Future and value.run is runs
            assert value.type is node.type and value.before is None
            assert sys.getrefcount(value) == 3
    assert [node.mark for node in nodes] == [None, {"other": 2}, None]
    assert sys.getrefcount(spent) == counts + 3


# What somebody holds of a Variable, and whether it may be written over all the same.
HOLD = {
    "nothing": (lambda v: None, True),
    "the version": (lambda v: v.committed, False),
    "an expression": (lambda v: v * 2, False),
    "the value": (lambda v: v.committed.stored, False),
    "the array": (lambda v: v.numpy(), False),
    "a part": (lambda v: v.numpy()[1:], False),
    "a part of a part": (lambda v: v.numpy().T[1:][:, 1], False),
    "a buffer": (lambda v: memoryview(v.numpy()), False),
    "a copy": (copy.deepcopy, False),
    "another value": (lambda v: v.assign(v * 2).numpy(), False),
}


@pytest.mark.parametrize(("hold", "alone"), HOLD.values(), ids=list(HOLD))
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("core", [False, True])
def test_who_looks_at_variables(core: bool, which: int, hold: Any, alone: bool) -> None:
    variables = tuple([td.Variable(np.arange(6.0).reshape(2, 3)) for _ in range(3)])
    versions = [v.committed for v in variables]
    arrays: list[Any] = [x.array for x in versions]
    together = InPlace(variables, versions, arrays)
    for version, value in zip(versions, together.futures, strict=True):
        version.stored = value
    del versions, version, value, arrays
    kept = hold(variables[which])
    counts = np.zeros(3, np.int64)

    def asked() -> bool:
        told = counts.tobytes()
        return references.in_place(together.before, together.futures, told)

    with in_python(*[] if core else [references]):
        assert together.take_if(asked) is alone
    if alone:
        together.finish()
    del kept
