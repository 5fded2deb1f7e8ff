"""Networks from ONNX files: the graph is built by Treadle's ops at each call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base.errors import (
    ArityError,
    DTypeError,
    ModelFileError,
    ShapeError,
    TreadleError,
)
from treadle.graph.body import Body
from treadle.graph.leaves import Leaf, as_tensor, constant_node
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter, Placeholder, Variable
from treadle.io.files import MAX_BYTES, PathLike, check_name, guarded, read_json
from treadle.io.onnx import elements, networks, shapes
from treadle.io.onnx.file import BUFFERS, DTYPES, array_of, read_model
from treadle.io.onnx.table import IMPORTS, LAST, Node
from treadle.nn.module import Module
from treadle.runtime.computation import Computation

__all__ = ["OnnxModule", "from_onnx"]

Array = np.ndarray[Any, Any]
Value = Tensor | Variable | Array | None

MAX_FOLDED = 1 << 20  # bytes of a value that is computed while a graph is built
_TABLES = (elements, networks, shapes)  # each fills IMPORTS
_WRONG = (
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    OverflowError,
    ZeroDivisionError,
    AttributeError,
)


@dataclass(frozen=True)
class Port:
    """An input of a file: a number, a name or None (any) for each dimension."""

    name: str
    dtype: Any
    shape: tuple[int | str | None, ...]


class OnnxModule(Module):
    """A network of an ONNX file: call it with values of its `inputs`.

    Its weights are `parameters`, by the names that they have in the file, running
    statistics and the like buffers. A call builds a graph for the shapes given, so one
    module serves every batch size.
    """

    def __init__(
        self,
        place: str,
        nodes: Sequence[Node],
        values: dict[str, Variable | Array],
        inputs: Sequence[Port],
        outputs: Sequence[str],
    ) -> None:
        super().__init__()
        self.place, self.nodes, self.inputs = place, list(nodes), tuple(inputs)
        self.outputs = tuple(outputs)
        self.constants = {k: v for k, v in values.items() if isinstance(v, np.ndarray)}
        self.weights = {k: v for k, v in values.items() if isinstance(v, Variable)}

    def _attributes(self) -> list[tuple[str, Any]]:
        return list(self.__dict__.get("weights", {}).items())

    def forward(self, *values: Any, **named: Any) -> Any:
        """The output, or a tuple of several, for the inputs in order or by name."""
        known: dict[str, Value] = {**self.constants, **self.weights, "": None}
        known |= self._bound(values, named)
        for node in self.nodes:
            with guarded(
                self.place, ModelFileError, f"node {node.name!r} ({node.kind})"
            ):
                found = _made(node, [known[name] for name in node.inputs])
            known |= {k: v for k, v in zip(node.outputs, found, strict=False) if k}
        missing = [name for name in self.outputs if name not in known]
        if missing:
            raise ModelFileError(f"{self.place}: nothing computes {missing[0]!r}")
        made = tuple(as_tensor(known[name]) for name in self.outputs)
        return made[0] if len(made) == 1 else made

    def computation(self, **extents: int) -> Computation:
        """A `td.computation` with placeholders by the names of the inputs.

        Dimensions that the file leaves open are given by their names.
        """
        placeholders = []
        for port in self.inputs:
            shape = [extents.get(n, n) if isinstance(n, str) else n for n in port.shape]
            open_ = [n for n in shape if not isinstance(n, int)]
            if open_:
                raise ShapeError(
                    f"input {port.name!r} has the open dimension {open_[0]!r}",
                    hint="give it by name, computation(batch=8), or call the module",
                ).located("from_onnx")
            placeholders.append(Placeholder(shape, port.dtype, name=port.name))
        return Computation(self(*placeholders), *placeholders)

    def _bound(self, values: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        """The value of each input by name, of the type that the file says."""
        names = [port.name for port in self.inputs]
        given = dict(zip(names, values, strict=False)) | named
        if set(given) != set(names) or len(values) + len(named) != len(names):
            raise ArityError(
                f"takes {', '.join(names) or 'no inputs'}, "
                f"got {len(values)} values and {', '.join(named) or 'no names'}"
            ).located("from_onnx")
        bound: dict[str, Any] = {}
        extents: dict[str, int] = {}
        for port in self.inputs:
            x = given[port.name]
            node = x if isinstance(x, (Tensor, Variable)) else _array(x, port.dtype)
            if node.type.dtype != port.dtype:
                raise DTypeError(
                    f"input {port.name!r} is {port.dtype}, got {node.type}"
                ).located("from_onnx")
            wanted = [
                extents.setdefault(n, m)
                if isinstance(n, str)
                else m
                if n is None
                else n
                for n, m in zip(port.shape, node.type.shape, strict=False)
            ]
            if wanted != list(node.type.shape) or len(wanted) != len(port.shape):
                raise ShapeError(
                    f"input {port.name!r} has shape {port.shape}, got {node.type}"
                ).located("from_onnx")
            bound[port.name] = node
        return bound

    def extra_repr(self) -> str:
        return f"{len(self.nodes)} nodes, {len(self.weights)} weights"


def _array(x: Any, dtype: Any) -> Tensor:
    array = np.asarray(x)
    return as_tensor(array if array.dtype == dtype else np.asarray(x, dtype))


def _made(node: Node, given: list[Value]) -> Sequence[Value]:
    """The values of a node; those that nothing open leads to are computed now."""
    row = IMPORTS[node.kind]
    inputs: list[Any] = []
    for k, x in enumerate(given):
        if x is None:
            inputs.append(None)
        elif k in row.static:
            if isinstance(x, Tensor):
                raise ValueError(f"input {k} depends on data, but must be known before")
            inputs.append(x if isinstance(x, np.ndarray) else x.numpy())
        else:
            inputs.append(
                constant_node(x) if isinstance(x, np.ndarray) else as_tensor(x)
            )
    try:
        found = row.make(node, *inputs)
    except TreadleError as error:
        raise ValueError(error.message) from None
    except _WRONG as error:
        raise ValueError(str(error) or type(error).__name__) from None
    results = found if isinstance(found, tuple) else (found,)
    if any(node.outputs[len(results) :]):
        raise ValueError(f"result {len(results)} is not given out")
    if all(x is None or isinstance(x, np.ndarray) for x in given):
        return [_folded(y) for y in results]
    return results


def _folded(y: Tensor | Array) -> Tensor | Array:
    """The value of a small node over constants."""
    if isinstance(y, np.ndarray):
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


# -- reading -----------------------------------------------------------------------


def from_onnx(path: PathLike, *, max_bytes: int = MAX_BYTES) -> OnnxModule:
    """The network of an ONNX file as a Module, to be run, trained, saved.

    Floating-point weights of one dimension or more are parameters by their names, other
    arrays constants. Ops and dtypes are checked before anything is built; raises
    ModelFileError with the nodes that cannot be read.

    >>> import tempfile
    >>> import treadle as td
    >>> x = td.placeholder((2, 3), name="x")
    >>> w = td.param("w", init=td.ones((3, 1)).numpy())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     td.to_onnx(td.computation(td.relu(x @ w), x), f"{folder}/m.onnx")
    ...     net = td.from_onnx(f"{folder}/m.onnx")
    >>> [name for name, _ in net.named_parameters()]
    ['w']
    >>> net(td.ones((2, 3))).tolist()
    [[3.0], [3.0]]
    """
    place = os.fspath(path)
    model = read_model(path)
    with guarded(place, ModelFileError):
        opset = _opset(model)
        nodes = _nodes(model.graph, opset, place)
        buffers = _buffers(model)
    values = _weights(model.graph, nodes, buffers, place, max_bytes)
    with guarded(place, ModelFileError):
        inputs = [_port(i) for i in model.graph.input if i.name not in values]
        outputs = [o.name for o in model.graph.output]
        _check_order(nodes, [*values, *[p.name for p in inputs]], outputs)
    return OnnxModule(place, nodes, values, inputs, outputs)


def _opset(model: Any) -> int:
    found = {o.version for o in model.opset_import if o.domain in ("", "ai.onnx")}
    if len(found) != 1 or not 7 <= min(found) <= LAST:
        told = ", ".join(map(str, sorted(found))) or "none"
        raise ValueError(f"version {told} of ONNX's ops; read are 7 to {LAST}")
    return int(found.pop())


def _nodes(graph: Any, opset: int, place: str) -> list[Node]:
    """The nodes in order; an error names all whose op is not in the table."""
    unknown: dict[str, list[str]] = {}
    found = []
    for k, n in enumerate(graph.node):
        name = n.name or f"node {k}"
        row = IMPORTS.get(n.op_type) if n.domain in ("", "ai.onnx") else None
        if row is None or not row.first <= opset <= row.last or n.overload:
            kind = f"{n.domain}.{n.op_type}" if n.domain else n.op_type
            unknown.setdefault(kind, []).append(name[:40])
            continue
        with guarded(place, ModelFileError, f"node {name!r}"):
            names = [a.name for a in n.attribute]
            strange = [a for a in names if a not in row.reads or names.count(a) > 1]
            if strange:
                raise ValueError(f"{n.op_type} with {strange[0][:40]!r} is not read")
            attributes = {a.name: _attribute(a) for a in n.attribute}
        inputs, outputs = tuple(n.input), tuple(n.output)
        found.append(Node(name, n.op_type, inputs, outputs, attributes, opset))
    if unknown:
        told = [
            f"{kind[:40]} ({', '.join(names[:3])}{', ...' if names[3:] else ''})"
            for kind, names in sorted(unknown.items())
        ]
        raise ValueError(f"no importer in version {opset} for: {'; '.join(told)}")
    return found


def _attribute(a: Any) -> Any:
    """The value of an attribute."""
    kinds = {1: "f", 2: "i", 6: "floats", 7: "ints"}
    if a.ref_attr_name:
        raise ValueError(f"attribute {a.name[:40]!r} is that of a function")
    if a.type in kinds:
        value = getattr(a, kinds[a.type])
        return list(value) if a.type > 5 else value
    if a.type == 3:
        return a.s.decode()
    if a.type == 8:
        return [s.decode() for s in a.strings]
    if a.type == 4:
        return array_of(a.t, None)
    raise ValueError(f"attribute {a.name[:40]!r} is of a kind that is not read")


def _buffers(model: Any) -> set[str]:
    """The weights that a file says are not to be trained; only Treadle's say so."""
    noted = [p.value for p in model.metadata_props if p.key == BUFFERS]
    found = read_json(noted[-1].encode()) if noted and noted[-1] else []
    if not isinstance(found, list) or not all(isinstance(x, str) for x in found):
        raise ValueError(f"{BUFFERS!r} is no list of names")
    return set(found)


def _weights(
    graph: Any, nodes: Sequence[Node], buffers: set[str], place: str, room: int
) -> dict[str, Variable | Array]:
    """The arrays of a file: parameters, buffers and constants by name."""
    settings: set[str] = set()
    for node in nodes:
        static = IMPORTS[node.kind].static
        settings |= {x for k, x in enumerate(node.inputs) if k in static}
        if node.kind == "BatchNormalization":
            buffers = buffers | set(node.inputs[3:])
    found: dict[str, Variable | Array] = {}
    folder = Path(place).parent
    for t in graph.initializer:
        with guarded(place, ModelFileError, repr(t.name[:60])):
            if t.name in found:
                raise ValueError("two weights have this name")
            if not t.name or len(t.name) > 1024:
                raise ValueError("this is no name of a weight")
            array = array_of(t, folder, room)
            room -= array.nbytes
        if array.dtype.kind not in "fVc" or not array.ndim or t.name in settings:
            found[t.name] = array
        else:
            kind = Variable if t.name in buffers else Parameter
            found[t.name] = kind(array, name=t.name, copy=False)
    return found


def _port(info: Any) -> Port:
    """An input as the file declares it."""
    if not info.type.HasField("tensor_type"):
        raise ValueError(f"input {info.name[:60]!r} is no tensor")
    declared = info.type.tensor_type
    if declared.elem_type not in DTYPES or not declared.HasField("shape"):
        raise ValueError(f"input {info.name[:60]!r} has no dtype or shape that is read")
    shape: list[int | str | None] = []
    for d in declared.shape.dim:
        if d.HasField("dim_value"):
            if d.dim_value == -1:  # as some exporters write one that is open
                shape.append(None)
                continue
            if not 0 <= d.dim_value < 1 << 40:
                raise ValueError(f"input {info.name[:60]!r} has {d.dim_value} elements")
            shape.append(int(d.dim_value))
        else:
            shape.append(d.dim_param or None)
    if len(shape) > 32:
        raise ValueError(f"input {info.name[:60]!r} has {len(shape)} dimensions")
    return Port(check_name(info.name), DTYPES[declared.elem_type], tuple(shape))


def _check_order(
    nodes: Sequence[Node], given: Sequence[str], outputs: Sequence[str]
) -> None:
    """Each value is computed once, and before it is read: no cycles."""
    known = {"", *given}
    if len(known) != len(given) + 1:
        raise ValueError("two inputs have one name")
    for node in nodes:
        for name in node.inputs:
            if name not in known:
                raise ValueError(
                    f"node {node.name[:40]!r} reads {name[:60]!r}, "
                    "which nothing before it computes"
                )
        for name in filter(None, node.outputs):
            if name in known:
                raise ValueError(f"{name[:60]!r} is computed twice")
            known.add(name)
    for name in outputs:
        if name not in known:
            raise ValueError(f"nothing computes the output {name[:60]!r}")
