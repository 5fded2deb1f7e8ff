"""The nodes of an ONNX graph one after the other, each as Treadle's own ops."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import MutableMapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import ModelFileError, TraceError, TreadleError
from treadle.base.extras import extra
from treadle.graph.body import Body
from treadle.graph.frame import metadata
from treadle.graph.leaves import (
    Argument,
    Constant,
    Leaf,
    Version,
    as_tensor,
    constant_node,
)
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import Placeholder, Variable
from treadle.io.files import guarded
from treadle.io.onnx.file import CODES, STORED
from treadle.io.onnx.parse import OnnxGraph
from treadle.io.onnx.table import IMPORTS, OnnxNode

# A tuple is a sequence of ONNX; None stands for an optional value that is left out.
Value = Tensor | Variable | Array | tuple[Any, ...] | None

MAX_FOLDED = 1 << 20  # bytes of a value that is computed while a graph is built
_WRONG = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    OverflowError,
    ZeroDivisionError,
    AttributeError,
)


@dataclass
class Asked:
    """The inputs, of a graph that is traced, whose values its structure depends on.

    `arguments` has their names by the serials of the trace's arguments. `others` tells
    whether values of anything else were asked for.
    """

    arguments: dict[int, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    others: bool = False


asking: ContextVar[Asked | None] = ContextVar("asking", default=None)


def note_asked(x: Value) -> None:
    """Note that a value was asked for which only a call will know."""
    asked = asking.get()
    if asked is None or not isinstance(x, (Tensor, Variable)):
        return
    for node in reach([as_tensor(x)]):
        if isinstance(node.op, Argument):
            name = asked.arguments.get(node.serial)
            asked.others |= name is None
            asked.names.update(() if name is None else (name,))


def run(
    graph: OnnxGraph, values: MutableMapping[str, Value], place: str
) -> list[Value]:
    """The outputs of a graph; `values` has its inputs and what is visible around it."""
    known: ChainMap[str, Value] = ChainMap({"": None}, dict(graph.constants), values)
    for node in graph.nodes:
        _add(node, known, place)
    missing = [name for name in graph.outputs if name not in known]
    if missing:
        raise ModelFileError(f"{place}: nothing computes {missing[0]!r}")
    return [known[name] for name in graph.outputs]


def _add(node: OnnxNode, known: MutableMapping[str, Value], place: str) -> None:
    """Put the values of a node among those known."""
    where = f"node {node.name!r} ({node.kind})"
    with guarded(place, ModelFileError, where), metadata(onnx=node.name):
        results = _results(node, [known[name] for name in node.inputs], known)
    known.update({k: v for k, v in zip(node.outputs, results, strict=False) if k})


def _results(
    node: OnnxNode, operands: list[Value], known: MutableMapping[str, Value]
) -> Sequence[Value]:
    """The values of a node; those that nothing open leads to are computed now."""
    if node.function is not None:
        return _called(node, operands)
    row = IMPORTS[node.kind]
    bodies = {
        key: Subgraph(value, known)
        for key, value in node.attributes.items()
        if isinstance(value, OnnxGraph)
    }
    if bodies:
        node = replace(node, attributes={**node.attributes, **bodies})
    try:
        inputs = operands if row.raw else _inputs(row.static, operands)
        value = row.make(node, *inputs)
    except ModelFileError as error:  # of a node of a subgraph
        raise ValueError(error.message.partition(": ")[2]) from None
    except TreadleError as error:
        if isinstance(error, TraceError):
            for x in operands:
                note_asked(x)
        raise ValueError(error.message) from None
    except _WRONG as error:
        raise ValueError(str(error) or type(error).__name__) from None
    results = value if isinstance(value, tuple) and not row.sequence else (value,)
    if any(node.outputs[len(results) :]):
        raise ValueError(f"result {len(results)} is not given out")
    if not row.raw and all(x is None or isinstance(x, np.ndarray) for x in operands):
        return [_folded(y) for y in results]
    return results


def _inputs(static: Sequence[int], operands: Sequence[Value]) -> list[Any]:
    """Operands as a row takes them: arrays where they are static, tensors elsewhere."""
    inputs: list[Any] = []
    for k, x in enumerate(operands):
        if x is None or isinstance(x, tuple):
            inputs.append(x)
        elif k in static or -1 in static:
            inputs.append(value_of(x, k))
        elif isinstance(x, np.ndarray):
            if x.dtype not in CODES:
                raise ValueError(
                    f"input {k} is {x.dtype}, which only Cast and the like read"
                )
            inputs.append(constant_node(x))
        else:
            inputs.append(as_tensor(x))
    return inputs


def value_of(x: Value, k: int) -> Array:
    """The array of an operand that says something of the structure."""
    if isinstance(x, (Tensor, Variable)):
        try:
            return np.asarray(x.numpy())
        except TreadleError:
            note_asked(x)
            raise ValueError(
                f"input {k} depends on data, but must be known before: call the "
                "module with arrays, outside of a computation or function"
            ) from None
    assert isinstance(x, np.ndarray), type(x)
    return x


@dataclass(frozen=True)
class Subgraph:
    """A subgraph as a function that sees the values around it."""

    graph: OnnxGraph
    known: MutableMapping[str, Value]

    def __call__(self, *operands: Value) -> list[Value]:
        inputs = self.graph.inputs
        if len(operands) != len(inputs):
            raise ValueError(f"a body of {len(inputs)} inputs is given {len(operands)}")
        inner = dict(zip(inputs, operands, strict=True))
        return run(self.graph, ChainMap(inner, self.known), "body")

    def hoisted(self) -> Subgraph:
        """The same, with what depends on weights alone computed here and not in it."""
        known: ChainMap[str, Value] = ChainMap(
            {"": None}, dict(self.graph.constants), self.known
        )
        weights: dict[str, bool] = {}
        rest = []
        for node in self.graph.nodes:
            inner = any(isinstance(x, OnnxGraph) for x in node.attributes.values())
            for name in node.inputs:
                if name not in weights:
                    weights[name] = name in known and _is_of_weights(known[name])
            if not inner and node.inputs and all(weights[name] for name in node.inputs):
                _add(node, known, "body")
                weights.update(dict.fromkeys(node.outputs, True))
            else:
                rest.append(node)
                weights.update(dict.fromkeys(node.outputs, False))
        return Subgraph(replace(self.graph, nodes=tuple(rest)), known)


def _is_of_weights(x: Value) -> bool:
    """Whether no value that a call is given has a part in it."""
    if isinstance(x, Tensor):
        return all(n.inputs or isinstance(n.op, Version | Constant) for n in reach([x]))
    of_call = isinstance(x, tuple | Placeholder)
    return not of_call


def _called(node: OnnxNode, operands: list[Value]) -> list[Value]:
    """The results of a function."""
    assert node.function is not None
    graph: OnnxGraph = node.function.graph([_type(x) for x in operands])
    # What is not asked for may depend on optional operands that are left out.
    pairs = zip_longest(graph.outputs, node.outputs[: len(graph.outputs)])
    graph = replace(graph, outputs=tuple(n if asked else "" for n, asked in pairs))
    padded = [*operands, *[None] * (len(graph.inputs) - len(operands))]
    if len(padded) > len(graph.inputs):
        raise ValueError(f"it takes {len(graph.inputs)} inputs")
    try:
        return run(graph, dict(zip(graph.inputs, padded, strict=True)), node.kind)
    except ModelFileError as error:
        raise ValueError(error.message.partition(": ")[2]) from None


def _type(x: Value) -> Any:
    """The TypeProto of a value."""
    onnx = extra("onnx", "onnx")
    if x is None:
        return onnx.TypeProto()
    if isinstance(x, tuple):
        item = _type(x[0]) if x else onnx.helper.make_tensor_type_proto(1, None)
        return onnx.helper.make_sequence_type_proto(item)
    shape = x.shape if isinstance(x, np.ndarray) else x.type.shape
    dtype = x.dtype if isinstance(x, np.ndarray) else x.type.dtype
    codes = CODES if dtype in CODES else {v: k for k, v in STORED.items()}
    return onnx.helper.make_tensor_type_proto(codes[dtype], shape)


def _folded(y: Tensor | Array) -> Tensor | Array:
    """The value of a small node over constants."""
    if not isinstance(y, Tensor):
        return y
    body = Body("constant", (), (y,))
    if any(isinstance(n.op, Leaf) and n.stored is None for n in body.nodes):
        return y
    sizes = [t.size * t.dtype.itemsize for n in body.nodes for t in _types(n)]
    if max(sizes) > MAX_FOLDED:
        return y
    return np.asarray(body.numpy(())[0])


def _types(node: Tensor) -> tuple[Any, ...]:
    return node.type if isinstance(node.type, tuple) else (node.type,)
