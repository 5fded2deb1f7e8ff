"""Bodies for n rows on a device: programs whose arguments and results lie anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.types import Type
from treadle.engines.gpu.driver import Place, UnsupportedKernelError
from treadle.engines.gpu.linked import DeviceLinked, ReadyStep
from treadle.engines.gpu.memory import DeviceBlocks, GpuValue
from treadle.engines.native.forest.bases import ARENA, STATUS, block, number
from treadle.engines.native.forest.compiled import copied_of, needs_of
from treadle.engines.native.forest.parts import (
    RowBodies,
    TranslatedBody,
    filled,
    first_program,
    symbolic,
)
from treadle.engines.native.translation.translate import Target
from treadle.graph.body import Body
from treadle.graph.instantiate import Polymorphic
from treadle.program.program import Fallback, Program

NONE = np.zeros(0, np.int64)


def spot(address: int) -> Any:
    """The place that an address stands for: the number of a block, and an offset."""
    n = number(int(address))
    return n, int(address) - block(n)


class DeviceBody:
    """A body for one number of rows as launches; some outputs are `copied`."""

    def __init__(
        self,
        program: Program,
        order: Sequence[Any],
        outputs: Sequence[int],
        store: DeviceBlocks,
    ) -> None:
        """`order` and `outputs` as a TranslatedBody has them."""
        self.program = program
        self.possible = not any(isinstance(s, Fallback) for s in program.steps)
        if not self.possible:
            return
        try:
            self.linked = DeviceLinked(program, store)
        except UnsupportedKernelError:
            self.possible = False
            return
        self.needs = needs_of(self.linked.needs, order) if self.linked.checks else ()
        self._arguments: list[tuple[int, int]] = []
        self._held: list[GpuValue] = []
        self._fixed = {n: x.place for n, x in self.linked.constants.items()}
        for k, n in zip(order, program.arguments, strict=True):
            if isinstance(k, int):
                self._arguments.append((n, k))
            else:
                t = Type(k.shape, program.buffers[n].type.dtype)
                self._held.append(store.copy_in(k, t, k))
                self._fixed[n] = self._held[-1].place
        offsets = self.linked.offsets
        self._fixed |= {n: spot(ARENA + offset) for n, offset in offsets}
        where = [n for _, n, _ in program.results]
        self.results = [where[k] for k in outputs]
        self.copied = copied_of(program, self.results)

    def like(self, n: int) -> DeviceBody:
        """The launches: there is one number of rows."""
        return self

    def placed(
        self, arguments: Numbers, results: Numbers
    ) -> tuple[list[Any], list[tuple[ReadyStep, list[Place]]]]:
        """Where all buffers lie, and the launches with theirs, for the addresses of
        arguments and results."""
        places: list[Any] = [None] * len(self.program.buffers)
        for n, k in self._arguments:
            places[n] = spot(arguments[k])
        for k, n in enumerate(self.results):
            if k not in self.copied:
                places[n] = spot(results[k])
        for n, place in self._fixed.items():
            places[n] = place
        status = spot(STATUS)
        pairs = [(x, x.buffers_at(places, status)) for x in self.linked.ready.values()]
        return places, [(ready, own) for ready, own in pairs if own]


class _SizedBody:
    """A body for all numbers of rows that guards admit: its program is made for each
    of them, with the kernels of the first one."""

    def __init__(
        self, make: Callable[[int], Body], n: int, store: DeviceBlocks, target: Target
    ) -> None:
        self._store = store
        self._part, self._sized = symbolic(make, n, Polymorphic, target)

    def at(self, n: int) -> tuple[DeviceBody, Numbers] | None:
        """The launches for n rows, if they are these."""
        sized = self._sized.at([n])
        if sized is None:
            return None
        program, inside = sized
        order = filled(self._part.order, inside)
        return DeviceBody(program, order, self._part.outputs, self._store), NONE


class DeviceBodies(RowBodies):
    """The bodies of rows that a device has kernels of."""

    def __init__(self, store: DeviceBlocks, target: Target) -> None:
        self.store, self._target = store, target
        super().__init__(f"bodies by rows on {store.driver.device}", store.lock)

    def alone(self, body: Body) -> tuple[DeviceBody, Numbers]:
        part = TranslatedBody(body, first_program, self._target)
        return DeviceBody(part.made, part.order, part.outputs, self.store), NONE

    def variant(self, make: Callable[[int], Body], n: int) -> _SizedBody:
        return _SizedBody(make, n, self.store, self._target)

    def count(self, body: Body) -> int:
        return len(TranslatedBody(body, first_program, self._target).made.steps)
