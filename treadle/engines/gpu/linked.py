"""A program with memory of a device and compiled kernels: what one run launches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.caches import lazy
from treadle.base.errors import OutOfMemoryError
from treadle.engines.base import PositionError, are_below
from treadle.engines.gpu.bound import BoundProgram
from treadle.engines.gpu.driver import (
    DeviceDriver,
    Place,
    UnsupportedKernelError,
    place_at,
)
from treadle.engines.gpu.emit import loop_work
from treadle.engines.gpu.loops import DeviceLoop, is_loop
from treadle.engines.gpu.memory import DeviceBlock, DeviceBlocks, GpuValue
from treadle.engines.gpu.product import product_of
from treadle.engines.gpu.work import Work, encoded
from treadle.graph.body import bodies
from treadle.program.lives import lives
from treadle.program.positions import Need, needs
from treadle.program.program import Fallback, Launch, Product, Program, title

STATUS = 4  # bytes of what tells of a position out of range
PLACES = 4  # places of all buffers that a program remembers its launches for
CALLS = 4096  # launches that it remembers, at most


@dataclass(frozen=True)
class ReadyStep:
    """A step that can be launched, with its `buffers` by their numbers in the program;
    one that only `copies` is none where its two buffers have one place.
    """

    work: Work
    entry: Any
    groups: int
    buffers: tuple[int, ...]
    numbers: Any
    copies: bool
    checks: bool

    def buffers_at(self, places: Sequence[Place], status: Any) -> list[Place]:
        """The places of a launch's buffers, where those of the program lie at these;
        none of them where there is nothing to do."""
        own = [places[n] for n in self.buffers]
        if not self.groups or (self.copies and own[0] == own[-1]):
            return []
        return [*own, status] if self.checks else own


def made_ready(step: Launch | Product, driver: DeviceDriver) -> ReadyStep:
    """A step compiled for a device."""
    if isinstance(step, Product):
        work, integers, groups, buffers = product_of(step)
    else:
        work, grid = loop_work(step.kernel)
        total = grid.total(step.integers)
        groups, buffers = grid.groups(total), step.buffers
        integers = (*step.integers, total)
    if len(work.buffers) > driver.device.buffers:
        raise UnsupportedKernelError(
            f"the kernel {work.name} has {len(work.buffers)} buffers, "
            f"{driver.device} allows {driver.device.buffers}"
        )
    entry = driver.compile(work)
    numbers = driver.numbers(work, encoded(work.slots, integers))
    copies = isinstance(step, Launch) and step.copies
    return ReadyStep(work, entry, groups, buffers, numbers, copies, work.checks)


class DeviceLinked:
    """A program on one device: its arena is planned, its kernels are compiled.

    What does not change from run to run is there once: constants, the integers of
    launches, entries of kernels; and launches whose buffers lie where they did. A run
    takes a block for the arena and gives it back.
    """

    def __init__(
        self, program: Program, store: DeviceBlocks, inputs: Sequence[Any] = ()
    ) -> None:
        """The program of a body has `inputs` as BodyProgram says."""
        self.program, self.store = program, store
        pairs = list(zip(program.arguments, inputs, strict=False))
        self.inputs = {n: x for n, x in pairs if isinstance(x, int)}
        self._within = [(n, x) for n, x in pairs if n not in self.inputs]
        self.inner = {
            k: {
                body.number: (DeviceLinked(x.program, store, x.inputs), x.inputs)
                for body, x in zip(bodies(s.op).values(), s.bodies, strict=True)
            }
            for k, s in enumerate(program.steps)
            if isinstance(s, Fallback) and s.bodies
        }
        self.within = [x for inner in self.inner.values() for x, _ in inner.values()]
        self.ready: dict[int, ReadyStep] = {
            k: made_ready(step, store.driver)
            for k, step in enumerate(program.steps)
            if not isinstance(step, Fallback)
        }
        alignment = max(store.driver.device.alignment, 64)
        self.loops: dict[int, DeviceLoop] = {}
        for k, inner in self.inner.items():
            step: Any = program.steps[k]
            if is_loop(step, program):
                ((body, _),) = inner.values()
                self.loops[k] = DeviceLoop(step, body, alignment)
        loops = self.loops.values()
        self.checks = any(x.checks for x in self.ready.values())
        self.checks |= any(x.checks for x in loops)
        # The launches of a run, with those of all iterations.
        self.launches: int = len(self.ready) + sum(x.launches for x in loops)
        self.lives = lives(program, {}, alignment)
        self.plan = self.lives.plan
        offsets = self.plan.offsets
        self.offsets: list[tuple[int, int]]
        self.offsets = [(n, offsets[k]) for n, k in self.lives.place.items()]
        # Loops have memory of their own behind the arena, one after the other the same.
        self.room = -(-self.plan.size // alignment) * alignment
        self.size: int = self.plan.size
        if self.loops:
            self.size = self.room + max(1, *[x.bytes for x in loops])
        self.status = -(-self.size // alignment) * alignment  # where it lies behind all
        self.bound: list[BoundProgram] = []  # of the runs before, the last one first

    @lazy
    def constants(self) -> dict[int, GpuValue]:
        """The constants of the program, and arrays within a body, on the device."""
        types = {b.number: b.type for b in self.program.buffers}
        return {
            n: self.store.copy_in(np.asarray(x), types[n], np.asarray(x))
            for n, x in (*self.program.constants, *self._within)
        }

    @lazy
    def needs(self) -> tuple[Need, ...] | None:
        """As `positions.needs` tells it."""
        return needs(self.program)

    def works(self) -> Iterator[Work]:
        """The works of all launches, those of bodies last."""
        for ready in self.ready.values():
            yield ready.work
        for inner in self.within:
            yield from inner.works()

    @property
    def arena(self) -> int:
        """The bytes that a run needs beside arguments and results."""
        within = max((x.arena for x in self.within), default=0)
        return max(self.size, self.plan.size + within)

    def finds_nothing_wrong(self, values: Sequence[GpuValue]) -> bool:
        """Return True if the arguments that the host has as well rule out errors."""
        if not self.checks:
            return True
        if self.needs is None:
            return False
        pairs = [(values[k].home, extent) for k, extent in self.needs]
        return all(home is not None and are_below(home, n) for home, n in pairs)

    def run(self, values: Sequence[GpuValue], free: Set[int]) -> dict[int, Any]:
        """The results by serial for the values of arguments; those numbered in `free`
        may be written over. The store is locked."""
        sure = self.finds_nothing_wrong(values)
        run = _Run(self, values, free if sure else frozenset())
        try:
            run.execute(sure)
            if not sure and run.finds_wrong():
                raise PositionError
        except BaseException:  # a traceback keeps the run, and must not its memory
            run.written.clear()
            raise
        finally:
            run.release()
        return run.results()

    def called(self, stays: bool, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """The outputs of a body from its arguments, arrays or values; as arrays, unless
        what it makes `stays` on the device."""
        program, values = self.program, list[GpuValue]()
        for n in program.arguments:
            value = arrays[self.inputs[n]] if n in self.inputs else self.constants[n]
            if not isinstance(value, GpuValue):
                value = np.asarray(value)
                value = self.store.copy_in(value, program.buffers[n].type, value)
            values.append(value)
        results = self.run(values, frozenset())
        outputs = [results[k] for k in range(len(results))]
        return tuple(outputs if stays else [x.numpy() for x in outputs])

    def bind(
        self, places: list[Place], arena: Place | None, status: Place | None
    ) -> BoundProgram:
        """The launches for buffers that lie at these places, those in the arena behind
        its place; the very ones of a run before if nothing has moved since.
        """
        for bound in self.bound:
            if bound.lies_at(places, arena):
                return bound
        bound = BoundProgram(self, places, arena, status)
        count = min(PLACES, CALLS // max(self.launches, 1))
        if count:
            bound.keep(self.bound[:1])
            self.bound = [bound, *self.bound][:count]
        return bound


class _Run:
    """One run: where its buffers lie, and what it makes."""

    def __init__(
        self, linked: DeviceLinked, values: Sequence[GpuValue], free: Set[int]
    ) -> None:
        self.linked, self.store = linked, linked.store
        self.driver = linked.store.driver
        program = linked.program
        self.values = dict(zip(program.arguments, values, strict=True))
        self.values |= linked.constants
        spent = {program.arguments[k] for k in free}
        # Results that are written over arguments, which have their memory at the end.
        self.over = {n: old for n, old in program.shared if old in spent}
        self.written: dict[int, GpuValue] = {}
        self.block: DeviceBlock | None = None  # of what only the run needs
        self.status: Place | None = None

    # -- memory ----------------------------------------------------------------------

    def _bind(self, sure: bool) -> BoundProgram:
        """Memory for results and for what lies in the arena, and the launches there."""
        linked = self.linked
        places: list[Any] = [None] * len(linked.program.buffers)
        for n, value in self.values.items():
            places[n] = value.place
        for _, n, t in linked.program.results:
            if places[n] is None and n not in self.over:
                self.written[n] = self.store.value(t)
                places[n] = self.written[n].place
        for n, old in self.over.items():
            places[n] = places[old]
        size, arena = linked.status + STATUS if linked.checks else linked.size, None
        if size:
            self.block = self.store.take(size)
            arena = self.block.place
        if linked.checks and arena is not None:
            self.status = place_at(arena, linked.status)
            if not sure:
                self.driver.fill(self.status, STATUS, 0)
        return linked.bind(places, arena, self.status)

    def execute(self, sure: bool) -> None:
        """All steps in order; if it is `sure`, nobody will look at the status."""
        try:
            bound = self._bind(sure)
            launches = bound.run(self.values)
        except OutOfMemoryError as error:
            raise self._located(error) from error.__cause__
        self.store.note(launches=launches)

    def _located(self, error: OutOfMemoryError) -> OutOfMemoryError:
        """The error with the step that has the largest of what was to be placed."""
        program = self.linked.program
        largest = max(program.buffers, key=lambda b: b.type.nbytes, default=None)
        for k, step in enumerate(program.steps):
            if largest is not None and largest.number in step.written:
                error.origins = program.about[k].origins
                return error.located(title(step), repr(largest.type))
        return error

    # -- the end -----------------------------------------------------------------------

    def finds_wrong(self) -> bool:
        """Return True if a position was out of range: the host waits for the run."""
        if self.status is None:
            return False
        status = np.empty(1, np.int32)
        self.driver.download(*self.status, status)
        return bool(status[0])

    def results(self) -> dict[int, Any]:
        """The results by the serials they are asked for by."""
        held, results = {**self.values, **self.written}, {}
        for serial, n, t in self.linked.program.results:
            if (old := self.over.pop(n, None)) is not None:
                held[n] = held[old] = held[old].handed_on(t)
            same = held[n].type == t
            results[serial] = held[n] if same else held[n].part(t, 0)
        return results

    def release(self) -> None:
        """Give back what only the run needs."""
        if self.block is not None:
            self.store.release(self.block)
