"""The picture of a graph as SVG, made without any other program."""

from __future__ import annotations

import html
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from treadle.autodiff.gradient import derivatives
from treadle.autodiff.reverse import seed_for
from treadle.base import trees
from treadle.base.dtypes import is_inexact
from treadle.base.types import TupleType
from treadle.graph.leaves import Leaf, as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.text import head, short
from treadle.graph.traversal import reach, users
from treadle.runtime.evaluate import evaluate
from treadle.runtime.explain import explain
from treadle.viz.dot import COLORS, color_of, is_trainable, references, shape_of
from treadle.viz.layout import HEIGHT, place

__all__ = ["Picture", "show"]

COLLAPSE = 200  # nodes above which those of one module or line become one box
WISHED, MOST = 100, 400  # boxes above which outer modules are taken, then neighbors
CHARACTER, PADDING = 6.9, 18.0
GAP = 60.0  # between two drawings


@dataclass
class Box:
    """Some nodes as one box: its lines of text, its color, its tool tip."""

    nodes: list[Tensor]
    lines: list[str] = field(default_factory=list)
    color: str = "#f3f4f6"
    tip: str = ""

    @property
    def width(self) -> float:
        return max(len(line) for line in self.lines) * CHARACTER + PADDING


class Picture:
    """An SVG: shown by notebooks, saved with `save(path)`."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<picture, {len(self.svg):,} characters of SVG: save(path) writes it>"


def keys_of(nodes: list[Tensor]) -> list[tuple[str, str]]:
    """The module and the user's line of each node, for those who share a box.

    A node without a module, such as one of a gradient, takes it from its newest input
    that has one: what derives a layer reads what the layer computed.
    """
    found: dict[int, tuple[str, str]] = {}
    for node in nodes:
        own = node._metadata.get("module") if node._metadata else None
        if own is None:
            near = [x for x in node.inputs if x._metadata and "module" in x._metadata]
            near = near or [x for x in node.inputs if found[x.serial][0]]
            newest = max(near, key=attrgetter("serial"), default=None)
            own = found[newest.serial][0] if newest is not None else ""
        line = f"{Path(node.filename).name}:{node.lineno}" if node.lineno else ""
        found[node.serial] = str(own), line
    return [found[node.serial] for node in nodes]


def collapsed(nodes: list[Tensor]) -> list[Box]:
    """Neighbors of one module and line in one box; no cycle can come of it.

    A leaf goes to its first reader. Too many boxes are those of outer modules, then
    pairs of neighbors.
    """
    readers = users(nodes)
    leaves = [n for n in nodes if not n.inputs and n.serial in readers]
    apart = {leaf.serial for leaf in leaves}
    keyed = zip(nodes, keys_of(nodes), strict=True)
    inner = [(n, key) for n, key in keyed if n.serial not in apart]
    depth = max(module.count(".") for _, (module, _) in inner) + 1
    groups = grouped(inner, depth)
    while len(groups) > WISHED and depth > 1:
        depth -= 1
        groups = grouped(inner, depth)
    while len(groups) > MOST:
        pairs = [groups[k : k + 2] for k in range(0, len(groups), 2)]
        groups = [(pair[0][0], [n for _, g in pair for n in g]) for pair in pairs]
    home = {n.serial: members for _, members in groups for n in members}
    for leaf in leaves:
        first = min(readers[leaf.serial], key=attrgetter("serial"))
        home[first.serial].append(leaf)
    return [boxed(key, members) for key, members in groups]


def grouped(
    keyed: list[tuple[Tensor, tuple[str, str]]], depth: int
) -> list[tuple[tuple[str, str], list[Tensor]]]:
    """Runs of neighbors that share line and outer module, down to a depth of path."""
    groups: list[tuple[tuple[str, str], list[Tensor]]] = []
    for node, (module, line) in keyed:
        key = ".".join(module.split(".")[:depth]), line
        if groups and groups[-1][0] == key:
            groups[-1][1].append(node)
        else:
            groups.append((key, [node]))
    return groups


def boxed(key: tuple[str, str], members: list[Tensor]) -> Box:
    """Nodes as one box that tells the module, the line, how many and which ops."""
    box = Box(members)
    if len(members) == 1:
        describe(box, {})
        return box
    module, line = key
    box.lines = [part for part in (module, line) if part] or ["..."]
    box.lines.append(f"{len(members)} nodes")
    ops = Counter(node.op.name for node in members)
    box.tip = "\n".join(f"{count} {name}" for name, count in ops.most_common(20))
    box.color = COLORS["trainable"] if any(map(is_trainable, members)) else box.color
    return box


def describe(box: Box, notes: dict[int, list[str]]) -> None:
    """The text of a box of one node."""
    (node,) = box.nodes
    name = head(node) if isinstance(node.op, Leaf) else node.op.name
    box.lines = [name if len(name) < 40 else name[:37] + "..."]
    types = node.type
    dtype = "" if isinstance(types, TupleType) else types.dtype.name
    box.lines.append(f"{dtype}{shape_of(node)}")
    box.lines += notes.get(node.serial, [])
    box.color = color_of(node)
    box.tip = f"{node.name}: {node.op}\\n{node.line}".replace("\\n", "\n")


def notes_of(
    nodes: list[Tensor], roots: list[Tensor], values: bool, gradients: bool
) -> dict[int, list[str]]:
    """The lines that tell values and gradients, by serial."""
    notes: dict[int, list[str]] = {}
    plain = [n for n in nodes if not isinstance(n.type, TupleType)]
    if values:
        for node, value in zip(plain, evaluate(plain), strict=True):
            notes.setdefault(node.serial, []).append(f"= {brief(value)}")
    if gradients:
        chosen = [n for n in plain if is_inexact(n.type.dtype)]
        found = derivatives([roots[0]], [seed_for(roots[0])], chosen, "zero")
        for node, g in zip(chosen, evaluate(found), strict=True):
            notes.setdefault(node.serial, []).append(f"grad {brief(g)}")
    return notes


def brief(value: np.ndarray[Any, Any]) -> str:
    """A value in one line: itself if small, else its range."""
    if value.size <= 4:
        return short(value)
    return f"{value.min():.4g} .. {value.max():.4g}"


def show(
    y: Any,
    *,
    values: bool = False,
    gradients: bool = False,
    optimized: bool = False,
    path: str | Path | None = None,
) -> Picture:
    """The graph of `y` as a picture; with values and gradients of a scalar y if asked.

    Above 200 nodes those of one module, or of one of the user's lines, become one box.
    With `optimized` the graph that is compiled stands beside the one that was built.
    With `path` the SVG is written there too.

    >>> import treadle as td
    >>> x = td.param("x", init=2.0)
    >>> picture = td.show(x * 3.0 + td.sin(x), values=True)
    >>> picture.svg.startswith("<svg"), "Multiply" in picture.svg
    (True, True)
    """
    leaves = trees.flatten(y)[0]
    roots = functions.written_out([as_tensor(leaf) for leaf in leaves])
    drawings = [draw(boxes_of(roots, values, gradients))]
    if optimized:
        after = list(explain(*roots).after)
        drawings.append(draw(boxes_of(after, False, False)))
    picture = Picture(beside(drawings))
    if path is not None:
        picture.save(path)
    return picture


def boxes_of(roots: list[Tensor], values: bool, gradients: bool) -> list[Box]:
    """A box for each node of a graph, or for several of them where there are many."""
    nodes = reach(roots)
    if len(nodes) > COLLAPSE:
        return collapsed(nodes)
    notes = notes_of(nodes, roots, values, gradients)
    count = references(nodes)
    boxes = [Box([node]) for node in nodes]
    for box in boxes:
        describe(box, notes)
        box.tip += f"\nread {count[box.nodes[0].serial]} times"
    return boxes


@dataclass(frozen=True)
class Drawing:
    """The inside of an SVG, and its size."""

    width: float
    height: float
    inside: str


def beside(drawings: list[Drawing]) -> str:
    """Drawings from left to right as one SVG."""
    width = sum(d.width for d in drawings) + GAP * (len(drawings) - 1)
    height = max(d.height for d in drawings)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" '
        f'height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="Menlo, Consolas, monospace" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" fill="#6b7280"/>'
        "</marker></defs>",
    ]
    left = 0.0
    for one in drawings:
        parts.append(f'<g transform="translate({left:.0f} 0)">{one.inside}</g>')
        left += one.width + GAP
    return "\n".join([*parts, "</svg>"])


def draw(boxes: list[Box]) -> Drawing:
    """Boxes and the edges between their nodes, leaves at the top."""
    home = {node.serial: k for k, box in enumerate(boxes) for node in box.nodes}
    edges = [
        (home[x.serial], k)
        for k, box in enumerate(boxes)
        for node in box.nodes
        for x in node.inputs
        if home[x.serial] != k
    ]
    tall = [max(HEIGHT, 14.0 * len(box.lines) + 10.0) for box in boxes]
    layout = place([box.width for box in boxes], edges, tall)
    parts = []
    for (a, b), route in layout.routes.items():
        points = [(route[0][0], route[0][1] + tall[a] / 2), *route[1:-1]]
        points.append((route[-1][0], route[-1][1] - tall[b] / 2))
        parts.append(curve(points))
    for k, box in enumerate(boxes):
        parts.append(drawn(box, layout.x[k], layout.y[k], tall[k]))
    return Drawing(layout.width, layout.height, "\n".join(parts))


def curve(points: list[tuple[float, float]]) -> str:
    """A smooth line through points, from top to bottom, upright at both ends."""
    inner = [
        (c[0] - a[0]) / (c[1] - a[1]) for a, c in zip(points, points[2:], strict=False)
    ]
    slopes = [0.0, *inner, 0.0]
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for k, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        third = (y1 - y0) / 2.5
        left, right = x0 + slopes[k] * third, x1 - slopes[k + 1] * third
        path += f" C{left:.1f} {y0 + third:.1f} {right:.1f} {y1 - third:.1f}"
        path += f" {x1:.1f} {y1:.1f}"
    return (
        f'<path d="{path}" fill="none" stroke="#6b7280" stroke-width="1.1" '
        'marker-end="url(#tip)"/>'
    )


def drawn(box: Box, x: float, y: float, height: float) -> str:
    """A box with its text and tool tip."""
    left, top = x - box.width / 2, y - height / 2
    parts = [
        f"<g><title>{html.escape(box.tip)}</title>",
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" '
        f'height="{height:.1f}" rx="7" fill="{box.color}" stroke="#9ca3af"/>',
    ]
    first = y - 7.0 * (len(box.lines) - 1) + 4.0
    for k, line in enumerate(box.lines):
        weight = ' font-weight="bold"' if k == 0 else ' fill="#374151"'
        parts.append(
            f'<text x="{x:.1f}" y="{first + 14.0 * k:.1f}" text-anchor="middle"'
            f"{weight}>{html.escape(line)}</text>"
        )
    return "".join([*parts, "</g>"])
