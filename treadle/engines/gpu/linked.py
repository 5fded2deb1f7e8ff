"""A program with memory of a device and compiled kernels: what one run launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.caches import lazy
from treadle.base.errors import OutOfMemoryError
from treadle.base.types import TupleType, Type
from treadle.engines.base import PositionError, are_below
from treadle.engines.counts import Counts
from treadle.engines.gpu.driver import DeviceDriver, Place, UnsupportedKernelError
from treadle.engines.gpu.emit import LoopWork
from treadle.engines.gpu.loops import DeviceLoop, is_loop
from treadle.engines.gpu.memory import DeviceBlock, DeviceBlocks, GpuValue
from treadle.engines.gpu.product import product_of
from treadle.engines.gpu.work import Work, encoded
from treadle.graph.body import Body, CalledBody, bodies, with_bodies
from treadle.graph.meaning import begin_at, compute_at
from treadle.program.layout import laid
from treadle.program.lives import lives
from treadle.program.positions import Need, needs
from treadle.program.program import Fallback, Launch, Product, Program, title

STATUS = 4  # bytes of what tells of a position out of range


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


def made_ready(step: Launch | Product, driver: DeviceDriver) -> ReadyStep:
    """A step compiled for a device."""
    work: Work
    if isinstance(step, Product):
        work, integers, groups, buffers = product_of(step)
    else:
        work = loops = LoopWork(replace(step.kernel, name=""), step.kernel.name)
        total = loops.grid.total(step.integers)
        groups, buffers = loops.grid.groups(total), step.buffers
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
    launches, entries of kernels. A run takes a block for the arena and gives it back.
    """

    def __init__(self, program: Program, store: DeviceBlocks) -> None:
        self.program, self.store = program, store
        self.inner = {
            k: {
                body.number: (
                    DeviceLinked(body_program.program, store),
                    body_program.inputs,
                )
                for body, body_program in zip(
                    bodies(s.op).values(), s.bodies, strict=True
                )
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
        self.loops = {
            k
            for k in self.inner
            if is_loop(program.steps[k], program)  # type: ignore[arg-type]
        }
        checking = [x for k in self.loops for x, _ in self.inner[k].values()]
        self.checks = any(x.checks for x in self.ready.values())
        self.checks |= any(x.checks for x in checking)
        self.lives = lives(program, {}, max(store.driver.device.alignment, 64))
        self.plan = self.lives.plan
        offsets = self.plan.offsets
        self.offsets = [(n, offsets[k]) for n, k in self.lives.place.items()]

    @lazy
    def constants(self) -> dict[int, GpuValue]:
        """The constants of the program, on the device."""
        types = {b.number: b.type for b in self.program.buffers}
        return {
            n: self.store.copy_in(np.asarray(x), types[n], np.asarray(x))
            for n, x in self.program.constants
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
        return self.plan.size + max((x.arena for x in self.within), default=0)

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
        run = _Run(self, values, free if sure or not self.checks else frozenset())
        try:
            run.execute()
            if not sure and run.finds_wrong():
                raise PositionError
        except BaseException:  # a traceback keeps the run, and must not its memory
            for made in (run.written, run.shaped):
                made.clear()
            raise
        finally:
            run.release()
        return run.results()


class _Run:
    """One run: where its buffers lie, and what it makes."""

    def __init__(
        self,
        linked: DeviceLinked,
        values: Sequence[GpuValue],
        free: Set[int],
        given: Mapping[int, Place] | None = None,
        status: DeviceBlock | None = None,
    ) -> None:
        """An iteration of a loop is `given` the places of arguments and results, and
        the status of the run around it."""
        self.linked, self.store = linked, linked.store
        self.driver = linked.store.driver
        program = linked.program
        self.given = given
        arguments = program.arguments if given is None else ()
        self.values = dict(zip(arguments, values, strict=True))
        self.values |= linked.constants
        spent = {program.arguments[k] for k in free}
        # Results that are written over arguments, which have their memory at the end.
        self.over = {n: old for n, old in program.shared if old in spent}
        self.written: dict[int, GpuValue] = {}
        self.shaped: dict[int, GpuValue] = {}  # by serial, copies of another shape
        self.places: list[Any] = [None] * len(program.buffers)
        self.arena: DeviceBlock | None = None
        self.status = status
        self.launches = 0
        self.begun: dict[int, Callable[[], Any]] = {}  # what ends it, by its number

    # -- memory ----------------------------------------------------------------------

    def _place(self) -> None:
        """Memory for results and for what lies in the arena."""
        linked, places = self.linked, self.places
        for n, value in self.values.items():
            places[n] = value.place
        buffers = linked.program.buffers
        for n, place in (self.given or {}).items():
            places[n] = place
        results = linked.program.results if self.given is None else ()
        for serial, n, t in results:
            if places[n] is None and n not in self.over:
                self.written[n] = self.store.value(buffers[n].type)
                places[n] = self.written[n].place
            if buffers[n].type != t:
                self.shaped[serial] = self.store.value(t)
        for n, old in self.over.items():
            places[n] = places[old]
        if linked.plan.size:
            self.arena = self.store.take(linked.plan.size)
            for n, offset in linked.offsets:
                places[n] = self.arena.memory, offset
        if linked.checks and self.given is None:
            self.status = self.store.take(STATUS)
            self.driver.fill(self.status.place, STATUS, 0)

    # -- steps -----------------------------------------------------------------------

    def execute(self) -> None:
        """All steps in order."""
        linked = self.linked
        try:
            self._place()
            for k, step in enumerate(linked.program.steps):
                if isinstance(step, Fallback):
                    self._fallback(k, step)
                else:
                    self._launch(linked.ready[k])
        except OutOfMemoryError as error:
            raise self._located(error) from error.__cause__
        finally:
            self.store.counts += Counts(launches=self.launches)

    def _launch(self, ready: ReadyStep) -> None:
        if not ready.groups:
            return
        places = [self.places[n] for n in ready.buffers]
        if ready.copies and places[0] == places[-1]:
            return
        if ready.checks:
            assert self.status is not None
            places.append(self.status.place)
        self.driver.launch(ready.entry, ready.groups, places, ready.numbers)
        self.launches += 1

    def _located(self, error: OutOfMemoryError) -> OutOfMemoryError:
        """The error with the step that has the largest of what was to be placed."""
        program = self.linked.program
        largest = max(program.buffers, key=lambda b: b.type.nbytes, default=None)
        for k, step in enumerate(program.steps):
            if largest is not None and largest.number in step.written:
                error.origins = program.about[k].origins
                return error.located(title(step), repr(largest.type))
        return error

    # -- by NumPy ----------------------------------------------------------------------

    def array(self, n: int) -> Array:
        """A copy of a buffer on the host."""
        b = self.linked.program.buffers[n]
        held = self.values.get(n)
        if held is not None and held.home is not None:
            return held.home
        if not b.order:
            return self.store.read(b.type, self.places[n])
        shape = tuple(b.type.shape[k] for k in b.order)
        return laid(self.store.read(Type(shape, b.type.dtype), self.places[n]), b.order)

    def put(self, n: int, array: Array) -> None:
        """Write a buffer from the host."""
        b = self.linked.program.buffers[n]
        whole = array.transpose(b.order) if b.order else array
        self.store.write(np.ascontiguousarray(whole, b.type.dtype), self.places[n])

    def _fallback(self, k: int, step: Fallback) -> None:
        """One step by the NumPy rule of its op, whose bodies are programs."""
        inner = self.linked.inner.get(k, {})
        if k in self.linked.loops:
            ((body_linked, inputs),) = inner.values()
            loop = DeviceLoop(step, body_linked, inputs, self.places, self.array)
            loop.run(partial(self._iteration, body_linked))
            return

        def running(body: Body) -> Body:
            return CalledBody(body, partial(_called, *inner[body.number]))

        op = with_bodies(step.op, running) if step.bodies else step.op
        arrays = [self.array(n) for n in step.read]
        if step.part == "begin":
            end = begin_at(op, step.type, arrays, step.origin)
            self.begun[step.number] = end
            return
        rule = self.begun.pop(step.number) if step.part == "end" else None
        results = compute_at(op, step.type, arrays, step.origin, rule)
        several = results if isinstance(step.type, TupleType) else (results,)
        for n, x in zip(step.written, several, strict=True):
            if x.size:
                self.put(n, x)

    def _iteration(self, linked: DeviceLinked, given: Mapping[int, Place]) -> None:
        """The body of a loop, on what lies at places."""
        run = _Run(linked, (), frozenset(), given, self.status)
        try:
            run.execute()
        finally:
            run.release()

    # -- the end -----------------------------------------------------------------------

    def finds_wrong(self) -> bool:
        """Return True if a position was out of range: the host waits for the run."""
        if self.status is None:
            return False
        status = np.empty(1, np.int32)
        self.driver.download(*self.status.place, status)
        return bool(status[0])

    def results(self) -> dict[int, Any]:
        """The results by the serials they are asked for by."""
        program = self.linked.program
        held = {**self.values, **self.written}
        for n, old in self.over.items():
            held[n] = held[old] = held[old].handed_on(program.buffers[n].type)
        results = {serial: held[n] for serial, n, _ in program.results}
        for serial, value in self.shaped.items():
            size = max(value.type.nbytes, 1)
            self.driver.copy(results[serial].place, value.place, size)
        return results | self.shaped

    def release(self) -> None:
        """Give back what only the run needs."""
        own = (self.arena, self.status) if self.given is None else (self.arena,)
        for block in own:
            if block is not None:
                self.store.release(block)


def _called(
    linked: DeviceLinked, inputs: Sequence[Any], arrays: Sequence[Array]
) -> tuple[Array, ...]:
    """The outputs of a body from its arguments; `inputs` as a BodyProgram has it."""
    program, store = linked.program, linked.store
    values = []
    for n, x in zip(program.arguments, inputs, strict=True):
        array = np.asarray(arrays[x] if isinstance(x, int) else x)
        values.append(store.copy_in(array, program.buffers[n].type, array))
    results = linked.run(values, frozenset())
    return tuple([results[k].numpy() for k in range(len(results))])
