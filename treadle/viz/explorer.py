"""A graph as a page to walk about in: pan, zoom, search, open and close modules."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from treadle.base.types import TupleType
from treadle.engines.lowered import Outlined, Piece
from treadle.graph.leaves import Leaf
from treadle.graph.origin import Origin
from treadle.graph.tensor import Tensor
from treadle.graph.text import head
from treadle.graph.traversal import reach, stages, users
from treadle.runtime.profile import Profile, Timed
from treadle.viz.boxes import keys_of
from treadle.viz.dot import block_color, color_of, is_trainable
from treadle.viz.page import Page, as_script, filled, library
from treadle.viz.tree import NodeGroup, contiguous, grouped

WIDE = 400  # characters of an attribute list, a value or a line of source
DERIVED = "gradient"  # the group of what was derived


@dataclass
class GraphEntry:
    """One box of the page: what it is, and what is shown when it is chosen."""

    label: str
    type: str = ""
    path: tuple[str, ...] = ()
    line: str = ""
    color: str = "#f3f4f6"
    bytes: int = 0
    seconds: float = 0.0
    by_line: bool = False  # whether the seconds are those of its whole line
    inputs: list[int] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The file and the number of the line, without the source."""
        before, colon, _ = self.line.partition(": ")
        return Path(before).name if colon or before else ""


def entries_of(
    roots: Sequence[Tensor],
    recorded: Sequence[Tensor] | None = None,
    notes: Mapping[int, list[str]] | None = None,
    by: str = "op",
    profile: Profile | None = None,
) -> list[GraphEntry]:
    """An entry for each node, in topological order; leaves stand at their readers.

    Nodes that are not in the graph as it was `recorded` were derived. `notes` are lines
    by serial, and `by="stage"` makes groups of stages.
    """
    nodes, paths = _ordered(reach(roots), recorded, by)
    number = {node.serial: k for k, node in enumerate(nodes)}
    seconds = _by_name(profile, Profile.by_line)
    lines: dict[Origin, str] = {}
    entries = []
    for node in nodes:
        if node.origin not in lines:
            lines[node.origin] = node.line
        entry = _entry(node, paths[node.serial], lines[node.origin])
        entry.inputs = [number[x.serial] for x in node.inputs]
        for note in (notes or {}).get(node.serial, []):
            name, _, value = note.partition(" ")
            entry.facts["value" if name == "=" else "gradient"] = value[:WIDE]
        entry.seconds = seconds.get(entry.line, 0.0)
        entry.by_line = bool(entry.seconds)
        entries.append(entry)
    return entries


def _ordered(
    nodes: list[Tensor], recorded: Sequence[Tensor] | None, by: str
) -> tuple[list[Tensor], dict[int, tuple[str, ...]]]:
    """The nodes in an order that keeps groups together, and the path of each.

    A leaf is right before the first that reads it, in the same group.
    """
    readers = users(nodes)
    paths: dict[int, tuple[str, ...]]
    if by == "stage":
        level = stages(nodes)
        inner = nodes
        paths = {n.serial: (f"stage {level[n.serial]}",) for n in nodes}
    else:
        inner = [n for n in nodes if n.inputs or n.serial not in readers]
        paths = _paths(nodes, recorded)
    number = {node.serial: k for k, node in enumerate(inner)}
    inputs = [[number[x.serial] for x in n.inputs if x.serial in number] for n in inner]
    order: dict[int, Tensor] = {}
    for k in contiguous(inputs, [paths[n.serial] for n in inner]):
        for x in inner[k].inputs:
            if x.serial not in number and x.serial not in order:
                order[x.serial] = x
                paths[x.serial] = paths[inner[k].serial]
        order[inner[k].serial] = inner[k]
    return list(order.values()), paths


def _paths(
    nodes: list[Tensor], recorded: Sequence[Tensor] | None
) -> dict[int, tuple[str, ...]]:
    """The names of the groups that each node is in, from the outermost."""
    written = None if recorded is None else {n.serial for n in reach(recorded)}
    paths: dict[int, tuple[str, ...]] = {}
    for node, (near, _) in zip(nodes, keys_of(nodes), strict=True):
        notes = node._metadata or {}
        derived = written is not None and node.serial not in written
        names = str(notes.get("module", "") or (derived and near) or "")
        path = tuple(names.split(".")) if names else ()
        inner = str(notes.get("onnx", "")).strip("/").split("/")[:-1]
        paths[node.serial] = (*((DERIVED,) if derived else ()), *path, *inner)
    return paths


def _entry(node: Tensor, path: tuple[str, ...], line: str) -> GraphEntry:
    """The entry of one node: its title, type, group and facts."""
    leaf = isinstance(node.op, Leaf)
    whole = head(node)
    label = whole if leaf else node.op.name
    entry = GraphEntry(_cut(label, 48), repr(node.type), path, _cut(line, WIDE))
    entry.color = color_of(node)
    types = node.type if isinstance(node.type, TupleType) else (node.type,)
    entry.bytes = sum(t.nbytes for t in types)
    entry.facts["op"] = _cut(whole, WIDE)
    if node._name:
        entry.facts["name"] = _cut(node._name, WIDE)
    if is_trainable(node):
        entry.facts["trained"] = "yes"
    for key, value in (node._metadata or {}).items():
        entry.facts[str(key)] = _cut(str(value), WIDE)
    return entry


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 3] + "..."


def _by_name(
    profile: Profile | None, table: Callable[[Profile], list[Timed]]
) -> dict[str, float]:
    """Seconds of a call by the names of a table of a profile."""
    if profile is None:
        return {}
    return {row.name: row.seconds / row.calls for row in table(profile)}


def steps_of(
    pieces: Sequence[Piece], steps: Sequence[Outlined], profile: Profile | None
) -> list[GraphEntry]:
    """An entry for each array that is given to a program, and for each of its steps."""
    by_number = {piece.number: piece for piece in pieces}
    read = {n for step in steps for n in step.read}
    seconds = _by_name(profile, Profile.by_kernel)
    entries: list[GraphEntry] = []
    writer: dict[int, int] = {}
    for piece in pieces:
        if piece.place in ("argument", "constant") and piece.number in read:
            writer[piece.number] = len(entries)
            entry = GraphEntry(piece.place, piece.type, ("arguments",), color="#dbeafe")
            entry.bytes = piece.bytes
            entries.append(entry)
    for k, step in enumerate(steps):
        out = [by_number[n] for n in step.written]
        line = step.lines[0] if step.lines else ""
        entry = GraphEntry(
            _cut(step.title, 48), " ".join(p.type for p in out), line=line
        )
        entry.color = block_color(out[0].block if out else -1)
        entry.bytes = sum(p.bytes for p in out)
        entry.seconds = seconds.get(step.title, 0.0)
        entry.inputs = list(dict.fromkeys(writer[n] for n in step.read if n in writer))
        entry.facts = {"step": str(k), "kernel": _cut(step.title, WIDE)}
        places = [
            f"block {p.block} at {p.offset:,}" if p.block >= 0 else p.place for p in out
        ]
        entry.facts["written to"] = _cut(", ".join(places), WIDE)
        if len(step.lines) > 1:
            entry.facts["more lines"] = _cut("\n".join(step.lines[1:]), WIDE)
        writer.update(dict.fromkeys(step.written, len(entries)))
        entries.append(entry)
    return entries


def explorer(forms: Mapping[str, Sequence[GraphEntry]], title: str) -> Page:
    """The page of graphs by their names, such as one before and one after rewriting."""
    data = {name: _packed(entries) for name, entries in forms.items()}
    count = sum(map(len, forms.values()))
    return Page(
        filled(
            "graph.html",
            title=html.escape(title),
            style=library("page.css") + library("graph.css"),
            viewer=library("cytoscape.min.js"),
            layout=library("cytoscape-dagre.min.js"),
            data=as_script({"title": title, "graphs": data, "nodes": count}),
            script=library("graph.js"),
        )
    )


def _packed(entries: Sequence[GraphEntry]) -> dict[str, Any]:
    """Entries and their groups as columns; strings are numbers of a list."""
    strings: dict[str, int] = {}

    def number(text: str) -> int:
        return strings.setdefault(text, len(strings))

    tree = grouped([e.path for e in entries], [e.place for e in entries])
    names: list[str] = []
    parents: list[int] = []
    home = [0] * len(entries)
    stack: list[tuple[NodeGroup, int]] = [(tree, -1)]
    while stack:
        group, parent = stack.pop()
        here = len(names)
        names.append(group.name)
        parents.append(parent)
        for member in reversed(group.members):
            if isinstance(member, NodeGroup):
                stack.append((member, here))
            else:
                home[member] = here
    return {
        "groups": {"name": names, "parent": parents},
        "group": home,
        "label": [number(e.label) for e in entries],
        "type": [number(e.type) for e in entries],
        "line": [number(e.line) for e in entries],
        "color": [number(e.color) for e in entries],
        "bytes": [e.bytes for e in entries],
        "ns": [round(e.seconds * 1e9) for e in entries],
        "inputs": [e.inputs for e in entries],
        "facts": [
            [[number(k), number(v)] for k, v in e.facts.items()] for e in entries
        ],
        "timed": "line" if any(e.by_line for e in entries) else "step",
        "strings": list(strings),
    }
