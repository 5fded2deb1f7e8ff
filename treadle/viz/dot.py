"""The picture of a graph in Graphviz's language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from treadle.base import trees
from treadle.base.errors import ArgumentError
from treadle.base.types import TupleType
from treadle.graph.leaves import Leaf, as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.text import head
from treadle.graph.traversal import reach, stages
from treadle.graph.variable import variable_of
from treadle.runtime.explain import explain

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
FORMS = ("op", "stage", "module", "memory")  # of pictures
# Light colors that follow each other and are told apart.
PALETTE = (
    "#bfdbfe", "#fde68a", "#bbf7d0", "#fbcfe8", "#ddd6fe", "#fed7aa",
    "#a5f3fc", "#d9f99d", "#fecaca", "#e9d5ff", "#99f6e4", "#fef08a",
)  # fmt: skip


def block_color(block: int) -> str:
    """The color of a block of memory; none for what lies outside of the arena."""
    return PALETTE[block % len(PALETTE)] if block >= 0 else "#f3f4f6"


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
    """The number of reads of each node by others, by serial."""
    counts = {node.serial: 0 for node in nodes}
    for node in nodes:
        for x in node.inputs:
            counts[x.serial] += 1
    return counts


def graph_of(y: Any) -> tuple[list[Tensor], dict[int, int]]:
    """The nodes of a picture and the number each is shown under."""
    roots = [as_tensor(leaf) for leaf in trees.flatten(y)[0]]
    nodes = reach(functions.written_out(roots))
    return nodes, {node.serial: k for k, node in enumerate(nodes)}


def to_dot(y: Any, title: str = "", by: str = "op") -> str:
    """The graph of `y` (a tensor or a tree of them) as Graphviz text.

    A label tells number, op, whether it is trainable (1) or not (0), shape and how
    often it is read; the text is the same before and after running. `by` is as in
    `td.show`: stages are rows, modules clusters, blocks of memory colors.

    >>> x = td.param("x", init=2.0)
    >>> print(td.to_dot(x * x).splitlines()[3])
      n0 [label="0: parameter 'x'\\n(0, 1) [] refs=2", fillcolor="#fde68a"];
    """
    if by not in FORMS:
        raise ArgumentError(f"a picture is by one of {', '.join(FORMS)}, not {by!r}")
    lines = ["digraph treadle {", "  rankdir=BT;"]
    lines.append('  node [shape=box, style="rounded,filled", fontname="Helvetica"];')
    lines += list(_program(y) if by == "memory" else _nodes(y, by))
    if title:
        lines.append(f'  label="{_quoted(title)}";')
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', "'")


def _nodes(y: Any, by: str) -> Iterator[str]:
    """A node and its edges, in rows or clusters as the form says."""
    nodes, number = graph_of(y)
    count = references(nodes)
    level = stages(nodes)
    first = {x.serial: node for node in reversed(nodes) for x in node.inputs}
    rows: dict[int, list[str]] = {}
    clusters: dict[str, list[str]] = {}
    for node in nodes:
        k, stage = number[node.serial], level[node.serial]
        name = _quoted(head(node) if isinstance(node.op, Leaf) else node.op.name)
        label = f"{k}: {name}\\n({k}, {int(is_trainable(node))}) {shape_of(node)}"
        label += f" refs={count[node.serial]}"
        color = color_of(node)
        if by == "stage":
            label += f" stage={stage}"
            color = PALETTE[stage % len(PALETTE)]
            rows.setdefault(stage, []).append(f"n{k};")
        # A leaf stands with what reads it first.
        near = first.get(node.serial, node) if not node.inputs else node
        module = str((near._metadata or {}).get("module", ""))
        line = f'n{k} [label="{label}", fillcolor="{color}"];'
        if by == "module" and module:
            clusters.setdefault(module, []).append(line)
        else:
            yield f"  {line}"
    for stage in sorted(rows):
        yield f"  {{ rank=same; {' '.join(rows[stage])} }}"
    for k, module in enumerate(sorted(clusters)):
        yield f"  subgraph cluster_{k} {{"
        yield f'    label="{_quoted(module)}"; style="rounded,dashed";'
        yield from (f"    {line}" for line in clusters[module])
        yield "  }"
    for node in nodes:
        for x in node.inputs:
            yield f"  n{number[x.serial]} -> n{number[node.serial]};"


def _program(y: Any) -> Iterator[str]:
    """The arguments and steps of the program, by the memory that they are in."""
    roots = [as_tensor(leaf) for leaf in trees.flatten(y)[0]]
    pieces, steps = explain(*roots).lowered.outline()
    by_number = {piece.number: piece for piece in pieces}
    read = {n for step in steps for n in step.read}
    writer: dict[int, str] = {}
    for piece in pieces:
        if piece.place in ("argument", "constant") and piece.number in read:
            writer[piece.number] = f"b{piece.number}"
            label = f"{piece.place}\\n{piece.type}"
            yield f'  b{piece.number} [label="{label}", fillcolor="#ffffff"];'
    for k, step in enumerate(steps):
        label = f"{k}: {_quoted(step.title)}"
        block = by_number[step.written[0]].block if step.written else -1
        for piece in (by_number[n] for n in step.written):
            place = f"block {piece.block}" if piece.block >= 0 else piece.place
            label += f"\\n{piece.type} {place}"
        yield f'  s{k} [label="{label}", fillcolor="{block_color(block)}"];'
        for n in step.read:
            if n in writer:
                yield f"  {writer[n]} -> s{k};"
        writer.update(dict.fromkeys(step.written, f"s{k}"))
