"""Which nodes of a run can be rows, of what, and the rows they read.

A value is numbered: the outputs of units from 0 on, in creation order; leaves, which
have a value already, from -1 downwards.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.autodiff.tape import Row
from treadle.base.dtypes import is_inexact
from treadle.batch.signature import Signature, apart, shared_of
from treadle.batch.walk import Marks, Numbers, Walk
from treadle.graph.body import sign_of
from treadle.graph.leaves import LITERAL, Cut, Version
from treadle.graph.tensor import Tensor, settle
from treadle.ops.call import Call
from treadle.ops.families import Movement, Output

__all__ = ["NONE", "Units", "carries", "collect"]

WIDE = 64  # operands of a node that may be a row
NONE = np.iinfo(np.int64).min  # of a node that is no value of rows

PLAIN, LEFT, OUTPUT, CALL, MOVE = range(5)  # what an op is here


@dataclass
class Kind:
    """The units of one signature, and the values that each reads, a row a unit."""

    signature: Signature
    units: Numbers
    read: Numbers


@dataclass
class Units:
    """The nodes of a run that can be rows, in creation order; `outside` the others."""

    walk: Walk
    nodes: Numbers  # of each unit
    own: Numbers  # signature of each unit
    first: Numbers  # number of its first value
    kinds: list[Kind]
    value: Numbers  # of each node
    leaves: list[Tensor]
    outside: list[Tensor]
    count: int  # values


class _Ops:
    """What the different ops of a run are, and what they have in common."""

    def __init__(self, walk: Walk) -> None:
        self.ops, self.which = walk.ops()
        codes: dict[Any, int] = {}
        kinds, signs, places = [], [], []
        for op in self.ops:
            kind = self._kind(op)
            kinds.append(kind)
            sign = ("call", op.body.number) if kind == CALL else sign_of(op)
            signs.append(codes.setdefault(sign, len(codes)))
            places.append(op.position if kind == OUTPUT else 0)
        self.kind = np.array(kinds, np.int64)[self.which]
        self.sign = np.array(signs, np.int64)[self.which]
        self.position = np.array(places, np.int64)[self.which]

    def _kind(self, op: Any) -> int:
        if type(op) is Output:
            return OUTPUT
        if type(op) is Call:
            return CALL
        if isinstance(op, Movement):
            return MOVE
        return LEFT if apart(op) else PLAIN

    def marked(self, wanted: Any) -> Marks:
        """The nodes with an op for which `wanted` holds."""
        found = np.array([wanted(op) for op in self.ops], np.bool_)
        return found[self.which]


def collect(walk: Walk, asked: Container[int] = ()) -> Units:
    """The units among the nodes of a run: what is a row, and reads nothing else.

    Parts of data are evaluated on the way: where one begins is no signature. Data is
    what is not `asked` for a derivative.
    """
    ops = _Ops(walk)
    _parts_of_data(walk, ops, asked)
    shared = _Shared(walk, ops)
    found: list[tuple[int, Signature, Numbers, Numbers]] = []
    possible = np.zeros(len(walk.nodes), np.bool_)
    fits = walk.waiting & (walk.sizes > 0) & (walk.sizes <= WIDE)
    plain = fits & ((ops.kind == PLAIN) | (ops.kind == MOVE))
    calls = walk.waiting & (ops.kind == CALL)
    for members in _alike(ops.sign, calls):
        found += _calls(walk, members)
    for members in _alike(ops.sign * (WIDE + 1) + walk.sizes, plain):
        found += _plain(walk, members, shared)
    for _, _, nodes, _ in found:
        possible[nodes] = True
    _drop_what_reads_others(walk, ops, possible)
    return _numbered(walk, ops, found, possible)


def _alike(code: Numbers, marks: Marks) -> list[Numbers]:
    """The marked nodes in lists of one code each."""
    (nodes,) = np.nonzero(marks)
    codes, which = np.unique(code[nodes], return_inverse=True)
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(codes)))[:-1]
    return np.split(nodes[order], ends) if len(nodes) else []


def _split(nodes: Numbers, keys: Numbers) -> list[Numbers]:
    """Nodes in lists of those with the same row of keys."""
    if not keys.shape[1] or (keys == keys[0]).all():
        return [nodes]
    which = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    return [nodes[which == k] for k in range(int(which.max()) + 1)]


Found = list[tuple[int, Signature, Numbers, Numbers]]  # first node, its kind, rows read


def _calls(walk: Walk, members: Numbers) -> Found:
    """The calls of one body, by the Variables that they share."""
    body = walk.nodes[members[0]].op.body
    places, rows = shared_of(body)
    found: Found = []
    every = walk.read_by(members, len(body.arguments))
    if not rows:
        return found
    for own in _split(np.arange(len(members)), every[:, places]):
        nodes = members[own]
        if walk.waiting[every[own[0]][places]].any():
            continue
        signature = Signature.of(walk.nodes[nodes[0]])
        if signature is not None:
            found.append((int(nodes[0]), signature, nodes, every[own][:, rows]))
    return found


class _Shared:
    """The leaves that are part of a signature: versions of Variables, and literals."""

    def __init__(self, walk: Walk, ops: _Ops) -> None:
        self.versions = ops.marked(lambda op: type(op) is Version) & ~walk.waiting
        self.literals = ops.marked(lambda op: op is LITERAL) & ~walk.waiting
        self.content = np.zeros(len(walk.nodes), np.int64)
        known: dict[bytes, int] = {}
        for k in np.flatnonzero(self.literals).tolist():
            data = walk.nodes[k].stored.tobytes()  # type: ignore[union-attr]
            self.content[k] = known.setdefault(data, len(known))


def _plain(walk: Walk, members: Numbers, shared: _Shared) -> Found:
    """Nodes of one op and number of operands: by their types, and what they share."""
    every = walk.read_by(members, int(walk.sizes[members[0]]))
    types = walk.types(every)
    version, literal = shared.versions[every], shared.literals[every]
    what = np.where(version, every, np.where(literal, shared.content[every], 0))
    marks = version + 2 * literal
    found: Found = []
    for own in _split(np.arange(len(members)), np.concatenate([types, what, marks], 1)):
        nodes = members[own]
        signature = Signature.of(walk.nodes[nodes[0]])
        if signature is not None:
            rows = every[own][:, marks[own[0]] == 0]
            found.append((int(nodes[0]), signature, nodes, rows))
    return found


def _parts_of_data(walk: Walk, ops: _Ops, asked: Container[int]) -> None:
    """Evaluate what takes parts of data, or of such parts."""
    moves = walk.waiting & (ops.kind == MOVE)
    if not moves.any():
        return
    ends = ~walk.waiting
    while True:  # a part of a part is known one turn later
        wanted = moves & walk.of_operands(ends | moves)
        if (wanted == moves).all():
            break
        moves = wanted
    data: dict[int, bool] = {}
    for k in np.flatnonzero(moves).tolist():
        node = walk.nodes[k]
        for x in node.inputs:
            if x.serial not in data:
                data[x.serial] = _is_data(x, asked)
        if all(data[x.serial] for x in node.inputs):
            arrays = [x.array for x in node.inputs]
            settle(node, node.op.numpy(*arrays))
            walk.waiting[k] = False
            data[node.serial] = True


def _is_data(x: Tensor, asked: Container[int]) -> bool:
    """Whether a node has a value that nothing is derived by."""
    if x.stored is None or type(x.op) is Version or x.serial in asked:
        return False
    return not carries(x)


def _drop_what_reads_others(walk: Walk, ops: _Ops, possible: Marks) -> None:
    """Take away what reads something that is neither a value nor a row."""
    bad = walk.waiting & ~possible & (ops.kind != OUTPUT)
    (first,) = np.nonzero(bad)[0][:1] if bad.any() else (len(bad),)
    begin = int(first)
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


def _numbered(walk: Walk, ops: _Ops, found: Found, possible: Marks) -> Units:
    """Units, and their values, by numbers."""
    found.sort(key=lambda x: x[0])
    (nodes,) = np.nonzero(possible)
    unit = np.full(len(walk.nodes), -1, np.int64)
    unit[nodes] = np.arange(len(nodes))
    own = np.zeros(len(nodes), np.int64)
    outputs = np.zeros(len(nodes), np.int64)
    for k, (_, signature, members, _) in enumerate(found):
        mine = unit[members[possible[members]]]
        own[mine], outputs[mine] = k, signature.outputs
    first = np.cumsum(outputs) - outputs
    value = np.full(len(walk.nodes), NONE, np.int64)
    value[nodes] = first
    (selected,) = np.nonzero(walk.waiting & (ops.kind == OUTPUT))
    made = walk.operands[walk.starts[selected]]
    mine = possible[made]
    value[selected[mine]] = value[made[mine]] + ops.position[selected[mine]]
    kinds, used = [], []
    for number, (_, signature, members, read) in enumerate(found):
        kept = possible[members]
        signature.number = number
        kinds.append(Kind(signature, unit[members[kept]], read[kept]))
        used.append(kinds[-1].read.ravel())
    every = np.unique(np.concatenate(used)) if used else np.zeros(0, np.int64)
    leaves = every[~walk.waiting[every]]
    value[leaves] = -1 - np.arange(len(leaves))
    for kind in kinds:
        kind.read = value[kind.read]
    outside = walk.waiting & ~possible & (value == NONE)
    return Units(
        walk,
        nodes,
        own,
        first,
        kinds,
        value,
        _at(walk.nodes, leaves),
        _at(walk.nodes, np.flatnonzero(outside)),
        int(outputs.sum()),
    )


def _at(nodes: Sequence[Tensor], which: Numbers) -> list[Tensor]:
    return [nodes[k] for k in which.tolist()]


def carries(leaf: Tensor) -> bool:
    """Whether a derivative may go on below a node that has a value."""
    if not is_inexact(leaf.type.dtype):
        return False
    if type(leaf.op) is Row:
        return leaf.op.tape is not None
    if isinstance(leaf.op, Movement):  # a part of data may have been evaluated
        (x,) = leaf.inputs
        return type(x.op) is Version or carries(x)
    return bool(leaf.inputs) or (type(leaf.op) is Cut and leaf.op.carried)
