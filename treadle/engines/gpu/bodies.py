"""Bodies for n rows on a device: programs whose arguments and results lie anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.types import Type
from treadle.engines.gpu.driver import UnsupportedKernelError
from treadle.engines.gpu.linked import DeviceLinked, ReadyStep
from treadle.engines.gpu.memory import DeviceBlocks
from treadle.engines.native.forest.bases import ARENA, STATUS
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
from treadle.program.instantiate import SizedProgram
from treadle.program.program import Fallback, Program

NONE = np.zeros(0, np.int64)
Where = Any  # an address as `bases` has them, or the value of a constant


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
        self._fixed: dict[int, Where] = dict(self.linked.constants)
        for k, number in zip(order, program.arguments, strict=True):
            if isinstance(k, int):
                self._arguments.append((number, k))
            else:
                t = Type(k.shape, program.buffers[number].type.dtype)
                self._fixed[number] = store.copy_in(k, t, k)
        self._fixed |= {n: ARENA + offset for n, offset in self.linked.offsets}
        where = [n for _, n, _ in program.results]
        self.results = [where[k] for k in outputs]
        self.copied = copied_of(program, self.results)

    def like(self, n: int) -> DeviceBody:
        """The launches: there is one number of rows."""
        return self

    def placed(
        self, arguments: Numbers, results: Numbers
    ) -> tuple[list[Where], list[tuple[ReadyStep, list[Where]]]]:
        """Where all buffers lie, and the launches with theirs, for the addresses of
        arguments and results."""
        places: list[Where] = [None] * len(self.program.buffers)
        for n, k in self._arguments:
            places[n] = int(arguments[k])
        for k, n in enumerate(self.results):
            if k not in self.copied:
                places[n] = int(results[k])
        for n, where in self._fixed.items():
            places[n] = where
        launches = []
        for ready in self.linked.ready.values():
            own = [places[n] for n in ready.buffers]
            if not ready.groups or (ready.copies and own[0] == own[-1]):
                continue
            launches.append((ready, own + [STATUS] * ready.checks))
        return places, launches


class _SizedBody:
    """A body for all numbers of rows that guards admit: its program is made for each
    of them, with the kernels of the first one."""

    def __init__(
        self, make: Callable[[int], Body], n: int, store: DeviceBlocks, target: Target
    ) -> None:
        self._store = store
        self._part, self._sized = symbolic(make, n, SizedProgram, target)

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
