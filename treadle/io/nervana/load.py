"""Graphs of Nervana Graph, read as what somebody else wrote."""

from __future__ import annotations

import math
from collections.abc import Set
from typing import Any

import numpy as np

from treadle.base.dtypes import DType
from treadle.base.errors import ModelFileError, TreadleError
from treadle.graph.leaves import constant_node
from treadle.graph.operators import functions
from treadle.graph.variable import Parameter, Placeholder, Variable
from treadle.io.files import PathLike, check_name, check_shape
from treadle.io.format import Opened
from treadle.io.nervana.ops import OPS, FileOp, NamedTensor
from treadle.io.nervana.schema import CONTROL, DATA, DTYPES, GRAPH, HANDLE, OTHER
from treadle.io.protobuf import decode
from treadle.io.source import Buffer, opened
from treadle.runtime.computation import Computation

_MOST_OPS = 65_536
_MOST = (1 << 31) - 1  # bytes of a message
_ASSIGNABLE = "AssignableTensorOp"
# What an op may say of itself that does not change its value: how numbers of fixed
# point are scaled, how it is drawn, what it is derived by.
_SILENT = {"_axes", "scale", "style", "_deriv_handler", "deriv_handler", HANDLE}
_STORED = ("initial_value", "_const", "valfun_value")
_ASSIGNS = ("AssignOp", "AssignOneDOp", "Fill", "WriteOp")


def load_nervana(source: PathLike | Buffer) -> Computation:
    """The computation that a file of Nervana Graph's `serialize_graph` holds.

    Its placeholders are those of the file, its outputs the ops that were asked for, or
    all that no other reads, by name; variables begin with the values in the file and
    axes keep their names. A file is data and never runs; ops that assign, communicate
    or draw are refused. Raises ModelFileError.

    >>> import tempfile, treadle as td
    >>> x = td.placeholder((2,), name="x", axes=("n",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     td.io.save_nervana(f"{folder}/g.pb", td.computation({"y": td.exp(x)}, x))
    ...     f = td.io.load_nervana(f"{folder}/g.pb")
    >>> f(x=[0.0, 0.0])["y"].tolist(), f.placeholders[0].axes
    ([1.0, 1.0], ('n',))
    """
    with opened(source, ModelFileError) as file:
        if file.size > _MOST:
            raise ValueError(f"{file.size} bytes are more than a message has")
        message = decode(GRAPH, "GraphDef", file.take(file.size, "the graph"))
        return _Loader(file, message).computation()


class _Node:
    """An op of the file and the ops it refers to."""

    def __init__(self, message: dict[str, Any]) -> None:
        self.name: str = message.get("name", "")
        self.kind: str = message.get("op_type", "")
        self.dtype: int = message.get("dtype", 0)
        self.attrs: dict[str, Any] = message.get("attrs", {})
        self.args: list[_Node] = []
        self.tensor: _Node | None = None  # of which this is the value
        self.read = False
        self.value: NamedTensor | None = None

    @property
    def below(self) -> list[_Node]:
        return self.args if self.tensor is None else [self.tensor]

    def refuse_others(self, reads: Set[str]) -> None:
        """Refuse attributes that are not read, and more arguments of Python's."""
        for key in self.attrs:
            known = key in reads or key in _SILENT
            if not known and not key.startswith(("_is_", "_ngraph_metadata_")):
                raise ValueError(f"{self.kind} with {key[:40]!r} is not read")
        more = self.attrs.get("kwargs", {}).get("scalar", {}).get("map_val", {})
        if set(more.get("map", {})) - {"_ngraph_map_sentinel_"}:
            raise ValueError(f"{self.kind} with {str(set(more['map']))[:60]}")

    def flag(self, key: str) -> bool:
        return bool(self.attrs.get(key, {}).get("scalar", {}).get("bool_val"))


class _Loader:
    def __init__(self, file: Opened, message: dict[str, Any]) -> None:
        self.file = file
        ops = message.get("ops", [])
        if len(ops) > _MOST_OPS:
            raise ValueError(f"{len(ops)} ops are refused, {_MOST_OPS} are not")
        self.nodes: dict[bytes, _Node] = {}
        for op in ops:
            uuid = op.get("uuid", {}).get("uuid", b"")
            with self.about(op.get("name", "")):
                if len(uuid) != 16 or uuid in self.nodes:
                    raise ValueError("its uuid is not 16 bytes of its own")
                self.nodes[uuid] = _Node(op)
        for edge in message.get("edges", []):
            self._edge(edge)
        self.placeholders: list[Placeholder] = []
        self.taken: set[str] = set()

    def about(self, name: str) -> Any:
        return self.file.about(f"op {name[:60]}")

    def _edge(self, edge: dict[str, Any]) -> None:
        ends = []
        for key in ("from_uuid", "to_uuid"):
            node = self.nodes.get(edge.get(key, {}).get("uuid", b""))
            if node is None:
                raise ValueError("an edge leads to an op that is not there")
            ends.append(node)
        begin, end = ends
        kind = edge.get("edge_type", DATA)
        if kind == DATA:
            end.args.append(begin)
            begin.read = True
        elif kind == OTHER:
            said = {
                key: value.get("scalar", {}).get("string_val", "")
                for key, value in edge.get("attrs", {}).items()
            }
            if said == {"_ngraph_attribute": "_tensor"}:
                begin.tensor = end
                end.read = True
            elif begin.kind in OPS and not set(said.values()) <= _SILENT | {"x"}:
                with self.about(begin.name):
                    raise ValueError(f"its {str(said)[:60]} is not read")
        elif kind == CONTROL and end.kind in _ASSIGNS:
            with self.about(begin.name):
                raise ValueError(f"it waits for {end.kind}; effects are not read")

    def computation(self) -> Computation:
        nodes = list(self.nodes.values())
        wanted = [n for n in nodes if HANDLE in n.attrs]
        wanted = wanted or [n for n in nodes if not n.read and n.kind != _ASSIGNABLE]
        if not wanted:
            raise ValueError("it holds no op to compute")
        for node in self._ordered(wanted):
            with self.about(node.name):
                try:
                    node.value = self._value(node)
                except TreadleError as error:
                    raise ValueError(error.message[:300]) from None
        outputs: dict[str, Any] = {}
        for node in wanted:
            assert node.value is not None
            key, k = node.name, 1
            while key in outputs:
                key, k = f"{node.name}.{k}", k + 1
            names = node.value.names
            tensor = node.value.tensor
            outputs[key] = functions.name_axes(tensor, *names) if names else tensor
        return Computation(outputs, *self.placeholders)

    def _ordered(self, wanted: list[_Node]) -> list[_Node]:
        """The ops in topological order."""
        ordered: dict[int, _Node] = {}
        entered: set[int] = set()
        stack = [(node, False) for node in reversed(wanted)]
        while stack:
            node, ready = stack.pop()
            if ready:
                ordered[id(node)] = node
            elif id(node) in entered:
                if id(node) not in ordered:
                    with self.about(node.name):
                        raise ValueError("it reads itself")
            else:
                entered.add(id(node))
                stack.append((node, True))
                todo = {id(n): n for n in node.below if id(n) not in ordered}
                stack += [(n, False) for n in todo.values()]
        return list(ordered.values())

    def _value(self, node: _Node) -> NamedTensor:
        if node.tensor is not None:
            assert node.tensor.value is not None
            return node.tensor.value
        names, lengths = self._axes(node)
        if not 0 <= node.dtype < len(DTYPES):
            raise ValueError(f"the dtype {node.dtype} is not known")
        dtype = DTYPES[node.dtype]
        check_shape(lengths, dtype)
        if node.kind == _ASSIGNABLE:
            node.refuse_others({*_STORED})
            return self._leaf(node, names, lengths, dtype)
        if node.kind not in OPS:
            raise ValueError(f"the op {node.kind[:60]} is not read")
        row = OPS[node.kind]
        node.refuse_others(row.reads)
        args = [n.value for n in node.args if n.value is not None]
        read = {k: v for k, v in node.attrs.items() if k in row.reads}
        result = row.rule(FileOp(args, read, names, lengths, dtype))
        if result.names != names or result.tensor.shape != lengths:
            raise ValueError(
                f"{node.kind} gives {result.names} of {list(result.tensor.shape)}, "
                f"the file says {names} of {list(lengths)}"
            )
        return NamedTensor(functions.astype(result.tensor, dtype), names)

    def _axes(self, node: _Node) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The names and lengths of an op's result."""
        axes = node.attrs.get("_axes", {}).get("axes", {}).get("axes", [])
        names = tuple(axis.get("name", "") for axis in axes)
        good = all(name.isprintable() and name for name in names)
        if len(set(names)) < len(names) or not good:
            raise ValueError(f"{str(names)[:80]} are not names of axes")
        lengths = tuple(axis.get("length", 0) for axis in axes)
        return names, lengths

    def _leaf(
        self, node: _Node, names: Any, lengths: tuple[int, ...], dtype: DType
    ) -> NamedTensor:
        """A constant, a variable or a placeholder."""
        value = self._array(node, lengths, dtype)
        axes = names or None
        if node.flag("_is_constant"):
            if value is None:
                raise ValueError("a constant has no value")
            return NamedTensor(constant_node(value), names)
        name, k = check_name(node.name), 1
        while name in self.taken:
            name, k = f"{node.name}.{k}", k + 1
        self.taken.add(name)
        if node.flag("_is_placeholder"):
            placeholder = Placeholder(
                lengths, dtype, name=name, axes=axes, initial_value=value
            )
            self.placeholders.append(placeholder)
            return NamedTensor(functions.unname(placeholder.node()), names)
        if value is None:
            raise ValueError("a variable has no first value")
        kind = Parameter if node.flag("_is_trainable") else Variable
        variable = kind(value, name=name, axes=axes)
        return NamedTensor(functions.unname(variable.node()), names)

    def _array(self, node: _Node, lengths: tuple[int, ...], dtype: DType) -> Any:
        for key in _STORED:
            tensor = node.attrs.get(key, {}).get("tensor")
            if tensor is None:
                continue
            info, raw = tensor.get("info", {}), tensor.get("data", b"")
            shape = tuple(int(n) for n in info.get("shape", ()))
            code = info.get("dtype", 0)
            if not 0 <= code < len(DTYPES):
                raise ValueError(f"the dtype {code} is not known")
            if check_shape(shape, DTYPES[code]) != len(raw) or shape != lengths:
                raise ValueError(
                    f"{len(raw)} bytes are not {DTYPES[code].name}{list(shape)} of "
                    f"axes {list(lengths)}"
                )
            array = np.frombuffer(raw, DTYPES[code], count=math.prod(shape))
            return array.reshape(shape).astype(dtype)
        return None
