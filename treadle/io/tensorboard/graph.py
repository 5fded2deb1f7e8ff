"""A graph as TensorBoard shows it: nodes by the path of their module."""

from __future__ import annotations

import re
from typing import Any

from treadle.base import trees
from treadle.base.types import TupleType, Type
from treadle.graph.body import Body
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import Variable, variable_of
from treadle.io.protobuf import encode
from treadle.io.tensorboard.schema import EVENTS

_FOREIGN = re.compile(r"[^A-Za-z0-9_./\-]")
_PRODUCER = 22  # of the first TensorFlow with these messages


def graph_def(y: Any) -> bytes:
    """TensorFlow's GraphDef of a tensor or a tree of them.

    A node is named by its module and its op, one of a Variable by the Variable; shapes,
    attributes and the user's line go with it. Nothing is evaluated.
    """
    roots = [as_tensor(leaf) for leaf in trees.flatten(y)[0]]
    nodes = reach(functions.written_out(roots))
    names, taken = dict[int, str](), set[str]()
    written = []
    for node in nodes:
        names[node.serial] = _unique(_path(node), taken)
        written.append(
            {
                "name": names[node.serial],
                "op": node.op.name,
                "input": [names[x.serial] for x in node.inputs],
                "attr": _attributes(node),
            }
        )
    return encode(
        EVENTS, "GraphDef", {"node": written, "versions": {"producer": _PRODUCER}}
    )


def _path(node: Tensor) -> str:
    variable = variable_of(node)
    if variable is not None:
        path = variable.name
    else:
        module = str((node._metadata or {}).get("module", ""))
        name = node._name or node.op.name
        path = f"{module}.{name}" if module else name
    return _FOREIGN.sub("_", path.replace(".", "/")).strip("/_-") or "node"


def _unique(path: str, taken: set[str]) -> str:
    name, k = path, 0
    while name in taken:
        k += 1
        name = f"{path}_{k}"
    taken.add(name)
    return name


def _attributes(node: Tensor) -> dict[str, Any]:
    types = node.type if isinstance(node.type, TupleType) else (node.type,)
    attributes: dict[str, Any] = {
        "_output_shapes": {"list": {"shape": [_shape(t) for t in types]}},
        "dtype": {"s": ", ".join(t.dtype.name for t in types).encode()},
    }
    for key, value in node.op.attributes():
        text = value.name if isinstance(value, (Variable, Body)) else repr(value)
        attributes[key] = {"s": text[:200].encode(errors="replace")}
    if node.lineno:
        attributes["line"] = {"s": node.line.strip().encode(errors="replace")}
    return attributes


def _shape(t: Type) -> dict[str, Any]:
    names = t.axes or (None,) * t.ndim
    pairs = zip(t.shape, names, strict=True)
    return {"dim": [{"size": n, **({"name": a} if a else {})} for n, a in pairs]}
