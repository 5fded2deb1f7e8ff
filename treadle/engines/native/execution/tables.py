"""Binding tables of a program: addresses of its arguments, idle steps."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.arrays import Array, Numbers
from treadle.core import native
from treadle.engines.native.execution.pool import arrived
from treadle.engines.native.execution.small import is_brief
from treadle.graph.claim import InPlace
from treadle.program.layout import laid

if TYPE_CHECKING:
    from treadle.engines.native.execution.linked import Linked


@dataclass
class InPlaceState:
    """Shared state of runs that write in place over the same arrays."""

    of: weakref.ref[InPlace]
    rest: list[int]  # the other arguments
    results: dict[int, int]  # the buffers of the results, with those of arguments
    idle: list[int]


class Tables:
    """The integers of a program for one run at a time; the next one takes them again.

    Every run fills in all addresses but those of constants.
    """

    def __init__(self, linked: Linked) -> None:
        self.addresses = linked.fixed.copy()
        self.status = ctypes.c_int64()
        self.flag = ctypes.addressof(self.status)
        self.addresses[-1] = self.flag
        self.table = linked.table.copy()
        self.arguments = int(self.table.ctypes.data)
        self._made = linked.records
        # By argument: the array of the last run, if it was read where it lies.
        self._known: list[weakref.ref[Array] | None]
        self._known = [None] * len(linked.interface.arguments)
        self._orders = linked.interface.orders
        self._arguments = linked.interface.arguments
        self._idle: list[int] = []
        self._over: InPlaceState | None = None
        self.steps = linked.records
        # By their first records: the runs of steps that keep Python's lock.
        self.brief = {
            x.record
            for x in linked.runs
            if x.records and is_brief(linked.records[x.record : x.record + x.records])
        }
        self._place = int(linked.records.ctypes.data)

    def take(
        self, places: Sequence[int], arrays: Sequence[Array], buffers: dict[int, Array]
    ) -> None:
        """Put arguments into `buffers` by number, as kernels read them, and fill in
        their addresses."""
        numbers, straightened, now = [], [], []
        for k in places:
            x, n, known = arrays[k], self._arguments[k], self._known[k]
            if known is not None and known() is x:
                buffers[n] = x
                continue
            order = self._orders[k]
            if order:  # it lies as an earlier program has left it
                flat = straight(x.transpose(order))
                buffers[n] = laid(flat, order)
            else:
                buffers[n] = flat = straight(x)
            numbers.append(n)
            straightened.append(flat)
            self._known[k] = None  # until it has its address: an interrupt may come
            now.append((k, weakref.ref(x) if flat is x else None))
        if straightened:
            self.addresses[numbers] = addresses_of(straightened)
            for k, ref in now:
                self._known[k] = ref

    def over(self, held: InPlace | None) -> InPlaceState | None:
        """The tables of the last run if it was one over these arrays: they have the
        addresses that they had then."""
        last = self._over
        if last is not None and (held is None or last.of() is not held):
            last = self._over = None
        return last

    def know(
        self, held: InPlace, spent: Set[int], results: dict[int, int], idle: list[int]
    ) -> None:
        """Know of a run over arrays, which its spent arguments are, all of them."""
        rest = [k for k in range(len(self._arguments)) if k not in spent]
        self._over = InPlaceState(weakref.ref(held), rest, results, idle)

    def records(self, idle: list[int]) -> int:
        """The address of the records, of which those `idle` have nothing to do."""
        if idle != self._idle:
            self._idle = idle
            self.steps = self._made.copy()
            self.steps[idle, 2] = 0
            self._place = int(self.steps.ctypes.data)
        return self._place


def straight(x: Array) -> Array:
    """An array in C order: what is copied for that has to be there."""
    if not x.flags.c_contiguous:
        arrived()
    elif type(x) is np.ndarray:
        return x
    return np.asarray(x, order="C")


def memory_under(x: Array) -> Any:
    """The owner of the memory of an array while a run reads it, and no array that
    somebody looks at: an update may lie where weights do that are being read."""
    while type(x) is np.ndarray and x.base is not None:
        x = x.base
    return x


def addresses_of(arrays: Sequence[np.ndarray[Any, Any]]) -> Numbers:
    """The addresses of the first elements of arrays.

    >>> x, y = np.zeros(3), np.ones(2)
    >>> addresses_of([x, y]).tolist() == [x.ctypes.data, y.ctypes.data]
    True
    """
    if native is None:
        return np.array([x.ctypes.data for x in arrays], np.int64)
    return native.addresses(arrays)
