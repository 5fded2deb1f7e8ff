"""Nodes that do the same to the same operands: one of them is computed for all.

Words come again in a minibatch, and so do cells that read nothing but a word. What a
program's rewriting does to equal expressions (value numbering) is done here to units,
by their signatures, and to rows of tables, by where they lie.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.base.routine import Compile, Marks, Numbers, mixed, routine
from treadle.batch.kinds import OUTPUT, Ops
from treadle.batch.views import Inside
from treadle.batch.walk import Walk
from treadle.graph.leaves import CONSTANT

__all__ = ["equals"]


@dataclass(frozen=True)
class Table:
    """What nodes do, by their numbers: `kinds`, -1 for those that are not looked at,
    and words[starts[k] : starts[k] + sizes[k]], which are nodes from kind `nodes` on.

    `slots` are a hash table of nodes, one more than each; zero is free.
    """

    kinds: Numbers
    starts: Numbers
    sizes: Numbers
    words: Numbers
    nodes: int
    slots: Numbers
    mask: int


def equals(
    walk: Walk,
    ops: Ops,
    found: Sequence[tuple[Numbers, Numbers]],
    possible: Marks,
    inside: Inside,
    compiled: Compile,
) -> Numbers:
    """Of each node, the first that is equal to it.

    `found` has nodes of one signature each with what they read, where they are
    `possible`; `inside` has views. Ids and labels are equal if they are one object, as
    those of an int are; nobody derives by them.
    """
    count = len(walk.nodes)
    kinds = np.full(count, -1, np.int64)
    starts, sizes = np.zeros((2, count), np.int64)
    words: list[Numbers] = []
    place = 0

    def note(own: Numbers, kind: Numbers | int, read: Numbers) -> None:
        nonlocal place
        width = read.shape[1]
        kinds[own], sizes[own] = kind, width
        starts[own] = place + width * np.arange(len(own))
        words.append(read.ravel())
        place += read.size

    of_nodes = walk.found.count  # kinds of data and views are types
    (data,) = np.nonzero(ops.marked(lambda op: op is CONSTANT) & ~walk.waiting)
    data = data[~walk.inexact(data)]
    note(data, walk.types(data), walk.found.values[data][:, None])
    if inside:
        views = np.fromiter(inside, np.int64, len(inside))
        lies = np.array(list(inside.values()), np.int64)
        note(views, walk.types(views), lies)
    (results,) = np.nonzero(walk.waiting & (ops.kind == OUTPUT))
    makers = walk.operands[walk.starts[results]]
    note(results, of_nodes + ops.position[results], makers[:, None])
    first = of_nodes + int(ops.position.max(initial=0)) + 1
    for number, (own, read) in enumerate(found):
        kept = possible[own]
        note(own[kept], first + number, read[kept])
    slots = 1 << (2 * count).bit_length()
    free = np.zeros(slots, np.int64)
    table = Table(
        kinds, starts, sizes, np.concatenate(words), of_nodes, free, slots - 1
    )
    one = np.arange(count)
    compiled(number_values)(table, one, count)
    return one


@routine
def number_values(table: Table, one: Numbers, count: int) -> None:
    """Find the first equal of each node, in creation order."""
    for k in range(count):
        if table.kinds[k] < 0:
            continue
        code = _prepare(table, one, k)
        slot = code & table.mask
        while table.slots[slot] > 0:
            other = table.slots[slot] - 1
            if _equal(table, k, other):
                one[k] = other
                break
            slot = slot + 1 & table.mask
        if one[k] == k:
            table.slots[slot] = k + 1


@routine
def _prepare(table: Table, one: Numbers, k: int) -> int:
    """Let a node read what is equal to its operands; its hash."""
    kind, code = table.kinds[k], table.kinds[k]
    for j in range(table.starts[k], table.starts[k] + table.sizes[k]):
        word = table.words[j]
        if kind >= table.nodes:
            word = one[word]
            table.words[j] = word
        code = mixed(code, word)
    return code


@routine
def _equal(table: Table, k: int, other: int) -> bool:
    """Whether two nodes do the same to the same."""
    if table.kinds[k] != table.kinds[other] or table.sizes[k] != table.sizes[other]:
        return False
    mine, its = table.starts[k], table.starts[other]
    for j in range(table.sizes[k]):
        if table.words[mine + j] != table.words[its + j]:
            return False
    return True
