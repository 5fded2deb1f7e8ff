"""Networks from ONNX files: the graph is built by Treadle's ops at each call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from treadle.base.errors import (
    ArityError,
    DTypeError,
    ModelFileError,
    ShapeError,
)
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter, Placeholder, Variable
from treadle.io.files import MAX_BYTES, PathLike, check_name, guarded, read_json
from treadle.io.onnx import (
    attention,
    control,
    elements,
    networks,
    norms,
    pools,
    positions,
    quantized,
    recurrent,
    resize,
    sampling,
    sequences,
    shapes,
    signals,
    training,
)
from treadle.io.onnx.build import Value, run
from treadle.io.onnx.file import BUFFERS, CODES, DTYPES, array_of, read_model, source_of
from treadle.io.onnx.opsets import converted
from treadle.io.onnx.parse import Graph, Parser, check_order
from treadle.io.onnx.stored import STORED
from treadle.io.onnx.table import IMPORTS, Node
from treadle.nn.module import Module
from treadle.runtime.computation import Computation

__all__ = ["OnnxModule", "from_onnx"]

Array = np.ndarray[Any, Any]
# Each fills IMPORTS.
_TABLES = (
    attention,
    control,
    elements,
    networks,
    norms,
    pools,
    positions,
    quantized,
    recurrent,
    resize,
    sampling,
    sequences,
    shapes,
    signals,
    training,
)


@dataclass(frozen=True)
class Port:
    """An input of a file: a number, a name or None (any) for each dimension.

    A sequence or optional value has no dtype.
    """

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
        self.place, self.nodes, self.inputs = place, tuple(nodes), tuple(inputs)
        self.outputs = tuple(outputs)
        self.constants = {k: v for k, v in values.items() if isinstance(v, np.ndarray)}
        self.weights = {k: v for k, v in values.items() if isinstance(v, Variable)}

    def _attributes(self) -> list[tuple[str, Any]]:
        return list(self.__dict__.get("weights", {}).items())

    def forward(self, *values: Any, **named: Any) -> Any:
        """The output, or a tuple of several, for the inputs in order or by name."""
        known: dict[str, Value] = {**self.constants, **self.weights}
        known |= self._bound(values, named)
        graph = Graph(self.nodes, {}, (), self.outputs)
        results = tuple(map(_result, run(graph, known, self.place)))
        return results[0] if len(results) == 1 else results

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
            if port.dtype is None:
                bound[port.name] = _structured(x)
                continue
            node = x if isinstance(x, (Tensor, Variable)) else _array(x, port.dtype)
            if node.dtype != port.dtype:
                raise DTypeError(
                    f"input {port.name!r} is {port.dtype}, got {node.dtype}"
                ).located("from_onnx")
            shape = tuple(node.shape)
            wanted = [
                extents.setdefault(n, m)
                if isinstance(n, str)
                else m
                if n is None
                else n
                for n, m in zip(port.shape, shape, strict=False)
            ]
            if wanted != list(shape) or len(wanted) != len(port.shape):
                raise ShapeError(
                    f"input {port.name!r} has shape {port.shape}, "
                    f"got {node.dtype}{list(shape)}"
                ).located("from_onnx")
            bound[port.name] = node
        return bound

    def extra_repr(self) -> str:
        return f"{len(self.nodes)} nodes, {len(self.weights)} weights"


def _result(x: Value) -> Any:
    """A result as a caller gets it: a Tensor, or an array of a dtype only stored."""
    if isinstance(x, tuple):
        return [_result(item) for item in x]
    if x is None or (isinstance(x, np.ndarray) and x.dtype not in CODES):
        return x
    return as_tensor(x)


def _structured(x: Any) -> Value:
    """A sequence or an optional value: a list of arrays, an array or None."""
    if isinstance(x, (list, tuple)):
        return tuple(_structured(item) for item in x)
    return x if x is None else as_tensor(x)


def _array(x: Any, dtype: Any) -> Tensor | Array:
    array = np.asarray(x)
    array = array if array.dtype == dtype else np.asarray(x, dtype)
    return as_tensor(array) if dtype in CODES else array


# -- reading -----------------------------------------------------------------------


def from_onnx(
    source: PathLike | bytes | BinaryIO, *, max_bytes: int = MAX_BYTES
) -> OnnxModule:
    """The network of an ONNX file as a Module, to be run, trained, saved.

    `source` is a path, the bytes of a file or a file object; data beside the model is
    read for a path alone. Floating-point weights of one dimension or more are
    parameters by their names, other arrays constants. Ops and dtypes are checked before
    anything is built; raises ModelFileError with the nodes that cannot be read.

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
    place, folder, raw = source_of(source)
    with guarded(place, ModelFileError):
        model = read_model(raw)
        model = converted(model)
        parser = Parser.of(model)
        nodes = parser.nodes(model.graph.node, {})
        parser.check()
        buffers = _buffers(model)
    values = _weights(model.graph, nodes, buffers, place, folder, max_bytes)
    with guarded(place, ModelFileError):
        inputs = [_port(i) for i in model.graph.input if i.name not in values]
        outputs = [o.name for o in model.graph.output]
        check_order(nodes, [*values, *[p.name for p in inputs]], outputs)
    return OnnxModule(place, nodes, values, inputs, outputs)


def _buffers(model: Any) -> set[str]:
    """The weights that a file says are not to be trained; only Treadle's say so."""
    noted = [p.value for p in model.metadata_props if p.key == BUFFERS]
    found = read_json(noted[-1].encode()) if noted and noted[-1] else []
    if not isinstance(found, list) or not all(isinstance(x, str) for x in found):
        raise ValueError(f"{BUFFERS!r} is no list of names")
    return set(found)


def _weights(
    graph: Any,
    nodes: Sequence[Node],
    buffers: set[str],
    place: str,
    folder: Path | None,
    room: int,
) -> dict[str, Variable | Array]:
    """The arrays of a file: parameters, buffers and constants by name."""
    settings: set[str] = set()
    for node in nodes:
        static = IMPORTS[node.kind].static if node.function is None else ()
        settings |= {x for k, x in enumerate(node.inputs) if k in static}
        if node.kind == "BatchNormalization":
            buffers = buffers | set(node.inputs[3:])
    found: dict[str, Variable | Array] = {}
    for t in graph.initializer:
        with guarded(place, ModelFileError, repr(t.name[:60])):
            if t.name in found:
                raise ValueError("two weights have this name")
            if not t.name or len(t.name) > 1024:
                raise ValueError("this is no name of a weight")
            array = array_of(t, folder, room)
            room -= array.nbytes
        trains = array.dtype in CODES and array.dtype.kind in "fVc" and array.ndim
        if not trains or t.name in settings:
            found[t.name] = array
        else:
            kind = Variable if t.name in buffers else Parameter
            found[t.name] = kind(array, name=t.name, copy=False)
    return found


def _port(info: Any) -> Port:
    """An input as the file declares it."""
    if info.type.HasField("sequence_type") or info.type.HasField("optional_type"):
        return Port(check_name(info.name), None, ())
    if not info.type.HasField("tensor_type"):
        raise ValueError(f"input {info.name[:60]!r} is no tensor")
    declared = info.type.tensor_type
    dtype = {**DTYPES, **STORED}.get(declared.elem_type)
    if dtype is None or not declared.HasField("shape"):
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
            # A name without a letter, such as "?", is that of no dimension.
            named = any(c.isalpha() for c in d.dim_param)
            shape.append(d.dim_param if named else None)
    if len(shape) > 32:
        raise ValueError(f"input {info.name[:60]!r} has {len(shape)} dimensions")
    return Port(check_name(info.name), dtype, tuple(shape))
