"""The picture of a graph as SVG, made without any other program, in several forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, overload

from treadle.base import trees
from treadle.base.errors import ArgumentError
from treadle.base.notebook import in_notebook
from treadle.engines.lowered import Outlined, Piece
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach, stages
from treadle.runtime.explain import explain
from treadle.runtime.profile import Profile
from treadle.viz.boxes import (
    COLLAPSE,
    Box,
    Drawing,
    Picture,
    boxed,
    boxes_of,
    describe,
    draw,
    grouped,
    keys_of,
    notes_of,
    side_by_side,
)
from treadle.viz.dot import FORMS, PALETTE, block_color
from treadle.viz.explorer import entries_of, explorer, steps_of
from treadle.viz.page import Page

__all__ = ["show"]

FRAMES = 60  # frames above which those of outer modules are taken
FEW = 6  # nodes of a frame that are shown one by one in a large graph
STEPS = 150  # steps of a program above which neighbors share a box
WIDE = 44  # characters of a line in a box


@overload
def show(
    y: Any,
    *,
    by: str = ...,
    values: bool = ...,
    gradients: bool = ...,
    optimized: bool = ...,
    path: str | Path | None = ...,
    browser: Literal[False] = ...,
    profile: Profile | None = ...,
) -> Picture: ...
@overload
def show(
    y: Any,
    *,
    by: str = ...,
    values: bool = ...,
    gradients: bool = ...,
    optimized: bool = ...,
    path: str | Path | None = ...,
    browser: bool,
    profile: Profile | None = ...,
) -> Page: ...
def show(
    y: Any,
    *,
    by: str = "op",
    values: bool = False,
    gradients: bool = False,
    optimized: bool = False,
    path: str | Path | None = None,
    browser: bool = False,
    profile: Profile | None = None,
) -> Picture | Page:
    """The graph of `y` as a picture; with values and gradients of a scalar y if asked.

    `by` is "op"; "stage": a row for each stage, of nodes that do not depend on each
    other; "module": frames around the nodes of one module; or "memory": the steps of
    the compiled program, those that write to one place of its memory in one color.
    Above 200 nodes those of one module, or of one of the user's lines, become one box.
    With `optimized` the graph that is compiled stands beside the one that was built.
    With `path` the SVG is written there too.

    With `browser`, or a `path` that ends in .html, it is a page instead, with all it
    needs in it: to pan, zoom and search, to open and close modules, and to click on a
    node for its type, line, memory and, with the `profile` of a run, time. Without a
    path, and where no notebook shows it, it is opened in the browser.

    >>> x = td.param("x", init=2.0)
    >>> picture = td.show(x * 3.0 + td.sin(x), values=True)
    >>> picture.svg.startswith("<svg"), "Multiply" in picture.svg
    (True, True)
    >>> "stage 2" in td.show(x * 3.0 + td.sin(x), by="stage").svg
    True
    """
    if by not in FORMS:
        raise ArgumentError(f"a picture is by one of {', '.join(FORMS)}, not {by!r}")
    leaves = trees.flatten(y)[0]
    roots = functions.written_out([as_tensor(leaf) for leaf in leaves])
    if browser or (path is not None and Path(path).suffix == ".html"):
        title = "graph" if path is None else Path(path).stem
        page = page_of(leaves, title, by, values, gradients, optimized, profile)
        if path is not None:
            page.save(path)
        elif not in_notebook():
            page.open()
        return page
    if by == "memory":
        drawings = [memory(*explain(*roots).lowered.outline())]
    else:
        drawings = [form(roots, by, values, gradients)]
    if optimized:
        drawings.append(form(list(explain(*roots).after), by, False, False))
    picture = Picture(side_by_side(drawings))
    if path is not None:
        picture.save(path)
    return picture


def page_of(
    leaves: Sequence[Any],
    title: str,
    by: str = "op",
    values: bool = False,
    gradients: bool = False,
    optimized: bool = False,
    profile: Profile | None = None,
) -> Page:
    """The graph of tensors as a page, under a title."""
    recorded = [as_tensor(leaf) for leaf in leaves]
    roots = functions.written_out(recorded)
    if by == "memory":
        lowered = explain(*roots).lowered
        forms = {"program": steps_of(*lowered.outline(), profile)}
    else:
        notes = notes_of(reach(roots), roots, values, gradients)
        forms = {"recorded": entries_of(roots, recorded, notes, by, profile)}
    if optimized:
        after = list(explain(*roots).after)
        forms["compiled"] = entries_of(after, by=by, profile=profile)
    return explorer(forms, title)


def form(roots: list[Tensor], by: str, values: bool, gradients: bool) -> Drawing:
    """A graph in one of the forms."""
    if by == "stage":
        return staged(roots, values, gradients)
    if by == "module":
        return framed_modules(roots)
    return draw(boxes_of(roots, values, gradients))


def staged(roots: list[Tensor], values: bool, gradients: bool) -> Drawing:
    """A row for each stage; of many nodes, a box for each."""
    nodes = reach(roots)
    level = stages(nodes)
    if len(nodes) <= COLLAPSE:
        boxes = boxes_of(roots, values, gradients)
        levels = [level[box.nodes[0].serial] for box in boxes]
        for box, k in zip(boxes, levels, strict=True):
            box.color = PALETTE[k % len(PALETTE)]
        return draw(boxes, levels=levels)
    groups: dict[int, list[Tensor]] = {}
    for node in nodes:
        groups.setdefault(level[node.serial], []).append(node)
    boxes = []
    for k in sorted(groups):
        ops = Counter(node.op.name for node in groups[k])
        counts = [f"{count} {name}" for name, count in ops.most_common(3)]
        more = "..." if len(ops) > 3 else ""
        box = Box(groups[k], [", ".join(counts) + more], PALETTE[k % len(PALETTE)])
        box.tip = "\n".join(f"{count} {name}" for name, count in ops.most_common())
        boxes.append(box)
    links = [(k, k + 1) for k in range(len(boxes) - 1)]
    return draw(boxes, links, list(range(len(boxes))))


def framed_modules(roots: list[Tensor]) -> Drawing:
    """Frames around neighbors of one module; leaves stand with their first reader."""
    nodes = reach(roots)
    keys = [(module, "") for module, _ in keys_of(nodes)]
    groups = grouped(nodes, keys, FRAMES, len(nodes))
    boxes = [frame(module, members, len(nodes)) for (module, _), members in groups]
    return draw(boxes)


def frame(module: str, members: list[Tensor], total: int) -> Box:
    """The nodes of one module in a frame; in a large graph, those of a line are one."""
    nodes = sorted(members, key=attrgetter("serial"))
    if total > COLLAPSE and len(nodes) > FEW:
        boxes = [boxed(("", ""), nodes)]
    else:
        boxes = [Box([node]) for node in nodes]
        for one in boxes:
            describe(one, {})
    name = module or "outside of modules"
    box = Box(nodes, [name], "#f8fafc", f"{name}: {len(nodes)} nodes")
    box.inside = draw(boxes)
    return box


def memory(pieces: Sequence[Piece], steps: Sequence[Outlined]) -> Drawing:
    """The steps of a program, colored by where in its memory they write."""
    by_number = {piece.number: piece for piece in pieces}
    read = {n for step in steps for n in step.read}
    outside = [p for p in pieces if p.place in ("argument", "constant")]
    boxes: list[Box] = []
    writer: dict[int, int] = {}
    for piece in (p for p in outside if p.number in read):
        writer[piece.number] = len(boxes)
        boxes.append(Box([], [piece.place, piece.type], "#ffffff", "not in the arena"))
    size = -(-len(steps) // STEPS)
    links = []
    for k in range(0, len(steps), size or 1):
        group = steps[k : k + size]
        for number in dict.fromkeys(n for step in group for n in step.read):
            if number in writer:
                links.append((writer[number], len(boxes)))
        for step in group:
            writer.update(dict.fromkeys(step.written, len(boxes)))
        boxes.append(written(group, k, by_number))
    return draw(boxes, [(a, b) for a, b in links if a != b])


def written(group: Sequence[Outlined], first: int, pieces: dict[int, Piece]) -> Box:
    """A step, or some that follow each other, with the memory that is written."""
    step = group[-1]
    out = [pieces[n] for n in step.written]
    name = step.title if len(group) == 1 else f"{len(group)} steps to {step.title}"
    lines = [f"{first}: {name}" if len(name) < WIDE else f"{first}: {name[:WIDE]}..."]
    for piece in out[:3]:
        place = piece.place
        if piece.block >= 0:
            place = f"block {piece.block} at {piece.offset:,}"
        lines.append(f"{piece.type} {place}")
    origins = [line for one in group for line in one.lines]
    tip = "\n".join([*(one.title for one in group), *dict.fromkeys(origins)])
    return Box([], lines, block_color(out[0].block if out else -1), tip)
