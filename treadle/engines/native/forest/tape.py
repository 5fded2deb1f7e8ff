"""A forest run forward, and backward when its gradient is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.options import current
from treadle.batch.columns import Numbers
from treadle.batch.forest import Forest, Groups, Instance
from treadle.batch.part import Part
from treadle.batch.room import room
from treadle.batch.template import Sparse
from treadle.engines.native.forest.assembly import Assembly, places_of, sizes_of
from treadle.engines.native.forest.matrices import (
    LINE,
    Matrices,
    Read,
    addresses,
    memory,
    row_types,
)
from treadle.engines.native.forest.moves import adds
from treadle.engines.native.forest.parts import Rows, compiled

__all__ = ["Run"]

Spots = np.ndarray[Any, np.dtype[np.int64]]  # of each value: instance, output, row


class Run:
    """The values of a forest; with `gradient` also what its gradient reads."""

    def __init__(self, forest: Forest, gradient: bool) -> None:
        self.forest = forest
        self.gradient = gradient
        self.shared: dict[int, np.ndarray[Any, Any]] = {}
        self.values = Matrices()
        for number, instance in enumerate(forest.instances):
            for place, t in row_types(instance, gradient).items():
                self.values.add(number, instance.count, place, t)
        for instance in forest.instances:
            for node in instance.signature.shared.values():
                array = node.array
                assert array is not None
                self.shared[node.serial] = np.asarray(array, order="C")
        self.leaves = Read(forest.all.leaves, forest.all.views)

    def forward(self) -> None:
        """Compute the rows of all groups."""
        forest, values = self.forest, self.values
        values.allocate()
        where = addresses(forest, values, "output", self.leaves.addresses)
        steps = Assembly()
        for number, instance in enumerate(forest.instances):
            part = self._forward_of(instance)
            count = len(instance.signature.body.outputs)
            places = [("output", k) for k in range(count)]
            places += [("kept", k) for k in range(len(part.body.outputs) - count)]
            groups = instance.groups
            for k, sources in instance.sources.items():
                own = where[sources]
                steps.alive.append(own)
                size = instance.signature.body.arguments[k].type.nbytes
                pointers = own.ctypes.data + 8 * groups.starts
                target = values.address(number, ("input", k)) + size * groups.starts
                steps.gather(groups.turns, pointers, target, groups.counts, size)
            _Placed(self, number, part, places).put(steps, groups)
        steps.run(current().threads)

    def _forward_of(self, instance: Instance) -> Part:
        template = instance.template
        return template.forward if self.gradient else template.plain

    def possible(self) -> bool:
        """Whether every body has native steps alone."""
        pairs = [(_compiled(self._forward_of(x)), x) for x in self.forest.instances]
        return all(
            rows.at(n).possible
            for rows, instance in pairs
            for n in dict.fromkeys(instance.groups.counts.tolist())
        )

    def value(self, places: Spots) -> np.ndarray[Any, Any]:
        """The values of some outputs of rows, which have one type, one by one."""
        return _taken(self.values, places)

    # -- backward ----------------------------------------------------------------------

    def backward(
        self,
        given: Sequence[tuple[Spots, np.ndarray[Any, Any]]],
        asked: Sequence[Spots] = (),
    ) -> Cotangents:
        """Cotangents of what the forest read, for those of some of its values, and of
        the values that are asked for.
        """
        forest = self.forest
        self.grads = grads = Matrices()
        fresh = Matrices()
        leaves = Matrices()
        for number, instance in enumerate(forest.instances):
            for k, t in enumerate(instance.signature.body.types):
                if adds(t.dtype):
                    grads.add(number, instance.count, ("output", k), t)
            for k, t in enumerate(instance.template.frontier):
                fresh.add(number, instance.count, ("frontier", k), t)
        for k, t in self.leaves.floats:
            leaves.add(k, 1, ("leaf", 0), t)
        self.fresh = fresh
        grads.allocate(zero=True)
        leaves.allocate(zero=True)
        fresh.allocate()
        for places, g in given:
            for number, output, mine in _matrices_of(places):
                rows = places[mine, 2]
                np.add.at(grads.array(number, ("output", output)), rows, g[mine])
        sink = np.zeros(self.leaves.most + 64, np.uint8)
        spots = np.full(len(forest.all.leaves), sink.ctypes.data, np.int64)
        for k, _ in self.leaves.floats:
            spots[k] = leaves.address(k, ("leaf", 0))
        self.leaves.place_views(spots)
        where = addresses(forest, grads, "output", spots)
        steps = Assembly()
        space, base = memory(self._space())
        steps.alive.append(space)
        for number in range(len(forest.instances)):
            self._backward_of(steps, number, where, base)
        found = Cotangents()
        for number, instance in enumerate(forest.instances):
            self._totals(steps, number, instance, found)
        steps.run(current().threads)
        self._sparse(found)
        found.rows += [_taken(grads, places) for places in asked]
        serials = forest.all.leaves.serials
        for k, _ in self.leaves.floats:
            if forest.derived[k]:
                own = found.dense.setdefault(int(serials[k]), [])
                own.append(leaves.array(k, ("leaf", 0))[0].copy())
        return found

    def _space(self) -> int:
        """Bytes for the cotangents of what one group reads."""
        most = 0
        for instance in self.forest.instances:
            n = int(instance.groups.counts.max())
            arguments = instance.signature.body.arguments
            types = [arguments[k].type for k in instance.template.row_cotangents]
            most = max(most, sum(-(-n * t.nbytes // LINE) * LINE for t in types))
        return most

    def _backward_of(
        self, steps: Assembly, number: int, where: np.ndarray[Any, Any], base: int
    ) -> None:
        """The gradient of the rows of an instance, added to where `where` says."""
        instance = self.forest.instances[number]
        template = instance.template
        if template.backward is None:
            return
        groups = _backwards(instance.groups, self.forest.groups)
        arguments = instance.signature.body.arguments
        given, place = [], np.full(len(groups.counts), base)
        for k in template.row_cotangents:
            given.append(place)
            size = arguments[k].type.nbytes
            place = place + -(-groups.counts * size // LINE) * LINE
        frontier = [("frontier", k) for k in range(len(template.frontier))]
        _Placed(self, number, template.backward, frontier).put(steps, groups, given)
        for k, place in zip(template.row_cotangents, given, strict=True):
            own = where[instance.sources[k]]
            steps.alive.append(own)
            targets, t = own.ctypes.data + 8 * groups.starts, arguments[k].type
            steps.add(groups.turns, targets, place, groups.counts, t)

    def _totals(
        self, steps: Assembly, number: int, instance: Instance, found: Cotangents
    ) -> None:
        template = instance.template
        part = template.total
        if part is None:
            return
        n = room(instance.count) if template.sums else instance.count
        made = compiled((part.body.number, "total"), template.total_at, False).at(n)
        arguments = [self.address(number, s, 0) for s in part.sources]
        results = []
        for k, y in zip(template.shared_cotangents, part.body.outputs, strict=True):
            array = np.empty(y.type.shape, y.type.dtype)
            node = instance.signature.shared[k]
            found.dense.setdefault(node.serial, []).append(array)
            results.append(array)
        steps.part(
            np.array([self.forest.groups]),  # after all groups
            [made],
            [0],
            np.array([arguments], np.int64),
            places_of(results),
            sizes_of(results),
        )

    def ids(self, number: int, own: Sparse) -> np.ndarray[Any, Any]:
        """The rows of a table that an instance has read."""
        return self._array_of(number, own.ids).reshape(-1).copy()

    def _sparse(self, found: Cotangents) -> None:
        for number, instance in enumerate(self.forest.instances):
            for k, own in instance.template.sparse.items():
                node = instance.signature.shared[k]
                values = self._array_of(number, own.values)
                count = values.size // max(math.prod(own.tail), 1)
                found.sparse.setdefault(node.serial, []).append(
                    values.reshape(count, *own.tail)
                )

    # -- places ------------------------------------------------------------------------

    def _matrices(self, kind: str) -> Matrices:
        if kind == "cotangent":
            return self.grads
        return self.fresh if kind == "frontier" else self.values

    def address(self, number: int, source: tuple[str, int], row: int) -> int:
        kind, k = source
        instance = self.forest.instances[number]
        if kind == "input" and k in instance.signature.shared:
            return self.shared[instance.signature.shared[k].serial].ctypes.data
        place = ("output", k) if kind == "cotangent" else source
        return self._matrices(kind).address(number, place, row)

    def _array_of(self, number: int, source: tuple[str, int]) -> np.ndarray[Any, Any]:
        kind, k = source
        place = ("output", k) if kind == "cotangent" else source
        return self._matrices(kind).array(number, place)

    def row_bytes(self, number: int, source: tuple[str, int]) -> int:
        """How far apart the rows of a source lie: none of what rows share."""
        kind, k = source
        if kind == "input" and k in self.forest.instances[number].signature.shared:
            return 0
        place = ("output", k) if kind == "cotangent" else source
        return self._matrices(kind).types[number, place].nbytes


def _compiled(part: Part) -> Rows:
    return compiled((part.body.number, part.given), part.at)


class _Placed:
    """A part of an instance, and where its arguments and results lie.

    What is said of row 0 moves on by `shifts` bytes a row. The first results, which
    are not in `places`, are given with each group.
    """

    def __init__(
        self, run: Run, number: int, part: Part, places: Sequence[tuple[str, int]]
    ) -> None:
        self.rows = _compiled(part)
        every = [*part.sources, *places]
        self.count = len(part.sources)
        starts = [run.address(number, s, 0) for s in every]
        self.starts = np.array(starts, np.int64)
        self.shifts = np.array([run.row_bytes(number, s) for s in every], np.int64)
        sizes = [y.type.nbytes for y in part.body.outputs]
        self.sizes = np.array(sizes, np.int64)

    def put(
        self, steps: Assembly, groups: Groups, given: Sequence[Numbers] = ()
    ) -> None:
        """The part for each group; `given` has where its first results lie."""
        own = self.starts + groups.starts[:, None] * self.shifts
        results = own[:, self.count :]
        if given:
            results = np.concatenate([np.stack(given, 1), results], 1)
        sizes = groups.counts[:, None] * self.sizes
        for made, which, k in self.rows.alike(groups.counts.tolist()):
            arguments = own[k, : self.count]
            steps.part(groups.turns[k], made, which, arguments, results[k], sizes[k])


def _backwards(groups: Groups, count: int) -> Groups:
    """The groups in the turns of the way back."""
    return Groups(count - 1 - groups.turns, groups.starts, groups.counts)


class Cotangents:
    """Of what a forest read, by serial: arrays to be summed up, and rows of tables."""

    def __init__(self) -> None:
        self.dense: dict[int, list[np.ndarray[Any, Any]]] = {}
        self.sparse: dict[int, list[np.ndarray[Any, Any]]] = {}
        self.rows: list[np.ndarray[Any, Any]] = []


def _matrices_of(places: Spots) -> list[tuple[int, int, Any]]:
    """The matrices that some values lie in, with which of the values."""
    if len(places) == 1:
        return [(int(places[0, 0]), int(places[0, 1]), slice(None))]
    codes = places[:, 0] * (int(places[:, 1].max()) + 1) + places[:, 1]
    found = []
    for code in np.unique(codes):
        (mine,) = np.nonzero(codes == code)
        number, output = places[mine[0], :2].tolist()
        found.append((number, output, mine))
    return found


def _taken(matrices: Matrices, places: Spots) -> np.ndarray[Any, Any]:
    """Copies of some values, one after the other."""
    parts = [
        (mine, matrices.array(number, ("output", output))[places[mine, 2]])
        for number, output, mine in _matrices_of(places)
    ]
    if len(parts) == 1:
        return parts[0][1]
    first = parts[0][1]
    found = np.empty((len(places), *first.shape[1:]), first.dtype)
    for mine, part in parts:
        found[mine] = part
    return found
