"""Parts of what has a value, or of what a row makes: nothing needs to compute them."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import numpy as np

from treadle.autodiff.tape import Row
from treadle.base.arrays import Marks, Numbers, indices_of
from treadle.base.dtypes import is_inexact
from treadle.base.types import Type
from treadle.batch.kinds import MOVE, VIEW, Ops
from treadle.batch.walk import Walk
from treadle.graph.leaves import Cut, Version
from treadle.graph.tensor import Tensor, settle
from treadle.ops.families import Movement
from treadle.ops.lookup import Embedding
from treadle.ops.movement import Reshape
from treadle.ops.slice import Slice

# Of a part, by its place: what it is part of, and the byte where it begins there.
Inside = dict[int, tuple[int, int]]
_MOVES = (Slice, Reshape, Embedding)


def views_of_leaves(walk: Walk, ops: Ops, asked: Container[int]) -> Inside:
    """The nodes that lie in one piece inside something with a value: one row of it,
    or some of its rows. They wait no longer.

    Tables that are Variables are looked up by rows of ids, and have sparse gradients.
    """
    (some,) = np.nonzero(
        walk.waiting & ops.marked([type(op) in _MOVES for op in ops.ops])
    )
    if not len(some):
        return {}
    first = walk.operands[walk.starts[some]]
    leaf = (~walk.waiting & ~ops.versions)[first]
    parts = leaf
    while True:  # a part of a part is known one turn later
        more = leaf | np.isin(first, some[parts])
        if (more == parts).all():
            break
        parts = more
    some, first, leaf = some[parts], first[parts], leaf[parts]
    views = _inside(walk, some, first, leaf, asked)
    walk.waiting[list(views)] = False
    return views


def views_of_rows(walk: Walk, ops: Ops, asked: Container[int]) -> Inside:
    """The nodes in no cell that lie in one piece inside what a row may make: where
    they begin is no structure. Derivatives have to go on behind them.
    """
    some = walk.waiting & (ops.kind == MOVE) & ~ops.constant
    some &= ops.marked([type(op) is Slice or type(op) is Reshape for op in ops.ops])
    some = indices_of(some)
    first = walk.operands[walk.starts[some]]
    kept = walk.waiting[first]
    some, first = some[kept], first[kept]
    views = _inside(walk, some, first, kept[kept], asked)
    ops.kind[list(views)] = VIEW
    return views


def _inside(
    walk: Walk, some: Numbers, first: Numbers, whole: Marks, asked: Container[int]
) -> Inside:
    """Which nodes lie in one piece inside what they read `first`, which is `whole` or
    such a part."""
    views: Inside = {}
    shifts: dict[tuple[int, Type], int | None] = {}
    triples = zip(some.tolist(), first.tolist(), whole.tolist(), strict=True)
    for k, of, begins in triples:
        if not begins and of not in views:
            continue
        of, base = views.get(of, (of, 0))
        node = walk.nodes[k]
        source = node.inputs[0].type
        if type(node.op) is Embedding:
            shift = _row(node)
        else:
            key = id(node.op), source
            if key not in shifts:
                shifts[key] = _shift(node.op, source, node.type)
            shift = shifts[key]
        if shift is not None and node.serial not in asked:
            views[k] = of, base + shift
    return views


def _row(node: Tensor) -> int | None:
    """The byte where the row begins that a node looks up, if it is one that exists."""
    table, ids = node.inputs
    if ids.stored is None or ids.type.shape != ():
        return None
    row = int(ids.array)  # type: ignore[arg-type]
    return row * node.type.nbytes if 0 <= row < table.type.shape[0] else None


def _shift(op: Any, source: Type, result: Type) -> int | None:
    """The byte where a part begins that lies in one piece; None if it does not."""
    if type(op) is Reshape:
        return 0
    shift, stride = 0, source.dtype.itemsize
    whole = True  # as far as the dimensions behind go
    dims = zip(op.starts, op.steps, source.shape, result.shape, strict=True)
    for start, step, n, extent in reversed(list(dims)):
        if extent > 1 and (step != 1 or not whole):
            return None
        shift += start * stride
        stride *= n
        whole = whole and extent == n
    return shift


def parts_of_data(walk: Walk, ops: Ops, asked: Container[int]) -> None:
    """Evaluate what takes parts of data, or of such parts."""
    moves = walk.waiting & (ops.kind == MOVE)
    if not moves.any():
        return
    ends = ~walk.waiting & ~ops.versions
    while True:  # a part of a part is known one turn later
        wanted = walk.of_operands(moves, ends | moves)
        if (wanted == moves).all():
            break
        moves = wanted
    data: dict[int, bool] = {}
    for k in indices_of(moves).tolist():
        node = walk.nodes[k]
        for x in node.inputs:
            if x.serial not in data:
                data[x.serial] = _is_data(_source(x), asked)
        if all(data[x.serial] for x in node.inputs):
            settle(node, node.op.numpy(*map(_evaluated, node.inputs)))
            walk.waiting[k] = False
            data[node.serial] = True


def _source(x: Tensor) -> Tensor:
    """The tensor with a value that x is a part of."""
    while x.stored is None:
        x = x.inputs[0]
    return x


def _evaluated(x: Tensor) -> Any:
    """The value of a part."""
    if x.stored is None:
        settle(x, x.op.numpy(*map(_evaluated, x.inputs)))
    return x.array


def _is_data(x: Tensor, asked: Container[int]) -> bool:
    """Return True if a node has a value that nothing is derived by."""
    if x.stored is None or type(x.op) is Version or x.serial in asked:
        return False
    return not carries(x)


def carries(leaf: Tensor) -> bool:
    """Return True if a derivative may go on below a node that has a value."""
    if not is_inexact(leaf.type.dtype):
        return False
    if type(leaf.op) is Version:
        return bool(leaf.op.variable.trainable)
    if type(leaf.op) is Row:
        return leaf.op.tape is not None
    if isinstance(leaf.op, Movement):  # a part of data may have been evaluated
        (x,) = leaf.inputs
        return type(x.op) is Version or carries(x)
    return bool(leaf.inputs) or (type(leaf.op) is Cut and leaf.op.carried)
