"""A forest run forward, and backward when its gradient is asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.options import current
from treadle.batch.forest import Forest, Instance
from treadle.batch.part import Part
from treadle.batch.room import room
from treadle.batch.template import Sparse
from treadle.engines.native.forest.assembly import Assembly
from treadle.engines.native.forest.compiled import Compiled
from treadle.engines.native.forest.matrices import (
    Leaves,
    Matrices,
    addresses,
    memory,
    row_types,
)
from treadle.engines.native.forest.moves import adds
from treadle.engines.native.forest.parts import compiled

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
        self.pointers: list[dict[int, np.ndarray[Any, Any]]] = []
        for instance in forest.instances:
            own = {k: where[s] for k, s in instance.sources.items()}
            self.pointers.append(own)
        for number, a, n in forest.steps:
            instance = forest.instances[number]
            part = self._forward_of(instance)
            for k, pointers in self.pointers[number].items():
                t = instance.signature.body.arguments[k].type
                target = values.address(number, ("input", k), a)
                steps.gather(pointers.ctypes.data + 8 * a, target, n, t.nbytes)
            count = len(instance.signature.body.outputs)
            results = [("output", k) for k in range(count)]
            results += [("kept", k) for k in range(len(part.body.outputs) - count)]
            self._part(
                steps,
                part,
                n,
                number,
                a,
                [values.address(number, p, a) for p in results],
            )
        steps.run(current().threads)

    def _forward_of(self, instance: Instance) -> Part:
        template = instance.template
        return template.forward if self.gradient else template.plain

    def possible(self) -> bool:
        """Whether every body has native steps alone."""
        for number, _, n in self.forest.steps:
            instance = self.forest.instances[number]
            if not self._compiled(self._forward_of(instance), n).possible:
                return False
        return True

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
        targets = [
            {k: where[instance.sources[k]] for k in instance.template.row_cotangents}
            for instance in forest.instances
        ]
        space, base = memory(self._space())
        steps.alive.append(space)
        for number, a, n in reversed(forest.steps):
            self._pull(steps, number, a, n, targets[number], base)
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

    def _pull(
        self,
        steps: Assembly,
        number: int,
        a: int,
        n: int,
        targets: Mapping[int, np.ndarray[Any, Any]],
        place: int,
    ) -> None:
        instance = self.forest.instances[number]
        template = instance.template
        part = template.backward
        if part is None:
            return
        results, sums = [], []
        for k in template.row_cotangents:
            t = instance.signature.body.arguments[k].type
            sums.append((targets[k], place, t))
            results.append(place)
            place += -(-n * t.nbytes // 64) * 64
        for k in range(len(template.frontier)):
            results.append(self.fresh.address(number, ("frontier", k), a))
        self._part(steps, part, n, number, a, results)
        for pointers, source, t in sums:
            steps.alive.append(pointers)
            steps.add(pointers.ctypes.data + 8 * a, source, n, t.size, t.dtype)

    def _totals(
        self, steps: Assembly, number: int, instance: Instance, found: Cotangents
    ) -> None:
        template = instance.template
        part = template.total
        if part is None:
            return
        n = room(instance.count) if template.sums else instance.count
        made = compiled((part.body.number, "total"), template.total_at, False).at(n)
        arguments = [self._address(number, s, 0) for s in part.sources]
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

    def _address(self, number: int, source: tuple[str, int], row: int) -> int:
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

    def _part(
        self,
        steps: Assembly,
        part: Part,
        n: int,
        number: int,
        a: int,
        results: Sequence[int],
    ) -> None:
        made = self._compiled(part, n)
        arguments = [self._address(number, s, a) for s in part.sources]
        sizes = [n * y.type.nbytes for y in part.body.outputs]
        steps.part(made, arguments, results, sizes)

    def _compiled(self, part: Part, n: int) -> Compiled:
        return compiled((part.body.number, part.given), part.at).at(n)


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
