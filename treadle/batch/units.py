"""Units of batching: the nodes that can be rows, and the rows they read.

A value is numbered: the outputs of units from 0 on, in creation order, and then parts
of these; leaves, which have a value already, from -1 downwards.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from treadle.base.arrays import Marks, Numbers, distinct, indices_of
from treadle.base.types import Type
from treadle.batch.cells import join_cells
from treadle.batch.columns import classes, grouped, split
from treadle.batch.equal import equals
from treadle.batch.kinds import CALL, MOVE, OUTPUT, PLAIN, VIEW, WIDE, Ops
from treadle.batch.shared import Shared
from treadle.batch.signature import Signature, ops_of, shared_of
from treadle.batch.spelled import join_spelled
from treadle.batch.views import (
    Inside,
    parts_of_data,
    views_of_leaves,
    views_of_rows,
)
from treadle.batch.walk import Walk
from treadle.graph.body import Body
from treadle.graph.leaves import CONSTANT
from treadle.graph.tensor import Tensor
from treadle.ops.lookup import Embedding

NONE = np.iinfo(np.int64).min  # of a node that is no value of rows


@dataclass
class Kind:
    """The units of one signature, and the values that each reads, a row a unit."""

    signature: Signature
    units: Numbers
    read: Numbers


@dataclass
class Leaves:
    """Leaves that rows read; `constant` marks data of the user."""

    nodes: list[Tensor]
    serials: Numbers
    constant: Marks
    types: list[tuple[Type, Numbers]]  # each with the places of the leaves of it

    def __len__(self) -> int:
        return len(self.serials)


@dataclass(frozen=True)
class RowParts:
    """Values that are parts of what units make: the node of the whole, its value, the
    byte where they begin there, and whether they are all of it; `held` are the nodes
    with other readers.
    """

    makers: Numbers
    values: Numbers
    offsets: Numbers
    all: Marks
    held: list[Tensor]


@dataclass
class Units:
    """The nodes of a run that can be rows, in creation order; `outside` has others."""

    walk: Walk
    nodes: Numbers  # of each unit
    first: Numbers  # number of its first value
    kinds: list[Kind]
    value: Numbers  # of each node
    leaves: Leaves
    views: list[LeafView]  # the leaves that are parts of others
    parts: RowParts
    outside: Numbers
    count: int  # values that units make
    expressions: list[Tensor] = field(default_factory=list)  # of Variables alone
    moves: bool = False  # where some views begin is told by values

    def forget(self) -> None:
        """Let go of all nodes; the numbers stay."""
        self.walk.forget()
        self.expressions, self.leaves.nodes = [], []
        self.parts.held.clear()
        for kind in self.kinds:
            kind.signature.forget()

    @property
    def work(self) -> int:
        """How many ops are done: each of a body is, for each of its units."""
        return sum(len(x.units) * ops_of(x.signature.body) for x in self.kinds)

    @property
    def size(self) -> float:
        """The bytes that a unit makes, on average."""
        sizes = [
            len(kind.units) * sum(t.nbytes for t in kind.signature.body.types)
            for kind in self.kinds
        ]
        return sum(sizes) / max(len(self.nodes), 1)

    def makers(self, nodes: Numbers) -> Numbers:
        """The nodes, but of parts of what units make that which they are part of."""
        parts = self.value[nodes] >= self.count
        wholes = nodes.copy()
        wholes[parts] = self.parts.makers[self.value[nodes[parts]] - self.count]
        return wholes

    def reads(self, node: Tensor, read: Numbers) -> bool:
        """Return True if a node itself reads these, not the cell that goes by it."""
        inputs = self.walk.number(node.inputs)
        same = len(inputs) == len(read)
        return same and bool((self.value[inputs] == self.value[read]).all())

    def wholes(self, values: Numbers) -> Numbers:
        """The values, but of parts of these what they are part of."""
        parts = values >= self.count
        wholes = values.copy()
        wholes[parts] = self.parts.values[values[parts] - self.count]
        return wholes


@dataclass(frozen=True)
class LeafView:
    """A leaf that lies inside another one, from a byte of it on."""

    leaf: int
    of: int
    offset: int


def collect(
    walk: Walk,
    asked: Container[int] = (),
    held: Numbers | None = None,
    final: bool = True,
    merged: bool = False,
) -> Units:
    """The units among the nodes of a run: what is a row, and reads nothing else.

    Where a part of something with a value begins is no signature. Data is what is not
    `asked` for a derivative. What is computed of Variables alone is shared by all rows:
    it has to have its value before they run. By what is `held` a derivative may be
    taken later on, unless this is `final`. Units that are equal are `merged` into one,
    but for those that are held.
    """
    if held is None:
        held = np.zeros(0, np.int64)
    ends = held[:0] if final else held
    ops = Ops(walk)
    inside = views_of_leaves(walk, ops, asked)
    parts_of_data(walk, ops, asked)
    bodies = join_spelled(walk, ops, asked)
    shared = Shared(walk, ops, asked)
    lone = np.isin(ops.sign, list(bodies)) if bodies else np.zeros_like(walk.waiting)
    cells = join_cells(walk, ops, shared.numbers(), lone, ends, asked)
    within = views_of_rows(walk, ops, asked)
    kept = [k for k in held.tolist() if k in within]
    if kept:
        held = distinct(np.append(held, [within[k][0] for k in kept]))
    parts = [(int(x.nodes[0]), x.signature, x.nodes, x.rows) for x in cells]
    possible = np.zeros(len(walk.nodes), np.bool_)
    fits = walk.waiting & (walk.sizes > 0) & (walk.sizes <= WIDE)
    plain = fits & ((ops.kind == PLAIN) | (ops.kind == MOVE))
    calls = walk.waiting & (ops.kind == CALL)
    for members in classes(ops.sign, calls):
        parts += _calls(walk, ops, members)
    code = ops.sign * (WIDE + 1) + walk.sizes
    for members in classes(code, _for_rows(walk, code, plain)):
        body = bodies.get(int(ops.sign[members[0]]))
        parts += _plain(walk, ops, members, shared, body)
    for _, _, nodes, _ in parts:
        possible[nodes] = True
    _drop_what_reads_others(walk, ops, possible)
    one = np.arange(len(walk.nodes))
    if merged:
        free = possible.copy()
        results = held[ops.kind[held] == OUTPUT]
        free[held] = free[walk.operands[walk.starts[results]]] = False
        read = [(nodes, rows) for _, _, nodes, rows in parts]
        mine = set(held.tolist())
        views = [{k: x[k] for k in x.keys() - mine} for x in (inside, within)]
        one = equals(walk, ops, read, free, *views)
        parts = [(k, sign, nodes, one[rows]) for k, sign, nodes, rows in parts]
        walk.operands = one[walk.operands]
        possible &= one == np.arange(len(one))
    units = _numbered(walk, ops, parts, possible, inside, within, one)
    units.parts.held.extend(_at(walk.nodes, kept))
    units.expressions = shared.expressions
    units.moves = any(type(walk.nodes[k].op) is Embedding for k in inside)
    return units


def _for_rows(walk: Walk, code: Numbers, plain: Marks) -> Marks:
    """The nodes that are not alone of their kind, or that such a one depends on."""
    alone = plain.copy()
    alone[plain] = np.bincount(code[plain])[code[plain]] == 1
    edges = indices_of(alone[walk.operands])
    readers = np.searchsorted(walk.starts, edges, "right") - 1
    many = ~alone
    pairs = zip(readers.tolist(), walk.operands[edges].tolist(), strict=True)
    for reader, read in reversed(list(pairs)):
        if many[reader]:
            many[read] = True
    return plain & many


Found = list[tuple[int, Signature, Numbers, Numbers]]  # first node, its kind, rows read


def _calls(walk: Walk, ops: Ops, members: Numbers) -> Found:
    """The calls of one body, by the Variables that they share."""
    body = walk.nodes[members[0]].op.body
    places, rows = shared_of(body)
    calls: Found = []
    every = walk.read_by(members, len(body.arguments))
    if not rows:
        return calls
    constant = bool(ops.constant[members[0]])
    for alike in split(every[:, places]):
        nodes = members[alike]
        if walk.waiting[every[alike[0]][places]].any():
            continue
        inputs = _at(walk.nodes, every[alike[0]])
        first = walk.nodes[nodes[0]]
        signature = Signature.of(first, inputs, places, constant=constant)
        if signature is not None:
            calls.append((int(nodes[0]), signature, nodes, every[alike][:, rows]))
    return calls


def _plain(
    walk: Walk,
    ops: Ops,
    members: Numbers,
    shared: Shared,
    body: Body | None = None,
) -> Found:
    """Nodes of one op and number of operands: by their types, and what they share.

    `body` is what they do, where that is not their op alone.
    """
    every = walk.read_by(members, int(walk.sizes[members[0]]))
    types = walk.types(every)
    version, literal = shared.versions[every], shared.literals[every]
    what = np.where(version, every, np.where(literal, shared.content[every], 0))
    marks = version + 2 * literal
    parts: Found = []
    constant = bool(ops.constant[members[0]])
    for alike in split(np.concatenate([types, what, marks], 1)):
        nodes = members[alike]
        inputs = _at(walk.nodes, every[alike[0]])
        mine = indices_of(marks[alike[0]] == 1).tolist()
        first = walk.nodes[nodes[0]]
        signature = Signature.of(first, inputs, mine, body, constant)
        if signature is not None:
            rows = every[alike][:, marks[alike[0]] == 0]
            parts.append((int(nodes[0]), signature, nodes, rows))
    return parts


def _drop_what_reads_others(walk: Walk, ops: Ops, possible: Marks) -> None:
    """Take away what reads something that is neither a value nor a row."""
    bad = walk.waiting & ~possible & (ops.kind != OUTPUT) & (ops.kind != VIEW)
    begin = int(bad.argmax()) if bad.any() else len(bad)
    marks = bad[begin:].tolist()
    waits = walk.waiting[begin:].tolist()
    starts = walk.starts[begin:].tolist()
    base = starts[0]
    operands = (walk.operands[base:] - begin).tolist()
    for k, waiting in enumerate(waits):
        if waiting and not marks[k]:
            read = operands[starts[k] - base : starts[k + 1] - base]
            marks[k] = any(x >= 0 and marks[x] for x in read)
    possible[begin:] &= ~np.array(marks, np.bool_)


def _numbered(
    walk: Walk,
    ops: Ops,
    parts: Found,
    possible: Marks,
    inside: Inside,
    within: Inside,
    one: Numbers,
) -> Units:
    """Units, and their values, by numbers; nodes have those of the `one` they equal."""
    parts.sort(key=lambda x: x[0])
    nodes = indices_of(possible)
    unit = np.full(len(walk.nodes), -1, np.int64)
    unit[nodes] = np.arange(len(nodes))
    outputs = np.zeros(len(nodes), np.int64)
    for _, signature, members, _ in parts:
        outputs[unit[members[possible[members]]]] = signature.outputs
    first = np.cumsum(outputs) - outputs
    value = np.full(len(walk.nodes), NONE, np.int64)
    value[nodes] = first
    selected = indices_of(walk.waiting & (ops.kind == OUTPUT))
    makers = walk.operands[walk.starts[selected]]
    mine = indices_of(possible[makers])
    value[selected[mine]] = value[makers[mine]] + ops.position[selected[mine]]
    count = int(outputs.sum())
    views_of = _parts(walk, value, count, within, one)
    kinds, used = [], np.zeros(len(walk.nodes), np.bool_)
    for number, (_, signature, members, read) in enumerate(parts):
        kept = possible[members]
        signature.number = number
        kinds.append(Kind(signature, unit[members[kept]], read[kept]))
        used[kinds[-1].read] = True
    leaves = indices_of(used & ~walk.waiting)
    views = []
    if inside:
        inner = [k for k in leaves.tolist() if k in inside]
        sources = np.array([inside[k][0] for k in inner], np.int64)
        leaves = distinct(np.concatenate([leaves, sources]))
        place = dict(zip(leaves.tolist(), range(len(leaves)), strict=True))
        views = [LeafView(place[k], place[inside[k][0]], inside[k][1]) for k in inner]
    value[leaves] = -1 - np.arange(len(leaves))
    value = value[one]
    for kind in kinds:
        kind.read = value[kind.read]
    outside = walk.waiting & ~possible & (value == NONE)
    return Units(
        walk,
        nodes,
        first,
        kinds,
        value,
        _leaves(walk, ops, leaves),
        views,
        views_of,
        indices_of(outside),
        count,
    )


def _parts(
    walk: Walk, value: Numbers, count: int, within: Inside, one: Numbers
) -> RowParts:
    """The parts of values of units, which get numbers of their own in `value`."""
    nodes, places = np.array(list(within), np.int64), list(within.values())
    makers, offsets = np.array(places, np.int64).reshape(-1, 2).T
    makers = one[makers]
    mine = (value[makers] != NONE) & (one[nodes] == nodes)
    nodes, makers, offsets = nodes[mine], makers[mine], offsets[mine]
    value[nodes] = count + np.arange(len(nodes))
    size, whole = (
        np.array([walk.nodes[k].type.nbytes for k in x.tolist()], np.int64)
        for x in (nodes, makers)
    )
    return RowParts(makers, value[makers], offsets, size == whole, [])


def _leaves(walk: Walk, ops: Ops, places: Numbers) -> Leaves:
    """The leaves at some places, and what is asked of all of them together."""
    nodes = _at(walk.nodes, places.tolist())
    groups = grouped(np.arange(len(places)), walk.types(places))
    types = [(nodes[k[0]].type, k) for k in groups]
    constant = ops.marked([op is CONSTANT for op in ops.ops])[places]
    return Leaves(nodes, walk.columns.serials[places], constant, types)


def _at(nodes: Sequence[Tensor], which: Iterable[int]) -> list[Tensor]:
    return [nodes[k] for k in which]
