"""Cells that are no functions, as rows of one body each: what `grow.py` finds.

A tree network written op by op has a dozen nodes for each node of a tree. Those of a
cell are one unit, as the call of a function is; cells that do the same are one kind.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.types import TupleType, Type
from treadle.batch.columns import Marks, Numbers
from treadle.batch.grow import LEAF, LONE, MOVES, PART, PRODUCT, RESULT, SHARED
from treadle.batch.kinds import LEFT, MOVE, OUTPUT, PLAIN, WIDE, Ops
from treadle.batch.members import Find, Graph, Members
from treadle.batch.signature import TEMPLATES, Signature
from treadle.batch.walk import Walk
from treadle.graph.body import Body, sign_of
from treadle.graph.frame import tracing
from treadle.graph.leaves import LITERAL, Argument, bits_of
from treadle.graph.tensor import Tensor
from treadle.ops.contract import Contract
from treadle.ops.families import Output, outputs_of

__all__ = ["join_cells"]

LEAST = 4  # cells that do the same, or they are no kind


_bodies: OrderedDict[Any, Body] = OrderedDict()


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
    asked: Container[int],
    find: Find,
) -> list[Cells]:
    """The kinds of cells of a run, where there are several of a kind.

    `shares` has a number for what nodes share, -1 for what may be a row; what is `lone`
    is in no cell. From here on the node that a cell goes by reads what the cell reads.
    Its other nodes wait no more, but for those that others read or somebody holds: they
    are results of that one.
    """
    roles = _roles(walk, ops, shares, lone, asked)
    if np.count_nonzero(roles == PRODUCT) < LEAST:
        return []
    codes = ops.sign * (int(ops.position.max()) + 1) + ops.position
    types, references = walk.found.types, walk.found.references
    columns = walk.starts, walk.operands, roles, shares, codes, types, references
    graph = Graph(*columns)
    members = find(graph)
    often = np.flatnonzero(np.bincount(members.kinds) >= LEAST)
    found = []
    for kind in often.tolist():
        cells = _cells(walk, graph, members, np.flatnonzero(members.kinds == kind))
        if cells is not None:
            found.append(cells)
    if found:
        _rewire(walk, ops, found)
    return found


def _roles(
    walk: Walk, ops: Ops, shares: Numbers, lone: Marks, asked: Container[int]
) -> Numbers:
    """What each node is to cells."""
    products = ops.marked(lambda op: isinstance(op, Contract))
    fits = ((ops.kind == PLAIN) | (ops.kind == MOVE)) & ~lone & ~walk.found.marked
    fits &= (walk.sizes > 0) & (walk.sizes <= WIDE)
    moves = ops.marked(lambda op: op.family in ("movement", "join"))
    parts = np.where(products, PRODUCT, np.where(moves, MOVES, PART))
    roles = np.where(fits, parts, LONE)
    roles[ops.kind == OUTPUT] = RESULT
    if asked:
        roles[[serial in asked for serial in walk.found.serials.tolist()]] = LONE
    roles[~walk.waiting] = LEAF
    roles[shares >= 0] = SHARED
    return roles


def _cells(walk: Walk, graph: Graph, members: Members, own: Numbers) -> Cells | None:
    """Cells of one kind; None if they can be no rows."""
    inside = members.inside(own)
    rows, which = _once(members.read(own))
    places, count = inside[0].tolist(), rows.shape[1]
    first = int(members.began[own[0]])
    seen = np.flatnonzero(members.seen[inside].any(0)).tolist()
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
    given = [walk.nodes[k] for k in (*rows[0].tolist(), *shared)]
    body = _body(nodes, operands, [x.type for x in given], results)
    signature = Signature.whole(body, count, given[count:])
    if signature is None:
        return None
    signature.origin = walk.nodes[first].origin
    return Cells(signature, members.began[own], rows, inside, results)


def _once(read: Numbers) -> tuple[Numbers, Iterator[int]]:
    """What cells read without what is the same in all of them again, and which of it
    each operand is.
    """
    kept: list[int] = []
    which: list[int] = []
    for k, own in enumerate(read.T):
        same = (n for n, j in enumerate(kept) if (read[:, j] == own).all())
        number = next(same, len(kept))
        which.append(number)
        if number == len(kept):
            kept.append(k)
    return read[:, kept], iter(which)


def _body(
    nodes: Sequence[Tensor],
    operands: Sequence[int | Tensor],
    types: Sequence[Type],
    results: Sequence[int],
) -> Body:
    """What nodes do to arguments of some types.

    `operands` are those of all nodes: the place of one among these, the complement of
    that of an argument, or a literal.
    """
    key = (
        tuple([(sign_of(x.op), len(x.inputs)) for x in nodes]),
        tuple([x if isinstance(x, int) else (x.type, bits_of(x)) for x in operands]),
        tuple(types),
        tuple(results),
    )
    found = _bodies.get(key)
    if found is None:
        with tracing("cell"):
            found = _bodies[key] = _traced(nodes, operands, types, results)
        if len(_bodies) > TEMPLATES:
            _bodies.popitem(last=False)
    _bodies.move_to_end(key)
    return found


def _traced(
    nodes: Sequence[Tensor],
    operands: Sequence[int | Tensor],
    types: Sequence[Type],
    results: Sequence[int],
) -> Body:
    """The body itself."""
    arguments = [Tensor(Argument(k), (), t) for k, t in enumerate(types)]
    made: list[Tensor] = []
    rest = iter(operands)

    def operand() -> Tensor:
        x = next(rest)
        if isinstance(x, Tensor):
            return x
        return made[x] if x >= 0 else arguments[~x]

    for node in nodes:
        read = [operand() for _ in node.inputs]
        if type(node.op) is Output:
            made.append(outputs_of(read[0])[node.op.position])
        else:
            made.append(node.op(*read))
    return Body("cell", arguments, [made[k] for k in results])


def _rewire(walk: Walk, ops: Ops, found: Sequence[Cells]) -> None:
    """Let the nodes that cells go by read what these read, and results read them."""
    count = len(walk.nodes)
    stays = np.ones(count, np.bool_)
    sizes = walk.sizes.copy()
    for cells in found:
        inside = cells.inside
        stays[inside] = False
        sizes[inside] = 0
        ops.kind[inside] = LEFT
        walk.waiting[inside] = False
        for place, k in enumerate(cells.results):
            own = inside[:, k]
            ops.kind[own], ops.position[own], sizes[own] = OUTPUT, place, 1
            walk.waiting[own] = True
        ops.kind[cells.nodes] = LEFT
        walk.waiting[cells.nodes] = True
        sizes[cells.nodes] = cells.rows.shape[1]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    operands = np.empty(int(starts[-1]), np.int64)
    owner = np.repeat(np.arange(count), walk.sizes)
    kept = stays[owner]
    shift = starts[:-1] - walk.starts[:-1]
    operands[(np.arange(len(owner)) + shift[owner])[kept]] = walk.operands[kept]
    for cells in found:
        for k in cells.results:
            own = cells.inside[:, k]
            operands[starts[own]] = cells.nodes  # of one that goes by itself: below
        at = starts[cells.nodes][:, None] + np.arange(cells.rows.shape[1])
        operands[at] = cells.rows
    walk.operands, walk.sizes, walk.starts = operands, sizes, starts
