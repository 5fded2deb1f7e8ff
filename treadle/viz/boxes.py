"""Boxes with text, and the edges between them, as SVG."""

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
from treadle.base.dtypes import is_inexact
from treadle.base.types import TupleType
from treadle.graph.leaves import Leaf
from treadle.graph.tensor import Tensor
from treadle.graph.text import head, short
from treadle.graph.traversal import reach, users
from treadle.runtime.evaluate import evaluate
from treadle.viz.dot import COLORS, color_of, is_trainable, references, shape_of
from treadle.viz.layout import HEIGHT, place

COLLAPSE = 200  # nodes above which those of one module or line become one box
WISHED, MOST = 100, 400  # boxes above which outer modules are taken, then neighbors
CHARACTER, PADDING = 6.9, 18.0
GAP = 60.0  # between two drawings
MARGIN = 96.0  # for the names of stages
TITLE = 18.0  # height of a frame's title


@dataclass(frozen=True)
class Drawing:
    """The inside of an SVG, and its size."""

    width: float
    height: float
    inside: str


@dataclass
class Box:
    """Some nodes as one box: its lines of text, its color, its tool tip."""

    nodes: list[Tensor]
    lines: list[str] = field(default_factory=list)
    color: str = "#f3f4f6"
    tip: str = ""

    inside: Drawing | None = None  # what stands in a frame, below its one line

    @property
    def width(self) -> float:
        text = max(len(line) for line in self.lines) * CHARACTER + PADDING
        return max(text, self.inside.width) if self.inside else text

    @property
    def height(self) -> float:
        text = max(HEIGHT, 14.0 * len(self.lines) + 10.0)
        return self.inside.height + TITLE if self.inside else text


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
    keys: dict[int, tuple[str, str]] = {}
    for node in nodes:
        module = node._metadata.get("module") if node._metadata else None
        if module is None:
            near = [x for x in node.inputs if x._metadata and "module" in x._metadata]
            near = near or [x for x in node.inputs if keys[x.serial][0]]
            newest = max(near, key=attrgetter("serial"), default=None)
            module = keys[newest.serial][0] if newest is not None else ""
        line = f"{Path(node.filename).name}:{node.lineno}" if node.lineno else ""
        keys[node.serial] = str(module), line
    return [keys[node.serial] for node in nodes]


def collapsed(nodes: list[Tensor]) -> list[Box]:
    """Neighbors of one module and line in one box; no cycle can come of it.

    Too many boxes are those of outer modules, then pairs of neighbors.
    """
    return [boxed(key, members) for key, members in grouped(nodes, keys_of(nodes))]


Group = tuple[tuple[str, str], list[Tensor]]


def grouped(
    nodes: list[Tensor],
    keys: list[tuple[str, str]],
    wished: int = WISHED,
    most: int = MOST,
) -> list[Group]:
    """Runs of neighbors that share their module and line, of outer modules above so
    many as are wished; no cycle can be. A leaf goes to its first reader."""
    readers = users(nodes)
    leaves = [n for n in nodes if not n.inputs and n.serial in readers]
    apart = {leaf.serial for leaf in leaves}
    keyed = zip(nodes, keys, strict=True)
    inner = [(n, key) for n, key in keyed if n.serial not in apart]
    depth = max((module.count(".") for _, (module, _) in inner), default=0) + 1
    groups = _runs(inner, depth)
    while len(groups) > wished and depth > 1:
        depth -= 1
        groups = _runs(inner, depth)
    while len(groups) > most:
        pairs = [groups[k : k + 2] for k in range(0, len(groups), 2)]
        groups = [(pair[0][0], [n for _, g in pair for n in g]) for pair in pairs]
    home = {n.serial: members for _, members in groups for n in members}
    for leaf in leaves:
        first = min(readers[leaf.serial], key=attrgetter("serial"))
        home[first.serial].append(leaf)
    return groups


def _runs(keyed: list[tuple[Tensor, tuple[str, str]]], depth: int) -> list[Group]:
    """Neighbors that share line and outer module, down to a depth of its path."""
    groups: list[Group] = []
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
        cotangents = derivatives([roots[0]], [seed_for(roots[0])], chosen, "zero")
        for node, g in zip(chosen, evaluate(cotangents), strict=True):
            notes.setdefault(node.serial, []).append(f"grad {brief(g)}")
    return notes


def brief(value: np.ndarray[Any, Any]) -> str:
    """A value in one line: itself if small, else its range."""
    if value.size <= 4:
        return short(value)
    return f"{value.min():.4g} .. {value.max():.4g}"


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


def side_by_side(drawings: list[Drawing]) -> str:
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


def edges_of(boxes: list[Box]) -> list[tuple[int, int]]:
    """The edges between the nodes of boxes, by the numbers of these."""
    home = {node.serial: k for k, box in enumerate(boxes) for node in box.nodes}
    return [
        (home[x.serial], k)
        for k, box in enumerate(boxes)
        for node in box.nodes
        for x in node.inputs
        if x.serial in home and home[x.serial] != k
    ]


def draw(
    boxes: list[Box],
    edges: list[tuple[int, int]] | None = None,
    levels: list[int] | None = None,
) -> Drawing:
    """Boxes and the edges between their nodes, or those given, leaves at the top.

    With `levels` each row is told at its left.
    """
    edges = edges_of(boxes) if edges is None else edges
    layout = place(
        [box.width for box in boxes], edges, [box.height for box in boxes], levels
    )
    parts = []
    for (a, b), route in layout.routes.items():
        points = [(route[0][0], route[0][1] + boxes[a].height / 2), *route[1:-1]]
        points.append((route[-1][0], route[-1][1] - boxes[b].height / 2))
        parts.append(curve(points))
    for k, box in enumerate(boxes):
        parts.append(drawn(box, layout.x[k], layout.y[k], box.height))
    inside, width = "\n".join(parts), layout.width
    if levels is not None:
        rows = dict(zip(levels, layout.y, strict=True))
        counts = Counter(n for k, n in zip(boxes, levels, strict=True) for _ in k.nodes)
        bands = [band(k, y, counts[k], width + MARGIN) for k, y in sorted(rows.items())]
        inside = f'<g transform="translate({MARGIN:.0f} 0)">{inside}</g>'
        inside, width = "\n".join([*bands, inside]), width + MARGIN
    return Drawing(width, layout.height, inside)


def band(level: int, y: float, count: int, width: float) -> str:
    """The name of a stage at the left of its row, on a light ground."""
    nodes = f"{count} node" + "s" * (count != 1)
    top, ground = y - 34.0, "#f9fafb" if level % 2 else "#eef2f7"
    return (
        f'<rect x="0" y="{top:.1f}" width="{width:.1f}" height="68" fill="{ground}"/>'
        f'<text x="12" y="{y - 3:.1f}" font-weight="bold">stage {level}</text>'
        f'<text x="12" y="{y + 11:.1f}" fill="#6b7280">{nodes}</text>'
    )


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
    if box.inside is not None:
        return framed(box, box.inside, left, top)
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


def framed(box: Box, inside: Drawing, left: float, top: float) -> str:
    """A frame with its title and what stands in it."""
    title = html.escape(box.lines[0])
    shift = (box.width - inside.width) / 2
    return (
        f"<g><title>{html.escape(box.tip)}</title>"
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="9" fill="{box.color}" stroke="#64748b" '
        'stroke-dasharray="5 3"/>'
        f'<text x="{left + 10:.1f}" y="{top + 16:.1f}" font-weight="bold" '
        f'fill="#334155">{title}</text>'
        f'<g transform="translate({left + shift:.1f} {top + TITLE:.1f})">'
        f"{inside.inside}</g></g>"
    )
