"""Looking through a graph: nodes, counts, stages, selections."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td


def ops(nodes: list[td.Tensor]) -> list[str]:
    return [node.op.name for node in nodes]


def test_nodes_run_from_leaves_to_results_and_back() -> None:
    x = td.param("x", init=2.0)
    z = td.sin(x) * x
    assert ops(td.nodes(z)) == ["parameter", "Sin", "Multiply"]
    assert ops(td.nodes(z, order="backward")) == ["Multiply", "Sin", "parameter"]
    with pytest.raises(td.ArgumentError, match="forward"):
        td.nodes(z, order="sideways")


def test_statistics_count_a_shared_node_once() -> None:
    x = td.param("x", shape=(2, 3))
    y = td.sin(x)
    found = td.stats([y * y, y])
    assert (found.nodes, found.edges, found.bytes) == (3, 3, 72)
    assert found.ops == {"Multiply": 1, "Sin": 1, "parameter": 1}
    assert str(found).startswith("3 nodes, 3 edges, 72 bytes")


def test_a_node_stands_after_its_longest_path() -> None:
    x = td.param("x", init=1.0)
    z = td.sin(td.sin(x)) + x
    assert [ops(stage) for stage in td.stages(z)] == [
        ["parameter"],
        ["Sin"],
        ["Sin"],
        ["Add"],
    ]


def test_selection_by_name_op_and_metadata() -> None:
    x = td.param("x", init=1.0)
    with td.metadata(layer=1):
        a = td.sin(x)
    b = td.sin(a)
    b.name = "second"
    assert [id(n) for n in td.select(b, op="Sin")] == [id(a), id(b)]
    assert [n is b for n in td.select(b, name="second")] == [True]
    assert [n is a for n in td.select(b, layer=1)] == [True]
    assert td.select(b, op="Sin", layer=2) == []


def test_parameters_and_placeholders() -> None:
    w = td.param("w", init=1.0)
    fixed = td.param("fixed", init=1.0, trainable=False)
    wide = td.param("wide", init=1.0, dtype="float64")
    p = td.placeholder(name="p")
    y = w * fixed + p + td.astype(wide, "float32")
    assert [v.name for v in td.parameters(y)] == ["w", "wide"]
    assert [v.name for v in td.placeholders(y)] == ["p"]
    assert [v.name for v in td.variables(y)] == ["w", "fixed", "wide"]
    groups = td.parameters(y, by_dtype=True)
    assert {k.name: [v.name for v in vs] for k, vs in groups.items()} == {
        "float32": ["w"],
        "float64": ["wide"],
    }


def test_what_an_assignment_reads_and_what_a_gradient_reads_is_found() -> None:
    w, b = td.param("w", init=1.0), td.param("b", init=0.0)
    loss = (w * 2.0 + b) ** 2
    assert [v.name for v in td.variables(td.grad(loss, [w]))] == ["w", "b"]
    count = td.Variable(0.0, name="count")
    found = td.variables(count.assign(count + w))
    assert {v.name for v in found} == {"count", "w"}


def test_what_a_call_reads_is_found() -> None:
    w = td.param("w", init=1.0)

    @td.function
    def scaled(x: td.Tensor) -> td.Tensor:
        return x * w

    y = scaled(td.ones((2,)))
    assert [v.name for v in td.parameters(y)] == ["w"]


def test_looking_changes_nothing() -> None:
    x = td.param("x", shape=(3,), init=np.ones(3, np.float32))
    y = (x * 2.0).sum()
    td.stats(y), td.nodes(y), td.text(y), td.to_dot(y), td.verify(y), repr(y)
    assert y.stored is None and all(n.stored is None for n in td.nodes(y) if n.inputs)
