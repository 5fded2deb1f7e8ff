"""Graphs of ONNX messages as plain values: nodes, constants, names, functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from treadle.base.arrays import Array
from treadle.base.extras import extra
from treadle.io.onnx.file import array_of
from treadle.io.onnx.table import IMPORTS, LAST, OnnxNode

DEFAULT = ("", "ai.onnx")  # two names of the domain of ONNX's own ops
_MOST_NESTED = 32  # subgraphs and functions within one another


@dataclass(frozen=True)
class OnnxGraph:
    """Nodes in order; `outputs` are the names that a caller reads."""

    nodes: tuple[OnnxNode, ...]
    constants: Mapping[str, Array]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass
class OnnxFunction:
    """An op that is a graph of other ops, by the types of its operands.

    `body` gives the FunctionProto for a list of TypeProtos; one graph is kept for each.
    """

    body: Callable[[Sequence[Any]], Any]
    parser: OnnxParser
    attributes: Mapping[str, Any]
    _graphs: dict[bytes, OnnxGraph] = field(default_factory=dict)

    def graph(self, types: Sequence[Any]) -> OnnxGraph:
        """The graph for operands of these types."""
        key = b"|".join(t.SerializeToString(deterministic=True) for t in types)
        if key not in self._graphs:
            self._graphs[key] = self.parser.function(self.body(types), self.attributes)
        return self._graphs[key]


@dataclass
class OnnxParser:
    """Reads nodes by the versions of ops that a model or function imports.

    `unknown` collects the ops without an importer, and the nodes that have them.
    """

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str, str], Any]
    unknown: dict[str, list[str]] = field(default_factory=dict)
    depth: int = 0

    @classmethod
    def of(cls, model: Any) -> OnnxParser:
        """The parser of a model's own graph."""
        named = {(f.domain, f.name, f.overload): f for f in model.functions}
        if len(named) != len(model.functions):
            raise ValueError("two functions have one name")
        return cls(_opsets(model.opset_import), named)

    def check(self) -> None:
        """Refuse all ops that have no importer, in one error."""
        if self.unknown:
            ops = [
                f"{kind[:40]} ({', '.join(names[:3])}{', ...' if names[3:] else ''})"
                for kind, names in sorted(self.unknown.items())
            ]
            version = self.opsets.get("", 0)
            raise ValueError(f"no importer in version {version} for: {'; '.join(ops)}")

    def graph(self, message: Any) -> OnnxGraph:
        """A graph that an attribute holds, with its constants."""
        if len(message.sparse_initializer):
            raise ValueError("a subgraph holds sparse weights, which are not read")
        constants = {t.name: array_of(t, None) for t in message.initializer}
        inner = self._inner(self.opsets)
        nodes = inner.nodes(message.node, {})
        inputs = tuple(i.name for i in message.input if i.name not in constants)
        return OnnxGraph(
            nodes, constants, inputs, tuple(o.name for o in message.output)
        )

    def function(self, message: Any, attributes: Mapping[str, Any]) -> OnnxGraph:
        """The graph of a function that is called with these attributes."""
        # A function that names no version of a domain means that of its caller.
        inner = self._inner({**self.opsets, **_opsets(message.opset_import)})
        values = {a.name: a for a in message.attribute_proto} | dict(attributes)
        nodes = inner.nodes(message.node, values)
        inner.check()
        return OnnxGraph(nodes, {}, tuple(message.input), tuple(message.output))

    def _inner(self, opsets: Mapping[str, int]) -> OnnxParser:
        if self.depth > _MOST_NESTED:
            raise ValueError("functions and subgraphs are nested too deeply")
        shared = self.unknown if opsets is self.opsets else {}
        return OnnxParser(opsets, self.functions, shared, self.depth + 1)

    def nodes(
        self, messages: Sequence[Any], values: Mapping[str, Any]
    ) -> tuple[OnnxNode, ...]:
        """Nodes in order; `values` has the attributes of the function around them."""
        read = [self._node(k, n, values) for k, n in enumerate(messages)]
        return tuple(node for node in read if node is not None)

    def _node(self, k: int, n: Any, values: Mapping[str, Any]) -> OnnxNode | None:
        name = n.name or f"node {k}"
        domain = "" if n.domain in DEFAULT else n.domain
        kind = f"{domain}.{n.op_type}" if domain else n.op_type
        version = self.opsets.get(domain, 0)
        messages = _resolved(n.attribute, values)
        inputs, outputs = tuple(n.input), tuple(n.output)
        local = self.functions.get((n.domain, n.op_type, n.overload))
        row = IMPORTS.get(kind) if not n.overload else None
        if local is not None:
            known = {*local.attribute, *[a.name for a in local.attribute_proto]}
            self._refuse_strange(name, kind, messages, known)
            function = OnnxFunction(lambda _: local, self._inner(self.opsets), messages)
            return OnnxNode(name, kind, inputs, outputs, {}, version, function)
        if row is not None and row.first <= version <= row.last and row.takes(n):
            self._refuse_strange(name, kind, messages, row.reads)
            read = {key: self._attribute(a) for key, a in messages.items()}
            return OnnxNode(name, kind, inputs, outputs, read, version)
        written = None if n.overload else self._schema(n, domain, messages)
        if written is None:
            self.unknown.setdefault(kind, []).append(name[:40])
            return None
        return OnnxNode(name, kind, inputs, outputs, {}, version, written)

    def _schema(
        self, n: Any, domain: str, messages: Mapping[str, Any]
    ) -> OnnxFunction | None:
        """The function that ONNX itself defines an op by, if it does."""
        defs, version = extra("onnx.defs", "onnx"), self.opsets.get(domain, 0)
        if not defs.has(n.op_type, version, domain):
            return None
        schema = defs.get_schema(n.op_type, version, domain)
        if not (schema.has_function or schema.has_context_dependent_function):
            return None
        self._refuse_strange(n.name, n.op_type, messages, schema.attributes)
        values = {
            key: a.default_value
            for key, a in schema.attributes.items()
            if a.default_value.name
        } | dict(messages)
        plain = self.opsets.get("", 0)
        return OnnxFunction(
            _body_of(schema, n, values, plain), self._inner(self.opsets), values
        )

    def _refuse_strange(
        self, name: str, kind: str, messages: Iterable[str], known: Iterable[str]
    ) -> None:
        strange = [key for key in messages if key not in set(known)]
        if strange:
            raise ValueError(
                f"node {name!r}: {kind} with {strange[0][:40]!r} is not read"
            )

    def _attribute(self, a: Any) -> Any:
        """The value of an attribute."""
        kinds = {1: "f", 2: "i", 6: "floats", 7: "ints"}
        if a.type in kinds:
            value = getattr(a, kinds[a.type])
            return list(value) if a.type > 5 else value
        if a.type == 3:
            return a.s.decode()
        if a.type == 8:
            return [s.decode() for s in a.strings]
        if a.type == 4:
            return array_of(a.t, None)
        if a.type == 5:
            return self.graph(a.g)
        if a.type == 13:
            return a.tp
        raise ValueError(f"attribute {a.name[:40]!r} is of a kind that is not read")


def _opsets(imports: Any) -> dict[str, int]:
    """The version of each domain, ONNX's own under one name."""
    versions: dict[str, int] = {}
    for item in imports:
        domain = "" if item.domain in DEFAULT else item.domain
        if versions.setdefault(domain, item.version) != item.version:
            raise ValueError(f"two versions of the ops of domain {domain[:40]!r}")
    if not 7 <= versions.get("", 7) <= LAST:
        raise ValueError(f"version {versions['']} of ONNX's ops; read are 1 to {LAST}")
    return versions


def _resolved(messages: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes by name, those of the function around put in their places."""
    resolved: dict[str, Any] = {}
    for a in messages:
        if a.name in resolved:
            raise ValueError(f"two attributes are called {a.name[:40]!r}")
        if not a.ref_attr_name:
            resolved[a.name] = a
        elif a.ref_attr_name in values:
            copy = type(a)()
            copy.CopyFrom(values[a.ref_attr_name])
            copy.name = a.name
            resolved[a.name] = copy
    return resolved


def _body_of(schema: Any, n: Any, values: Mapping[str, Any], version: int) -> Any:
    """The FunctionProto of a schema, as a function of the operands' types."""
    onnx = extra("onnx", "onnx")
    call = onnx.NodeProto()
    call.CopyFrom(n)
    del call.attribute[:]
    call.attribute.extend(values.values())
    newest = version or LAST

    def body(types: Sequence[Any]) -> Any:
        if schema.has_function:
            raw = schema.get_function_with_opset_version(
                _nearest(schema.function_opset_versions, newest)
            )
        else:
            known = schema.context_dependent_function_opset_versions
            raw = schema.get_context_dependent_function_with_opset_version(
                _nearest(known, newest),
                call.SerializeToString(),
                [t.SerializeToString() for t in types],
            )
        return onnx.FunctionProto.FromString(raw)

    return body


def _nearest(versions: Sequence[int], newest: int) -> int:
    """The newest version of a definition that a model's ops have, or its first."""
    return max((v for v in versions if v <= newest), default=min(versions))


def check_order(
    nodes: Sequence[OnnxNode], known: Iterable[str], outputs: Sequence[str]
) -> None:
    """Each value is computed once, and before it is read: no cycles."""
    names = list(known)
    seen = {"", *names}
    if len(seen - {""}) != len([name for name in names if name]):
        raise ValueError("two inputs have one name")
    for node in nodes:
        for name in node.inputs:
            if name not in seen:
                raise ValueError(
                    f"node {node.name[:40]!r} reads {name[:60]!r}, "
                    "which nothing before it computes"
                )
        for value in node.attributes.values():
            if isinstance(value, OnnxGraph):
                inner = {*value.constants, *value.inputs}
                check_order(value.nodes, seen | inner, value.outputs)
        for name in filter(None, node.outputs):
            if name in seen:
                raise ValueError(f"{name[:60]!r} is computed twice")
            seen.add(name)
    for name in outputs:
        if name not in seen:
            raise ValueError(f"nothing computes the output {name[:60]!r}")
