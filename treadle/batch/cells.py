"""Inferred cells: repeated subgraphs that no function marks, as rows of one body.

A tree network written op by op has a dozen nodes for each node of a tree. Those of a
cell are one unit, as the call of a function is; cells that do the same are one kind.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from treadle.base.arrays import Marks, Numbers, indices_of
from treadle.base.types import TupleType
from treadle.batch.bodies import body_of
from treadle.batch.grow import ENDS, LEAF, LONE, MOVES, PART, PRODUCT, RESULT, SHARED
from treadle.batch.kinds import LEFT, MOVE, OUTPUT, PLAIN, WIDE, Ops
from treadle.batch.members import LEAST, CellGraph, Members, members_of
from treadle.batch.signature import Signature
from treadle.batch.walk import Walk
from treadle.graph.leaves import LITERAL
from treadle.graph.tensor import Tensor
from treadle.ops.contract import Contract


@dataclass(frozen=True)
class Cells:
    """Some cells that do the same: what that is, the node that each goes by, the rows
    that it reads, its nodes, and the places of its results among these.
    """

    signature: Signature
    nodes: Numbers
    rows: Numbers
    inside: Numbers
    results: list[int]


def join_cells(
    walk: Walk,
    ops: Ops,
    shares: Numbers,
    lone: Marks,
    ends: Numbers,
    asked: Container[int],
) -> list[Cells]:
    """The kinds of cells of a run, where there are several of a kind.

    `shares` has a number for what nodes share, -1 for what may be a row; what is `lone`
    is in no cell, and what `ends` one is not read in it. From here on the node that a
    cell goes by reads what the cell reads. Its other nodes wait no more, but for those
    that others read or somebody holds: they are results of that one.
    """
    roles = _roles(walk, ops, shares, lone, asked)
    if np.count_nonzero(roles == PRODUCT) < LEAST:
        return []
    roles[ends] += np.where(roles[ends] >= RESULT, ENDS, 0)
    codes = ops.sign * (int(ops.position.max()) + 1) + ops.position
    types, references = walk.columns.types, walk.columns.references
    columns = walk.starts, walk.operands, roles, shares, codes, types, references
    graph = CellGraph(*columns)
    members = members_of(graph)
    often = indices_of(np.bincount(members.kinds) >= LEAST)
    joined = []
    for kind in often.tolist():
        cells = _cells(walk, graph, members, indices_of(members.kinds == kind))
        if cells is not None:
            joined.append(cells)
    if joined:
        _rewire(walk, ops, joined)
    return joined


def _roles(
    walk: Walk, ops: Ops, shares: Numbers, lone: Marks, asked: Container[int]
) -> Numbers:
    """The role of each node in cells."""
    products = ops.marked([isinstance(op, Contract) for op in ops.ops])
    fits = ((ops.kind == PLAIN) | (ops.kind == MOVE)) & ~lone & ~walk.columns.marked
    fits &= (walk.sizes > 0) & (walk.sizes <= WIDE)
    moves = ops.marked([op.family in ("movement", "join") for op in ops.ops])
    parts = np.where(products, PRODUCT, np.where(moves, MOVES, PART))
    roles = np.where(fits, parts, LONE)
    roles[ops.kind == OUTPUT] = RESULT
    if asked:
        roles[[serial in asked for serial in walk.columns.serials.tolist()]] = LONE
    roles[~walk.waiting] = LEAF
    roles[shares >= 0] = SHARED
    return roles


def _cells(
    walk: Walk, graph: CellGraph, members: Members, chosen: Numbers
) -> Cells | None:
    """Cells of one kind; None if they can be no rows."""
    inside = members.inside(chosen)
    rows, which = _once(members.read(chosen))
    places, count = inside[0].tolist(), rows.shape[1]
    first = int(members.began[chosen[0]])
    seen = indices_of(members.seen[inside].any(0)).tolist()
    results = sorted(seen, key=lambda k: (places[k] != first, k))
    nodes = [walk.nodes[k] for k in places]
    if not results or any(isinstance(nodes[k].type, TupleType) for k in results):
        return None
    place = {k: number for number, k in enumerate(places)}
    shared: dict[int, int] = {}
    operands: list[int | Tensor] = []
    for x in [x for k in places for x in graph.read(k).tolist()]:
        if graph.shares[x] < 0:
            operands.append(place[x] if x in place else ~next(which))
        elif walk.nodes[x].op is LITERAL:
            operands.append(walk.nodes[x])
        else:
            operands.append(~(count + shared.setdefault(x, len(shared))))
    read_nodes = [walk.nodes[k] for k in (*rows[0].tolist(), *shared)]
    types = [x.type for x in read_nodes]
    body = body_of("cell", nodes, operands, types, results)
    signature = Signature.whole(body, count, read_nodes[count:])
    if signature is None:
        return None
    signature.origin = walk.nodes[first].origin
    return Cells(signature, members.began[chosen], rows, inside, results)


def _once(read: Numbers) -> tuple[Numbers, Iterator[int]]:
    """The operands of cells without those that all of them share, and the index of each
    operand."""
    columns = [column.tobytes() for column in read.T]
    place = {column: k for k, column in reversed([*enumerate(columns)])}
    kept = sorted(place.values())
    number = {k: n for n, k in enumerate(kept)}
    return read[:, kept], iter([number[place[column]] for column in columns])


def _rewire(walk: Walk, ops: Ops, every: Sequence[Cells]) -> None:
    """Let the nodes that cells go by read what these read, and results read them."""
    stays = np.ones(len(walk.nodes), np.bool_)
    sizes = walk.sizes.copy()
    for cells in every:
        inside = cells.inside
        stays[inside] = False
        sizes[inside] = 0
        ops.kind[inside] = LEFT
        walk.waiting[inside] = False
        for place, k in enumerate(cells.results):
            members = inside[:, k]
            ops.kind[members], ops.position[members], sizes[members] = OUTPUT, place, 1
            walk.waiting[members] = True
        ops.kind[cells.nodes] = LEFT
        walk.waiting[cells.nodes] = True
        sizes[cells.nodes] = cells.rows.shape[1]
    walk.resize(sizes, stays)
    starts, operands = walk.starts, walk.operands
    for cells in every:
        for k in cells.results:
            members = cells.inside[:, k]
            operands[starts[members]] = cells.nodes  # of one that goes by itself: below
        at = starts[cells.nodes][:, None] + np.arange(cells.rows.shape[1])
        operands[at] = cells.rows
