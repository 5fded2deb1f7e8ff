"""The text of a graph, a line a node, and the one-line forms of a tensor."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.types import TupleType
from treadle.graph.body import Body
from treadle.graph.leaves import Argument, Constant, Cut, Draw, as_tensor
from treadle.graph.op import Op
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.graph.variable import VariableItem, variable_of

__all__ = ["text"]

_INFIX = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Pow": "**",
    "Equal": "==",
    "Less": "<",
    "LessEqual": "<=",
    "Greater": ">",
    "GreaterEqual": ">=",
}
DEPTH = 3  # how far a one-line expression looks down


def short(value: np.ndarray[Any, Any]) -> str:
    """A value in a few characters."""
    if value.size == 1:
        return f"{value.item():.6g}" if value.dtype.kind == "f" else str(value.item())
    if value.size <= 6:
        return np.array2string(value, separator=", ", precision=4).replace("\n", "")
    return "..."


def head(node: Tensor) -> str:
    """What a node is, without its inputs."""
    variable = variable_of(node)
    op = node.op
    if variable is not None and not node.inputs:
        kind = type(variable).__name__.lower()
        return f"{kind} {variable.name!r}"
    if isinstance(op, Constant) and node.stored is not None:
        return f"constant {short(node.stored)}"
    if isinstance(op, Argument):
        return f"argument {op.position}"
    if isinstance(op, Draw) and node.stored is not None:
        seed, number = node.stored.tolist()
        return f"draw seed={seed} number={number}"
    if isinstance(op, Cut):
        return f"cut {op.of}"
    return call_of(op)


def call_of(op: Op) -> str:
    """An op with its attributes; without brackets where it has none."""
    shown = repr(op)
    return shown[:-2] if shown.endswith("()") else shown


def lines_of(nodes: Sequence[Tensor], lines: bool) -> list[str]:
    """The numbered lines of nodes in creation order."""
    number = {node.serial: k for k, node in enumerate(nodes)}
    found = []
    for node in nodes:
        operands = "".join(f" %{number[x.serial]}" for x in node.inputs)
        note = f"  # {node._name}" if node._name else ""
        if lines and node.line:
            note += f"  # {node.line}"
        found.append(
            f"%{number[node.serial]} = {head(node)}{operands} : {node.type}{note}"
        )
    return found


def bodies_of(nodes: Sequence[Tensor]) -> list[Body]:
    """The bodies that the nodes' ops refer to, each once, inner ones after outer."""
    found: dict[int, Body] = {}
    stack = list(reversed(nodes))
    while stack:
        for _, attribute in stack.pop().op.attributes():
            if isinstance(attribute, Body) and id(attribute) not in found:
                found[id(attribute)] = attribute
                stack.extend(reversed(attribute.nodes))
    return list(found.values())


def text(y: Any, *, lines: bool = False) -> str:
    """The graph of a tensor (or several), a line a node, in creation order.

    With `lines` each node tells the user's line that made it. Bodies of calls and
    loops follow.

    >>> import treadle as td
    >>> x = td.param("x", init=2.0)
    >>> print(td.text(x * 3.0 + td.sin(x)))
    %0 = parameter 'x' : float32[]
    %1 = constant 3 : float32[]
    %2 = Multiply %0 %1 : float32[]
    %3 = Sin %0 : float32[]
    %4 = Add %2 %3 : float32[]
    return %4
    """
    roots = [as_tensor(v) for v in (y if isinstance(y, (list, tuple)) else [y])]
    nodes = reach(roots)
    number = {node.serial: k for k, node in enumerate(nodes)}
    found = lines_of(nodes, lines)
    found.append("return " + ", ".join(f"%{number[r.serial]}" for r in roots))
    for body in bodies_of(nodes):
        number = {node.serial: k for k, node in enumerate(body.nodes)}
        found.append(f"\n{body.name}:")
        found += [f"  {line}" for line in lines_of(body.nodes, lines)]
        results = ", ".join(f"%{number[r.serial]}" for r in body.outputs)
        found.append(f"  return {results}")
    return "\n".join(found)


def expression(node: Tensor, depth: int = DEPTH) -> str:
    """A node as one short expression, cut off with ... below a depth."""
    variable = variable_of(node)
    if variable is not None and not node.inputs:
        return variable.name
    if not node.inputs:
        stored = node.stored
        return short(stored) if stored is not None else head(node)
    if depth == 0:
        return "..."
    name = type(node.op).__name__
    parts = [expression(x, depth - 1) for x in node.inputs]
    if name in _INFIX and len(parts) == 2:
        return f"({parts[0]} {_INFIX[name]} {parts[1]})"
    if name == "Negative":
        return f"-{parts[0]}"
    if len(parts) > 4:
        parts = [*parts[:3], "..."]
    return f"{name.lower()}({', '.join(parts)})"


@provide
def represent(node: Tensor) -> str:
    """The value where it is known, else shape, dtype and expression; runs nothing."""
    kind = "Tensor" if isinstance(node, VariableItem) else type(node).__name__
    if node.stored is not None and not isinstance(node.type, TupleType):
        value = np.array2string(
            node.stored, separator=", ", threshold=50, prefix=" " * (len(kind) + 1)
        )
        return f"{kind}({value}, {node.type})"
    shown = expression(node)
    if shown.startswith("(") and shown.endswith(")"):
        shown = shown[1:-1]
    return f"{kind}({shown} : {node.type})"


@provide
def represent_html(node: Tensor) -> str:
    """The same for a notebook: type and line, and the value or the expression."""
    value = html.escape(represent(node))
    where = html.escape(node.line)
    return (
        f"<div><code>{html.escape(str(node.type))}</code> "
        f"<small>{where}</small><pre>{value}</pre></div>"
    )
