"""The text of a graph, a line a node, and the one-line forms of a tensor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.notebook import escaped
from treadle.base.types import TupleType
from treadle.graph.body import Body
from treadle.graph.leaves import Argument, Constant, Cut, Draw, as_tensor
from treadle.graph.op import Op
from treadle.graph.operators import functions, provide
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
    "NotEqual": "!=",
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


def head(node: Tensor, names: Mapping[int, str] | None = None) -> str:
    """The text of a node without its inputs."""
    variable = variable_of(node)
    op = node.op
    if variable is not None and not node.inputs:
        kind = type(variable).__name__.lower()
        return f"{kind} {variable.name!r}"
    if isinstance(op, Constant) and (value := node.array) is not None:
        return f"constant {short(value)}"
    if isinstance(op, Argument):
        return f"argument {op.position}"
    if isinstance(op, Draw) and (value := node.array) is not None:
        seed, number = value.tolist()
        return f"draw seed={seed} number={number}"
    if isinstance(op, Cut):
        return f"cut {op.of}"
    return call_of(op, names)


def call_of(op: Op, names: Mapping[int, str] | None = None) -> str:
    """An op with its attributes, bodies by name; no brackets where it has none."""
    attributes = dict(op.attributes())
    if names and any(isinstance(v, Body) for v in attributes.values()):
        parts = [
            f"{k}=@{names[id(v)]}" if isinstance(v, Body) else f"{k}={v!r}"
            for k, v in attributes.items()
        ]
        return f"{op.name}({', '.join(parts)})"
    shown = repr(op)
    return shown[:-2] if shown.endswith("()") else shown


def note_of(node: Tensor, lines: bool) -> str:
    """The name a user gave and, if asked for, file and line."""
    notes = [node._name] if node._name else []
    if lines and node.lineno:
        notes.append(f"@ {Path(node.filename).name}:{node.lineno}")
    return f"  # {' '.join(notes)}" if notes else ""


def lines_of(
    nodes: Sequence[Tensor],
    outputs: Sequence[Tensor],
    names: Mapping[int, str],
    lines: bool,
) -> Iterator[str]:
    """The numbered lines of nodes, and what is returned."""
    number = {node.serial: k for k, node in enumerate(nodes)}
    for k, node in enumerate(nodes):
        operands = "".join(f" %{number[x.serial]}" for x in node.inputs)
        note = note_of(node, lines)
        yield f"%{k} = {head(node, names)}{operands} : {node.type}{note}"
    yield "return " + ", ".join(f"%{number[y.serial]}" for y in outputs)


def bodies_of(nodes: Sequence[Tensor]) -> list[Body]:
    """The bodies that the nodes' ops refer to, each once, inner ones after outer."""
    inner_bodies: dict[int, Body] = {}
    stack = list(reversed(nodes))
    while stack:
        for _, attribute in stack.pop().op.attributes():
            if isinstance(attribute, Body) and id(attribute) not in inner_bodies:
                inner_bodies[id(attribute)] = attribute
                stack.extend(reversed(attribute.nodes))
    return list(inner_bodies.values())


def named(bodies: Sequence[Body]) -> dict[int, str]:
    """A name for each body, by its id: its own, numbered where several share it."""
    names: dict[int, str] = {}
    taken: Counter[str] = Counter()
    for body in bodies:
        taken[body.name] += 1
        count = taken[body.name]
        names[id(body)] = body.name if count == 1 else f"{body.name} {count}"
    return names


def text(y: Any, *, lines: bool = False) -> str:
    """The graph of a tensor (or a tree of them), a line a node, in creation order.

    With `lines` each node tells the user's line that made it. Bodies of calls and
    loops follow.

    >>> x = td.param("x", init=2.0)
    >>> print(td.text(x * 3.0 + td.sin(x)))
    %0 = parameter 'x' : float32[]
    %1 = constant 3 : float32[]
    %2 = Multiply %0 %1 : float32[]
    %3 = Sin %0 : float32[]
    %4 = Add %2 %3 : float32[]
    return %4
    """
    roots = functions.written_out([as_tensor(leaf) for leaf in trees.flatten(y)[0]])
    nodes = reach(roots)
    bodies = bodies_of(nodes)
    names = named(bodies)
    text_lines = list(lines_of(nodes, roots, names, lines))
    for body in bodies:
        text_lines.append(f"\n{names[id(body)]}:")
        arguments = {x.serial for x in body.arguments}
        rest = [node for node in body.nodes if node.serial not in arguments]
        inner = lines_of([*body.arguments, *rest], body.outputs, names, lines)
        text_lines += [f"  {line}" for line in inner]
    return "\n".join(text_lines)


def expression(node: Tensor, depth: int = DEPTH) -> str:
    """A node as one short expression, cut off with ... below a depth."""
    variable = variable_of(node)
    if variable is not None and not node.inputs:
        return variable.name
    if not node.inputs:
        stored = node.array
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
    return f"{name.lower()}({', '.join(map(bare, parts))})"


def bare(expression: str) -> str:
    """An infix expression without the brackets around it; each has its own."""
    return expression[1:-1] if expression.startswith("(") else expression


@provide
def represent(node: Tensor) -> str:
    """The value where it is known, else shape, dtype and expression; runs nothing."""
    kind = "Tensor" if isinstance(node, VariableItem) else type(node).__name__
    stored = node.array
    if stored is not None and not isinstance(node.type, TupleType):
        value = np.array2string(
            stored, separator=", ", threshold=50, prefix=" " * (len(kind) + 1)
        )
        return f"{kind}({value}, {node.type})"
    (whole,) = functions.written_out([node])
    return f"{kind}({bare(expression(whole))} : {node.type})"


@provide
def represent_html(node: Tensor) -> str:
    """The same for a notebook: type and line, and the value or the expression."""
    value = escaped(represent(node))
    where = escaped(node.line)
    return (
        f"<div><code>{escaped(str(node.type))}</code> "
        f"<small>{where}</small><pre>{value}</pre></div>"
    )
