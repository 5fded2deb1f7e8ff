"""The nodes of a run with their fields side by side, one array a field.

`columns` is how Python reads them; the core has a faster way, with equal results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

import numpy as np

from treadle.base.arrays import Marks, Numbers, indices_of
from treadle.base.caches import lazy
from treadle.core import native
from treadle.graph.references import references
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import NEWEST, pending, reach, waiting_results

__all__ = [
    "Columns",
    "Marks",
    "Numbers",
    "classes",
    "columns",
    "grouped",
    "order_of",
    "split",
]

_op, _type = attrgetter("op"), attrgetter("type")
_serial, _stored, _depth = map(attrgetter, ("serial", "stored", "depth"))


@dataclass
class Columns:
    """Nodes in creation order, from where one has a value on.

    `ops`, `kinds` and `types` number their ops, the classes of these and their types:
    the same object has the same number, below `count`; `values` are the identities of
    their values. `waiting` marks what is to be computed, the others read nothing;
    `marked` those of which more is to be known. `operands` has the places of what is
    read, `sizes` how many each reads. `references` counts what refers to a node,
    besides this object.
    """

    nodes: list[Tensor]
    count: int
    ops: Numbers
    kinds: Numbers
    types: Numbers
    values: Numbers
    waiting: Marks
    marked: Marks
    serials: Numbers
    depths: Numbers
    references: Numbers
    sizes: Numbers
    operands: Numbers

    @lazy
    def starts(self) -> Numbers:
        """Where the operands of each node begin, and where those of all end."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    def read(self, k: int) -> list[int]:
        """The operands of a node."""
        return self.operands[self.starts[k] : self.starts[k + 1]].tolist()


def columns(
    roots: Sequence[Tensor], floor: int = NEWEST, ends: Set[int] = frozenset()
) -> Columns:
    """The columns of the nodes that the roots depend on, down to those with a value.

    One that is newer than a `floor`, behind which trained Variables lie, is waiting as
    if it had none, but for those whose serials are `ends`.
    """
    if native is not None:
        return Columns(*native.columns(roots, floor, ends))

    def waits(x: Tensor) -> bool:
        opens = x.serial > floor and x.serial not in ends and bool(x.inputs)
        return x.stored is None or (opens and _leads_behind(x))

    nodes = pending(roots)
    if floor < NEWEST:
        nodes = reach(roots, lambda x: not waits(x))
        more = [x for node in nodes for x in waiting_results(node)]
        nodes = reach([*nodes, *more], lambda x: not waits(x))
        del more  # which would count as holding them
    count = len(nodes)
    held = references(nodes)
    wait = np.fromiter(map(waits, nodes), np.bool_, count)
    inputs = [x.inputs if y else () for x, y in zip(nodes, wait.tolist(), strict=True)]
    sizes = _numbers(map(len, inputs), count)
    serials = _numbers(map(_serial, nodes), count)
    read = _numbers(map(_serial, chain.from_iterable(inputs)), int(sizes.sum()))
    ops = list(map(_op, nodes))
    things: dict[int, int] = {}
    ids = [map(id, ops), map(id, map(type, ops)), map(id, map(_type, nodes))]
    numbers, kinds, types = [
        _numbers([things.setdefault(x, len(things)) for x in column], count)
        for column in ids
    ]
    return Columns(
        nodes,
        len(things),
        numbers,
        kinds,
        types,
        _numbers([0 if x is None else id(x) for x in map(_stored, nodes)], count),
        wait,
        np.array(
            [
                x.mark is not None and (x.stored is None or not y)
                for x, y in zip(nodes, wait.tolist(), strict=True)
            ],
            np.bool_,
        ),
        serials,
        _numbers(map(_depth, nodes), count),
        held,
        sizes,
        np.searchsorted(serials, read),
    )


def _leads_behind(x: Tensor) -> bool:
    """Whether trained Variables lie behind a value, and no more is known of it."""
    mark = x.mark or {}
    return bool(mark.get("carried")) and mark.keys() <= {"carried", "program"}


def _numbers(values: Iterable[int], count: int) -> Numbers:
    return np.fromiter(values, np.int64, count)


def order_of(codes: Numbers) -> Numbers:
    """The order of numbers that are not negative; equal ones stay as they are.

    >>> order_of(np.array([2, 0, 2, 1])).tolist()
    [1, 3, 0, 2]
    """
    few = codes.max(initial=0) < 1 << 16  # then they are sorted by counting
    small = codes.astype(np.uint16) if few else codes
    return np.argsort(small, kind="stable")


def grouped(things: Numbers, codes: Numbers) -> list[Numbers]:
    """Things in lists of one code each.

    >>> grouped(np.array([5, 6, 7]), np.array([1, 0, 1]))
    [array([6]), array([5, 7])]
    """
    return [things[x] for x in split(codes[:, None])]


def classes(code: Numbers, marks: Marks) -> list[Numbers]:
    """The marked nodes in lists of one code each."""
    nodes = indices_of(marks)
    return grouped(nodes, code[nodes])


def split(keys: Numbers) -> list[Numbers]:
    """The rows of a matrix of numbers, in lists of equal ones, by what they are.

    >>> split(np.array([[0, 7], [1, 7], [0, 7]]))
    [array([0, 2]), array([1])]
    """
    if native is not None:
        return native.split(np.ascontiguousarray(keys))
    rows: dict[tuple[int, ...], list[int]] = {}
    for k, row in enumerate(keys.tolist()):
        rows.setdefault(tuple(row), []).append(k)
    return [np.array(rows[row], np.int64) for row in sorted(rows)]
