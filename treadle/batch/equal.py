"""Nodes that do the same to the same operands: one of them is computed for all.

Words come again in a minibatch, and so do cells that read nothing but a word. What a
program's rewriting does to equal expressions (value numbering) is done here to units,
by their signatures, and to rows of tables, by where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.base.arrays import Marks, Numbers, indices_of
from treadle.batch.columns import split
from treadle.batch.kinds import OUTPUT, Ops
from treadle.batch.views import Inside
from treadle.batch.walk import Walk
from treadle.core import native
from treadle.graph.leaves import CONSTANT


def equals(
    walk: Walk,
    ops: Ops,
    units: Sequence[tuple[Numbers, Numbers]],
    possible: Marks,
    inside: Inside,
    within: Inside,
) -> Numbers:
    """Of each node, the first that is equal to it.

    `units` has nodes of one signature each with what they read, where they are
    `possible`; `inside` has views of leaves, `within` those of what may be rows. Ids
    and labels are equal if they are one object, as those of an int are; nobody derives
    by them.
    """
    count = len(walk.nodes)
    kinds = np.full(count, -1, np.int64)
    starts, sizes = np.zeros((2, count), np.int64)
    words: list[Numbers] = []
    place = 0

    def note(members: Numbers, kind: Numbers | int, read: Numbers) -> None:
        nonlocal place
        width = read.shape[1]
        kinds[members], sizes[members] = kind, width
        starts[members] = place + width * np.arange(len(members))
        words.append(read.ravel())
        place += read.size

    of_nodes = walk.columns.count  # kinds of data and views are types
    data = indices_of(ops.marked([op is CONSTANT for op in ops.ops]) & ~walk.waiting)
    data = data[~walk.inexact(data)]
    note(data, walk.types(data), walk.columns.values[data][:, None])
    if inside:
        views = np.fromiter(inside, np.int64, len(inside))
        lies = np.array(list(inside.values()), np.int64)
        note(views, walk.types(views), lies)
    results = indices_of(walk.waiting & (ops.kind == OUTPUT))
    makers = walk.operands[walk.starts[results]]
    note(results, of_nodes + ops.position[results], makers[:, None])
    first = of_nodes + int(ops.position.max(initial=0)) + 1
    if within:
        views = np.fromiter(within, np.int64, len(within))
        makers, offsets = np.array(list(within.values()), np.int64).T
        parts = split(np.stack([walk.types(views), offsets], 1))
        for part in parts:
            note(views[part], first, makers[part][:, None])
            first += 1
    for number, (members, read) in enumerate(units):
        kept = possible[members]
        note(members[kept], first + number, read[kept])
    return number_values(kinds, starts, sizes, np.concatenate(words), of_nodes)


def number_values(
    kinds: Numbers, starts: Numbers, sizes: Numbers, words: Numbers, nodes: int
) -> Numbers:
    """The first equal of each node, in creation order.

    Node k is of kind kinds[k], -1 if it is not looked at, and has
    words[starts[k] : starts[k] + sizes[k]], which are nodes from kind `nodes` on.
    """
    if native is not None:
        return native.equals(kinds, starts, sizes, words, nodes)
    one = list(range(len(kinds)))
    known: dict[tuple[int, ...], int] = {}
    every = words.tolist()
    columns = zip(kinds.tolist(), starts.tolist(), sizes.tolist(), strict=True)
    for k, (kind, start, size) in enumerate(columns):
        if kind >= 0:
            content = every[start : start + size]
            read = [one[x] for x in content] if kind >= nodes else content
            one[k] = known.setdefault((kind, *read), k)
    return np.array(one, np.int64)
