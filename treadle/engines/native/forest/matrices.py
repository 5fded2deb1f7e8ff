"""Where the values of rows lie: a matrix for each, rows one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.options import current
from treadle.base.types import Type
from treadle.batch.forest import Forest, Instance
from treadle.batch.room import room
from treadle.batch.units import Leaves, View
from treadle.engines.native.forest.moves import adds
from treadle.engines.native.objects.arrays import addresses_of
from treadle.engines.native.run import memory_of

__all__ = ["LINE", "Matrices", "Read", "addresses", "memory", "row_types"]

LINE = 64
WIDEST = 16  # bytes of one element
Place = tuple[str, int]  # a source, as `Template` names them


def row_types(instance: Instance, gradient: bool) -> dict[Place, Type]:
    """The types of what one row has, but for cotangents."""
    body, template = instance.signature.body, instance.template
    found: dict[Place, Type] = {}
    for k in instance.sources:
        found["input", k] = body.arguments[k].type
    for k, t in enumerate(body.types):
        found["output", k] = t
    for k, t in enumerate(template.kept if gradient else ()):
        found["kept", k] = t
    return found


def memory(size: int) -> tuple[np.ndarray[Any, Any], int]:
    """Bytes that nobody has written yet, and where they begin.

    They come back when the array dies. Powers of two are taken, so that what one
    minibatch has had does for the next one: pages never written to cost nothing.
    """
    step = 1 << max(size.bit_length() - 1, 12)
    results = memory_of(current().arena).results
    return results.lend([-(-max(size, 1) // step) * step], np.uint8)


class Read:
    """Values that rows read and no row makes, at an address each."""

    def __init__(self, leaves: Leaves, views: Sequence[View]) -> None:
        self.views = views
        nodes = leaves.nodes
        inside = {view.leaf for view in views}
        whole = [k for k in range(len(nodes)) if k not in inside]
        stored = [nodes[k].stored for k in whole]
        self.arrays: list[Any] = [
            x if type(x) is np.ndarray else nodes[k].array
            for k, x in zip(whole, stored, strict=True)
        ]
        self.most = max((t.nbytes for t, _ in leaves.types), default=0)
        if self.most > WIDEST:  # a single element lies in one piece anyway
            self.arrays = [np.asarray(x, order="C") for x in self.arrays]
        self.addresses = np.zeros(len(nodes), np.int64)
        self.addresses[whole] = addresses_of(self.arrays)
        self.place_views(self.addresses)
        # Those that a derivative can be taken by, with their types.
        added = [(t, own.tolist()) for t, own in leaves.types if adds(t.dtype)]
        self.floats = [(k, t) for t, own in added for k in own if k not in inside]

    def place_views(self, addresses: np.ndarray[Any, Any]) -> None:
        """Fill in where parts lie, from where that lies which they are part of."""
        for view in self.views:
            addresses[view.leaf] = addresses[view.of] + view.offset


class Matrices:
    """Memory for one matrix per instance and value, in one block.

    A matrix has room for some rows more, which are zeros: sums over rows are taken of
    few different numbers of them.
    """

    def __init__(self) -> None:
        self.offsets: dict[tuple[int, Place], int] = {}
        self.types: dict[tuple[int, Place], Type] = {}
        self.rows: dict[int, int] = {}
        self.size = 0
        self.block: np.ndarray[Any, Any] = np.empty(0, np.uint8)
        self.base = 0

    def add(self, number: int, rows: int, place: Place, type_: Type) -> None:
        """Room for `rows` rows of a type."""
        self.rows[number] = rows
        self.offsets[number, place] = self.size
        self.types[number, place] = type_
        self.size += -(-room(rows) * type_.nbytes // LINE) * LINE

    def allocate(self, zero: bool = False) -> None:
        """Take the memory, of zeros or of whatever there is."""
        self.block, self.base = memory(self.size)
        if zero:
            self.block[: self.size] = 0
            return
        for (number, place), offset in self.offsets.items():
            rows, size = self.rows[number], self.types[number, place].nbytes
            begin, more = offset + rows * size, room(rows) - rows
            if more:
                self.block[begin : begin + more * size] = 0

    def address(self, number: int, place: Place, row: int = 0) -> int:
        """Where a row begins."""
        key = number, place
        return self.base + self.offsets[key] + row * self.types[key].nbytes

    def array(self, number: int, place: Place) -> np.ndarray[Any, Any]:
        """A matrix as an array, over the same memory."""
        key = number, place
        t = self.types[key]
        start = self.offsets[key]
        raw = self.block[start : start + self.rows[number] * t.nbytes]
        return raw.view(t.dtype).reshape(self.rows[number], *t.shape)


def addresses(
    forest: Forest, matrices: Matrices, kind: str, leaves: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """The address of each value that rows read: of units' outputs, then of leaves.

    A leaf numbered -k stands k-th from the end.
    """
    count = forest.all.count
    found = np.zeros(count + len(leaves), np.int64)
    if len(leaves):
        found[count:] = leaves[::-1]
    for number, instance in enumerate(forest.instances):
        first = forest.first[instance.units]
        rows = np.arange(instance.count)
        for k, t in enumerate(instance.signature.body.types):
            if (number, (kind, k)) in matrices.offsets:
                start = matrices.address(number, (kind, k))
                found[first + k] = start + rows * t.nbytes
    return found
