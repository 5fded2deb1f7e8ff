"""How a graph is built, in numbers: what graphs built by the same steps share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from treadle.base.arrays import Numbers
from treadle.core import native
from treadle.graph.op import Op
from treadle.graph.references import counted
from treadle.graph.tensor import Tensor

__all__ = ["AGELESS", "MOST", "Outline", "outline"]

AGELESS = 1 << 62  # the age of a node with a value
MOST = 1024  # nodes of a graph that is told from others by its outline


@dataclass
class Outline:
    """A graph as it is found from its roots: these, what the first of them reads, ...

    `parts` has of each node in turn, from `heads[k]` on, which of the `ops` it has, and
    then the places of what it reads. One with a value is a leaf: it has 0 there, and
    reads nothing, but for those that are `open`: what they were made of is told, too.
    `ages` are serials. By place, `others` counts the references to a
    node but for those of these nodes and of the list of roots, `held` lists the nodes
    without a value, behind the roots, that have any.
    """

    nodes: list[Tensor]
    ops: list[Op]
    leaves: list[int]
    open: list[int]
    others: list[int]
    held: list[int]
    parts: Numbers
    heads: Numbers
    ages: Numbers


def outline(roots: Sequence[Tensor], most: int, whole: bool = False) -> Outline | None:
    """The graph below a list of different roots, to where values begin unless it is the
    `whole`; None of one that has more than so many nodes, or one without a value that
    is marked or reads nothing.
    """
    if native is not None:
        found = native.outline(roots, most, whole)
        return None if found is None else Outline(*found)
    nodes, ops, first = list(roots), list[Op](), len(roots)
    place = {node.serial: k for k, node in enumerate(nodes)}
    numbers: dict[int, int] = {}  # of ops, by id
    uses = [1] * first
    parts: list[int] = []
    heads: list[int] = []
    leaves: list[int] = []
    opened: list[int] = []
    ages: list[int] = []
    for k, node in enumerate(nodes):
        heads.append(len(parts))
        waits = node.stored is None
        is_leaf = not waits and not (whole and node.inputs)
        ages.append(AGELESS if is_leaf else node.serial)
        if is_leaf:
            parts.append(0)
            leaves.append(k)
            continue
        if not waits:
            opened.append(k)
        elif node.mark is not None or not node.inputs:
            return None
        number = numbers.setdefault(id(node.op), len(ops))
        if number == len(ops):
            ops.append(node.op)
        parts.append(number)
        for x in node.inputs:
            at = place.setdefault(x.serial, len(nodes))
            if at == len(nodes):
                nodes.append(x)
                uses.append(0)
            uses[at] += 1
            parts.append(at)
        if len(nodes) > most:
            return None
    node = x = None  # type: ignore[assignment]
    others = [count - own for count, own in zip(counted(nodes), uses, strict=True)]
    waiting = (k for k in range(first, len(nodes)) if nodes[k].stored is None)
    held = [k for k in waiting if others[k] > 0]
    arrays = [np.array(x, np.int64) for x in (parts, heads, ages)]
    return Outline(nodes, ops, leaves, opened, others, held, *arrays)
