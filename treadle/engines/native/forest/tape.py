"""A forest run forward, and backward when its gradient is asked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.options import current
from treadle.base.types import Type
from treadle.batch.forest import Forest, Instance
from treadle.batch.part import Part
from treadle.batch.room import room
from treadle.batch.template import Sparse
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.matrices import (
    Leaves,
    Matrices,
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
        self.leaves = Leaves(forest.all.leaves, forest.all.views)

    def forward(self) -> None:
        """Compute the rows of all groups."""
        forest, values = self.forest, self.values
        values.allocate()
        where = addresses(forest, values, "output", self.leaves.addresses)
        steps = Assembly()
        bodies: list[_Placed] = []
        self.pointers: list[list[np.ndarray[Any, Any]]] = []
        gathers: list[list[tuple[int, int, int]]] = []  # from, to, bytes of a row
        for number, instance in enumerate(forest.instances):
            part = self._forward_of(instance)
            count = len(instance.signature.body.outputs)
            places = [("output", k) for k in range(count)]
            places += [("kept", k) for k in range(len(part.body.outputs) - count)]
            bodies.append(_Placed(self, number, part, places))
            own, moves = [], []
            for k, sources in instance.sources.items():
                own.append(where[sources])
                target = values.address(number, ("input", k))
                size = instance.signature.body.arguments[k].type.nbytes
                moves.append((own[-1].ctypes.data, target, size))
            self.pointers.append(own)
            gathers.append(moves)
        for number, a, n in forest.steps:
            for pointers, target, size in gathers[number]:
                steps.gather(pointers + 8 * a, target + a * size, n, size)
            bodies[number].put(steps, a, n)
        steps.run(current().threads)

    def _forward_of(self, instance: Instance) -> Part:
        template = instance.template
        return template.forward if self.gradient else template.plain

    def possible(self) -> bool:
        """Whether every body has native steps alone."""
        every = [_compiled(self._forward_of(x)) for x in self.forest.instances]
        return all(every[k].at(n).possible for k, _, n in self.forest.steps)

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
        bodies = [self._backward_of(k, where) for k in range(len(forest.instances))]
        space, base = memory(self._space())
        steps.alive.append(space)
        for number, a, n in reversed(forest.steps):
            body = bodies[number]
            if body is not None:
                body.put(steps, a, n, base)
        found = Cotangents()
        for number, instance in enumerate(forest.instances):
            self._totals(steps, number, instance, found)
        steps.run(current().threads)
        self._sparse(found)
        found.rows += [_taken(grads, places) for places in asked]
        for k, _ in self.leaves.floats:
            if forest.derived[k]:
                own = found.dense.setdefault(forest.all.leaves[k].serial, [])
                own.append(leaves.array(k, ("leaf", 0))[0].copy())
        return found

    def _space(self) -> int:
        """Bytes for the cotangents of what one group reads."""
        most = 0
        for number, _, n in self.forest.steps:
            instance = self.forest.instances[number]
            own = [
                n * instance.signature.body.arguments[k].type.nbytes
                for k in instance.template.row_cotangents
            ]
            most = max(most, sum(-(-x // 64) * 64 for x in own))
        return most

    def _backward_of(self, number: int, where: np.ndarray[Any, Any]) -> _Pulled | None:
        instance = self.forest.instances[number]
        template = instance.template
        if template.backward is None:
            return None
        frontier = [("frontier", k) for k in range(len(template.frontier))]
        placed = _Placed(self, number, template.backward, frontier)
        body = instance.signature.body
        sums = [
            (where[instance.sources[k]], body.arguments[k].type)
            for k in template.row_cotangents
        ]
        return _Pulled(placed, sums)

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
        results, sizes = [], []
        for k, y in zip(template.shared_cotangents, part.body.outputs, strict=True):
            array = np.empty(y.type.shape, y.type.dtype)
            node = instance.signature.shared[k]
            found.dense.setdefault(node.serial, []).append(array)
            results.append(array.ctypes.data)
            sizes.append(array.nbytes)
        steps.part(made, arguments, results, sizes)

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

    What is said of row 0 moves on by `shifts` bytes a row. The first results that are
    not in `places` are given with each group.
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
        self.sizes = [y.type.nbytes for y in part.body.outputs]

    def put(self, steps: Assembly, a: int, n: int, given: Sequence[int] = ()) -> None:
        """The part for n rows from row a on."""
        own = self.starts + a * self.shifts
        results = own[self.count :]
        if given:
            results = np.concatenate([given, results])
        sizes = [n * size for size in self.sizes]
        steps.part(self.rows.at(n), own[: self.count], results, sizes)


class _Pulled:
    """A part that goes backward: cotangents of what each row reads are added up."""

    def __init__(
        self, placed: _Placed, sums: Sequence[tuple[np.ndarray[Any, Any], Type]]
    ) -> None:
        """`sums`: to where the rows of a cotangent are added, and their type."""
        self.placed = placed
        self.sums = [(x, x.ctypes.data, t) for x, t in sums]

    def put(self, steps: Assembly, a: int, n: int, place: int) -> None:
        """The part for n rows from row a on; cotangents are at `place` first."""
        places = []
        for _, _, t in self.sums:
            places.append(place)
            place += -(-n * t.nbytes // 64) * 64
        self.placed.put(steps, a, n, places)
        for (pointers, targets, t), source in zip(self.sums, places, strict=True):
            steps.alive.append(pointers)
            steps.add(targets + 8 * a, source, n, t.size, t.dtype)


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
