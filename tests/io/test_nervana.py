"""Graphs of Nervana Graph: what is written is read, by the published schema alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.io.hostile_nervana import SIMPLE
from treadle import nn
from treadle.io.nervana.ops import BINARY, REDUCTIONS, UNARY
from treadle.io.nervana.schema import GRAPH
from treadle.io.protobuf import decode

RNG = np.random.default_rng(0)


def placed(*shape: int, name: str = "x", axes: Any = None) -> Any:
    return td.placeholder(shape, name=name, axes=axes)


def around(path: Path, f: Callable[[Any], Any], x: Any, low: float = -2.0) -> None:
    """What a function of x gives is what its file gives."""
    value = RNG.uniform(low, 2.0, x.shape).astype(np.float32)
    made = td.computation({"y": f(x)}, x)
    td.io.save_nervana(path, made)
    loaded = td.io.load_nervana(path)
    want, got = made(value)["y"], loaded(value)["y"]
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want.astype(got.dtype), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", UNARY)
def test_unary_ops(tmp_path: Path, name: str) -> None:
    own = {"StopGradient": "stop_gradient"}.get(name, name.lower())
    around(tmp_path / "g.pb", getattr(td, own), placed(2, 3), low=0.1)


@pytest.mark.parametrize("name", BINARY)
def test_binary_ops_spread_their_operands(tmp_path: Path, name: str) -> None:
    words = {"FloorDivide": "floor_divide", "NotEqual": "not_equal"}
    words |= {"GreaterEqual": "greater_equal", "LessEqual": "less_equal"}
    f = getattr(td, words.get(name, name.lower()))
    row = RNG.uniform(0.5, 2.0, (3,)).astype(np.float32)
    column = row[:2, None]
    around(tmp_path / "a.pb", lambda x: f(x, row), placed(2, 3), low=0.1)
    around(tmp_path / "b.pb", lambda x: f(column, x), placed(2, 3), low=0.1)
    around(tmp_path / "c.pb", lambda x: f(x, td.asarray(column)), placed(3), low=0.1)
    around(tmp_path / "d.pb", lambda x: f(x, x), placed(4, 1, 3), low=0.1)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [False, True])
def test_folds(tmp_path: Path, name: str, keepdims: bool) -> None:
    f = getattr(td, name.lower())
    for axis in (0, (0, 2), None):
        around(
            tmp_path / "g.pb",
            lambda x, a=axis: (
                x * f(x, axis=a, keepdims=True) if keepdims else f(x, axis=a)
            ),
            placed(2, 3, 4),
        )


NETWORK = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.LayerNorm(5), nn.Linear(5, 3))
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "network": NETWORK,
    "residual": lambda x: x + NETWORK(x),
    "softmax": lambda x: td.log_softmax(NETWORK(x), -1),
    "product with itself": lambda x: x @ x.T,
    "all products": lambda x: (x @ x.T) @ x,
    "product turned": lambda x: td.permute_dims(x @ np.ones((3, 2), "f4"), (1, 0)),
    "outer": lambda x: td.expand_dims(x, 1) * td.expand_dims(x, 0),
    "part": lambda x: x[1:3, ::-1] * 2.0,
    "turned from the end": lambda x: x[3:0:-1] + x[:3],
    "row and column": lambda x: x[2] @ np.ones((3, 2), "f4") + x[1, 0],
    "vector": lambda x: x @ np.ones(3, "f4"),
    "input alone": lambda x: x,
    "constant": lambda x: td.asarray([1.0, 2.0]) + 0.0 * x.sum(),
    "silu": td.silu,
    "variance": lambda x: td.var(x, axis=1),
    "whole numbers": lambda x: (x > 0).astype("int32") * 3,
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_programs(tmp_path: Path, case: str) -> None:
    around(tmp_path / "g.pb", PROGRAMS[case], placed(4, 3))


def test_names_of_axes_and_values_of_variables(tmp_path: Path) -> None:
    x = placed(2, 3, axes=("batch", "in"))
    w = td.param("layer/w", (3, 4), init=0.5, axes=("in", "out"))
    steps = td.Variable(np.arange(4, dtype=np.float32), name="steps", axes=("out",))
    made = td.computation({"y": td.tanh(td.dot(x, w)) + steps}, x)
    td.io.save_nervana(tmp_path / "g.pb", made)
    loaded = td.io.load_nervana(tmp_path / "g.pb")
    (y,) = loaded.body.outputs[:1]
    assert y.type.axes == ("batch", "out")
    assert loaded.placeholders[0].axes == ("batch", "in")
    kinds = {v.name: type(v).__name__ for v in loaded.variables}
    assert kinds == {"x": "Placeholder", "layer/w": "Parameter", "steps": "Variable"}
    value = RNG.normal(size=(2, 3))
    np.testing.assert_allclose(loaded(x=value)["y"], made(x=value)["y"], rtol=1e-6)
    first = (tmp_path / "g.pb").read_bytes()
    td.io.save_nervana(tmp_path / "g.pb", made)
    assert (tmp_path / "g.pb").read_bytes() == first


def messages() -> Any:
    """The classes that Google's library makes of the schema."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = {"bool": 8, "string": 9, "bytes": 12, "int64": 3, "uint64": 4, "double": 1}
    kinds["enum"] = 5  # an enum and an int32 are the same on the wire
    file = descriptor_pb2.FileDescriptorProto(name="ops.proto", syntax="proto3")
    for name, fields in GRAPH.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in fields.items():
            own = message.field.add(name=field, number=number, label=1)
            if kind.endswith("{}"):
                entry = "".join(p.title() for p in field.split("_")) + "Entry"
                pair = message.nested_type.add(name=entry)
                pair.options.map_entry = True
                pair.field.add(name="key", number=1, label=1, type=9)
                pair.field.add(
                    name="value", number=2, label=1, type=11, type_name=f".{kind[:-2]}"
                )
                own.label, own.type, own.type_name = 3, 11, f".{name}.{entry}"
                continue
            own.label = 3 if kind.endswith("*") else 1
            plain = kind.rstrip("*")
            if plain in kinds:
                own.type = kinds[plain]
            else:
                own.type, own.type_name = 11, f".{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindMessageTypeByName("GraphDef")
    return message_factory.GetMessageClass(found)


def test_googles_library_reads_and_writes_the_same(tmp_path: Path) -> None:
    x = placed(4, 3)
    td.io.save_nervana(tmp_path / "g.pb", td.computation({"y": NETWORK(x[0:3])}, x))
    raw = (tmp_path / "g.pb").read_bytes()
    graph = messages().FromString(raw)
    kinds = [op.op_type for op in graph.ops]
    assert {"AssignableTensorOp", "TensorValueOp", "DotOp", "Maximum"} <= set(kinds)
    assert [op.name for op in graph.ops if "_ngraph_ser_handle" in op.attrs] == ["y"]
    (store,) = (op for op in graph.ops if op.name == "x")
    assert store.attrs["_is_placeholder"].scalar.bool_val
    assert [a.length for a in store.attrs["_axes"].axes.axes] == [4, 3]
    known = {op.uuid.uuid for op in graph.ops}
    assert all({e.from_uuid.uuid, e.to_uuid.uuid} <= known for e in graph.edges)
    again = graph.SerializeToString()
    value = RNG.normal(size=(4, 3)).astype(np.float32)
    got = td.io.load_nervana(again)(value)["y"]
    np.testing.assert_allclose(got, NETWORK(value[:3]).numpy(), rtol=1e-5, atol=1e-6)
    assert decode(GRAPH, "GraphDef", again).keys() == {"edges", "ops"}


def test_the_graph_of_their_own_test() -> None:
    """log(exp(5)) over an axis C, as tests/test_serde.py of ngraph-python makes it."""
    f = td.io.load_nervana(SIMPLE)
    np.testing.assert_allclose(f()["l"], [5.0], rtol=1e-6)
    assert f.body.outputs[0].type.axes == ("C",)


def test_what_has_no_op_there_is_told_by_name_and_line(tmp_path: Path) -> None:
    x = placed(2, 6)
    for y, said in (
        (td.cumulative_sum(x, axis=1), "CumulativeSum"),
        (x.reshape(3, 4), "Reshape"),
        (x[:, ::2], "Slice with a step"),
        (td.matmul(td.ones((5, 2, 2)), td.ones((5, 2, 2))) + x.sum(), "over a batch"),
    ):
        with pytest.raises(td.ModelFileError, match=f"no op for: {said}|{said}"):
            td.io.save_nervana(tmp_path / "g.pb", td.computation(y, x))
    with pytest.raises(td.ModelFileError, match="draws or assigns"):
        td.io.save_nervana(tmp_path / "g.pb", td.computation(td.dropout(x, 0.5), x))
    with pytest.raises(td.ArgumentError, match="takes a computation, not"):
        td.io.save_nervana(tmp_path / "g.pb", x)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
