"""The picture of a graph in Graphviz's language."""

from __future__ import annotations

from typing import Any

from treadle.base import trees
from treadle.base.types import TupleType
from treadle.graph.leaves import Leaf, as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.text import head
from treadle.graph.traversal import reach
from treadle.graph.variable import variable_of

__all__ = ["to_dot"]

COLORS = {
    "leaf": "#dbeafe",
    "trainable": "#fde68a",
    "elementwise": "#fef3c7",
    "movement": "#e5e7eb",
    "reduction": "#dcfce7",
    "contraction": "#fbcfe8",
    "control": "#ddd6fe",
}
OTHER = "#fed7aa"


def is_trainable(node: Tensor) -> bool:
    """Whether a node is a version of a trainable Variable."""
    variable = variable_of(node)
    return variable is not None and variable.trainable


def color_of(node: Tensor) -> str:
    """The color of a node by its family."""
    if is_trainable(node):
        return COLORS["trainable"]
    return COLORS.get(node.op.family, OTHER)


def shape_of(node: Tensor) -> str:
    """The shape as text; of several results, the shapes."""
    if isinstance(node.type, TupleType):
        return " ".join(str(list(t.shape)) for t in node.type)
    return str(list(node.type.shape))


def references(nodes: list[Tensor]) -> dict[int, int]:
    """How often each node, by serial, is read by another."""
    found = {node.serial: 0 for node in nodes}
    for node in nodes:
        for x in node.inputs:
            found[x.serial] += 1
    return found


def graph_of(y: Any) -> tuple[list[Tensor], dict[int, int]]:
    """The nodes of a picture and the number each is shown under."""
    roots = [as_tensor(leaf) for leaf in trees.flatten(y)[0]]
    nodes = reach(functions.written_out(roots))
    return nodes, {node.serial: k for k, node in enumerate(nodes)}


def to_dot(y: Any, title: str = "") -> str:
    """The graph of `y` (a tensor or a tree of them) as Graphviz text.

    A label tells number, op, whether it is trainable (1) or not (0), shape and how
    often it is read; the text is the same before and after running.

    >>> import treadle as td
    >>> x = td.param("x", init=2.0)
    >>> print(td.to_dot(x * x).splitlines()[3])
      n0 [label="0: parameter 'x'\\n(0, 1) [] refs=2", fillcolor="#fde68a"];
    """
    nodes, number = graph_of(y)
    count = references(nodes)
    lines = ["digraph treadle {", "  rankdir=BT;"]
    lines.append('  node [shape=box, style="rounded,filled", fontname="Helvetica"];')
    for node in nodes:
        k = number[node.serial]
        name = head(node) if isinstance(node.op, Leaf) else node.op.name
        name = name.replace("\\", "\\\\").replace('"', "'")
        label = f"{k}: {name}\\n({k}, {int(is_trainable(node))}) {shape_of(node)}"
        label += f" refs={count[node.serial]}"
        lines.append(f'  n{k} [label="{label}", fillcolor="{color_of(node)}"];')
    for node in nodes:
        for x in node.inputs:
            lines.append(f"  n{number[x.serial]} -> n{number[node.serial]};")
    if title:
        escaped = title.replace('"', "'")
        lines.append(f'  label="{escaped}";')
    return "\n".join([*lines, "}"])
