"""The graph of an ONNX file while it is written: nodes, weights and their names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.extras import extra
from treadle.graph.body import Body
from treadle.graph.leaves import Leaf
from treadle.graph.tensor import Tensor
from treadle.io.onnx.file import CODES
from treadle.ops.call import Call, smaller, without_calls
from treadle.ops.families import Output, is_composed

OPSET, LAST = 20, 23  # the version of the ops that are written, and where one needs it
Names = str | tuple[str, ...]
Exporter = Callable[..., Names | None]

# What writes the node of an op: `f(writer, node, *names of the inputs)`, None where
# it cannot, so that the op's smaller ops are written instead.
EXPORTS: dict[str, Exporter] = {}


def export(*names: str) -> Callable[[Exporter], Exporter]:
    """Enter a function into the table under the names of ops."""

    def enter(write: Exporter) -> Exporter:
        for name in names:
            assert name not in EXPORTS, name
            EXPORTS[name] = write
        return write

    return enter


def export_all(table: Mapping[str, Exporter]) -> None:
    """Enter the functions of a table, by the names of ops."""
    for name, write in table.items():
        export(name)(write)


class Writer:
    """Collects what a file holds; `unknown` has the ops that it has no way to say.

    Where the graph `varies` with extents, constants stand apart, for those that are
    equal at one may differ at another, and bodies do not say their shapes.
    """

    def __init__(self, names: Sequence[str], varies: bool = False) -> None:
        self.onnx = extra("onnx", "onnx")
        self.nodes: list[Any] = []
        self.tensors: list[Any] = []
        self.unknown: dict[str, str] = {}
        self.varies = varies
        self.opset = OPSET
        self._used = set(names)
        self._arrays: dict[Any, str] = {}
        self._path = ""  # of the layer whose nodes are written
        self._counts: Counter[str] = Counter()  # of names, without their numbers
        self._plain: dict[str, str] = {}  # names without their numbers
        self._readers: Counter[int] = Counter()
        self._names: dict[int, Names] = {}  # of the nodes of the body being written
        self._slices: dict[int, list[Tensor]] = {}  # of each value, in that body

    def fresh(self, kind: str) -> str:
        """A name that nothing else has, by the path of a layer: `/encoder/0/Gemm`."""
        return self._numbered(f"{self._path}/{kind}")

    def _numbered(self, plain: str) -> str:
        while True:
            k = self._counts[plain]
            self._counts[plain] += 1
            name = f"{plain}_{k}" if k else plain
            if name not in self._used:
                self._used.add(name)
                self._plain[name] = plain
                return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """A node with one result."""
        return self.several(kind, 1, *inputs, **attributes)[0]

    def several(
        self, kind: str, count: int, *inputs: str, **attributes: Any
    ) -> tuple[str, ...]:
        """A node with `count` results."""
        outputs = tuple(self.fresh(kind) for _ in range(count))
        make = self.onnx.helper.make_node
        self.nodes.append(make(kind, inputs, outputs, name=outputs[0], **attributes))
        return outputs

    def tensor(self, name: str, value: Array) -> Any:
        """The message of an array."""
        if value.dtype not in CODES:
            raise ValueError(f"{name!r}: ONNX has no {value.dtype}")
        return self.onnx.TensorProto(
            name=name,
            dims=value.shape,
            data_type=CODES[value.dtype],
            raw_data=np.ascontiguousarray(value).tobytes(),
        )

    def weight(self, name: str, value: Array) -> None:
        """A weight of the file."""
        self.tensors.append(self.tensor(name, value))

    def array(self, value: Any, dtype: Any = None) -> str:
        """The name of a constant: the result of a node, so that it is no weight."""
        array = np.asarray(value, dtype)
        key = array.dtype, array.shape, array.tobytes()
        if self.varies or key not in self._arrays:
            path, self._path = self._path, ""  # it is of no layer, for all may read it
            self._arrays[key] = self.add("Constant", value=self.tensor("", array))
            self._path = path
        return self._arrays[key]

    def integers(self, values: Sequence[int]) -> str:
        """A list of int64, as shapes and axes are given."""
        return self.array(list(values), np.int64)

    def used_once(self, node: Tensor) -> bool:
        """Whether nothing but one node reads the value of a node."""
        return self._readers[node.serial] == 1

    def with_bias(self, product: str, bias: str, kind: str) -> str | None:
        """The node of this kind that gives a product, with a bias if it had none."""
        node = self._last(product, kind)
        if node is None:
            return None
        node.input.append(bias)
        return product

    def replaced(
        self,
        output: str,
        old: Sequence[str],
        kind: str,
        *inputs: str,
        **attributes: Any,
    ) -> str | None:
        """Another node that gives an output, in place of one of the kinds of `old`.

        It is the last node, for its inputs may be computed after the old one's.
        """
        for k in range(len(self.nodes) - 1, -1, -1):
            if output in self.nodes[k].output:
                if self.nodes[k].op_type not in old:
                    return None
                del self.nodes[k]
                self._plain[output] = f"{self._path}/{kind}"
                make = self.onnx.helper.make_node
                node = make(kind, inputs, [output], name=output, **attributes)
                self.nodes.append(node)
                return output
        return None

    def _last(self, output: str, kind: str) -> Any:
        """The node of this kind and two inputs that gives an output; None if none is.

        It goes to the end, for another input may be computed after it.
        """
        for k in range(len(self.nodes) - 1, -1, -1):
            node = self.nodes[k]
            if output in node.output:
                if node.op_type != kind or len(node.input) > 2:
                    return None
                self.nodes.append(self.nodes.pop(k))
                return node
        return None

    def graph(self, body: Body, name: str, outside: Sequence[str], count: int) -> Any:
        """A body as a graph of its own: `count` inputs, then what it sees by name."""
        inner = Writer([], self.varies)
        inner.unknown, inner._used, inner._path = self.unknown, self._used, self._path
        inner._counts, inner._plain = self._counts, self._plain
        inputs = [self.fresh("input") for _ in range(count)]
        plain = without_calls(body)
        results = inner.body(plain, [*inputs, *outside])
        outputs = [inner.add("Identity", y) for y in results]
        inner.drop_unread(outputs)
        self.opset = max(self.opset, inner.opset)
        helper = self.onnx.helper
        types = [x.type for x in plain.arguments[:count]]

        def infos(names: Sequence[str], types: Sequence[Any]) -> list[Any]:
            make = helper.make_tensor_value_info
            pairs = zip(names, types, strict=True)
            shapes = [None if self.varies else t.shape for t in types]
            return [
                make(n, CODES[t.dtype], shape)
                for (n, t), shape in zip(pairs, shapes, strict=True)
            ]

        results_ = infos(outputs, [y.type for y in plain.outputs])
        return helper.make_graph(inner.nodes, name, infos(inputs, types), results_)

    def body(self, body: Body, arguments: Sequence[str]) -> list[str]:
        """The nodes of a body in its place; the names of its outputs."""
        plain = without_calls(body)
        pairs = zip(plain.arguments, arguments, strict=True)
        names: dict[int, Names] = {x.serial: name for x, name in pairs}
        return self.walk(plain.nodes, plain.outputs, names)

    def walk(
        self,
        nodes: Sequence[Tensor],
        outputs: Sequence[Tensor],
        names: dict[int, Names],
    ) -> list[str]:
        """Write nodes in order; `names` has what is known of their inputs."""
        self._readers.update(x.serial for node in nodes for x in node.inputs)
        self._readers.update(y.serial for y in outputs)
        around = self._names, self._slices
        self._names, self._slices = names, {}
        for node in nodes:
            if node.op.name == "Slice":
                self._slices.setdefault(node.inputs[0].serial, []).append(node)
        for node in nodes:
            if node.serial not in names:
                path, layer = self._path, (node._metadata or {}).get("module")
                if layer:
                    self._path = "/" + layer.replace(".", "/")
                names[node.serial] = self._node(node, names)
                self._path = path
        self._names, self._slices = around
        return [_one(names[y.serial]) for y in outputs]

    def name_of(self, node: Tensor) -> str:
        """The name of the value of a node that was written before."""
        return _one(self._names[node.serial])

    def name(self, node: Tensor, name: str) -> None:
        """Give the value of a node a name before its turn."""
        self._names[node.serial] = name

    def slices_of(self, node: Tensor) -> list[Tensor]:
        """The slices of a value in the body being written."""
        return self._slices.get(node.serial, [])

    def drop_unread(self, outputs: Sequence[str]) -> None:
        """Leave out the nodes whose results neither a node nor an output reads."""
        read, kept = set(outputs), []
        for node in reversed(self.nodes):
            if read.intersection(node.output):
                read.update(_reads(node))
                kept.append(node)
        self.nodes = kept[::-1]

    def renumber(self, names: Sequence[str]) -> None:
        """Count the names of results anew, but for `names`.

        They count what was dropped, too, which another extent may not have.
        """
        known = {name: name for name in names}
        self._used, self._counts = set(names), Counter()
        for node in _all_nodes(self.nodes):
            inner = [value.name for a in node.attribute for value in a.g.input]
            for name in (*inner, *node.output):
                if name not in known:
                    known[name] = self._numbered(self._plain[name])
        for node in _all_nodes(self.nodes):
            node.name = known.get(node.name, node.name)
            for field in (node.input, node.output):
                field[:] = [known.get(name, name) for name in field]
            for a in node.attribute:
                for value in (*a.g.input, *a.g.output):
                    value.name = known.get(value.name, value.name)

    def _node(self, node: Tensor, names: Mapping[int, Names]) -> Names:
        op = node.op
        if node.stored is not None and not node.inputs:
            assert node.array is not None
            return self.array(node.array)
        if isinstance(op, Leaf):
            return self._refuse(node)
        operands = [names[x.serial] for x in node.inputs]
        if isinstance(op, Output) and isinstance(operands[0], tuple):
            return operands[0][op.position]
        if isinstance(op, Call):
            outputs = self.body(op.body, [_one(x) for x in operands])
            return tuple(outputs) if isinstance(node.type, tuple) else outputs[0]
        write = EXPORTS.get(op.name)
        name = write and write(self, node, *operands)
        if name is not None:
            return name
        if is_composed(op):
            body, arguments = smaller(node)
            outputs = self.body(body, [_one(names[x.serial]) for x in arguments])
            return tuple(outputs) if isinstance(node.type, tuple) else outputs[0]
        return self._refuse(node)

    def _refuse(self, node: Tensor) -> Names:
        """Note an op that cannot be said; all of them are told at the end."""
        self.unknown.setdefault(node.op.name, node.line or "")
        count = len(node.type) if isinstance(node.type, tuple) else 1
        return ("unknown",) * count if count > 1 else "unknown"


def _all_nodes(nodes: Sequence[Any]) -> Iterator[Any]:
    """Nodes and those of their subgraphs, in order."""
    for node in nodes:
        for a in node.attribute:
            yield from _all_nodes(a.g.node)
        yield node


def _reads(node: Any) -> set[str]:
    """The names that a node reads, those its subgraphs see around them included."""
    names = set(node.input)
    for a in node.attribute:
        for inner in a.g.node:
            names |= _reads(inner)
    return names


def _one(name: Names) -> str:
    assert isinstance(name, str), "several results where one is meant"
    return name
