"""The launches of a program whose buffers lie in certain places.

Where buffers lie is most often what it was: then a run hands the launches of one before
to the driver, in one call, and looks at none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treadle.base.arrays import Array
from treadle.base.types import TupleType, Type
from treadle.engines.gpu.driver import Place, place_at
from treadle.engines.gpu.memory import GpuValue
from treadle.graph.body import Body, CalledBody, with_bodies
from treadle.graph.meaning import begin_at, compute_at
from treadle.ops.control import Cond
from treadle.ops.while_loop import While
from treadle.program.layout import laid
from treadle.program.program import Fallback, Program

if TYPE_CHECKING:
    from treadle.engines.gpu.linked import DeviceLinked, ReadyStep

TOGETHER = 4096  # launches that are handed to a driver at once
LAUNCH, COPY, HOST = range(3)


class Act(NamedTuple):
    """One thing that a run does: a launch, a copy within the device, or a step of the
    host."""

    kind: int
    call: Callable[[], Any]


class Submission(NamedTuple):
    """Calls that are made in one go, so many of them launches, and what the host does
    after."""

    calls: list[Callable[[], Any]]
    launches: int
    host: Callable[[], Any] | None = None


class BoundProgram:
    """The steps of a program at places: of its buffers, of memory between steps, and
    of the status."""

    def __init__(
        self,
        linked: DeviceLinked,
        places: list[Place],
        arena: Place | None,
        status: Place | None,
    ) -> None:
        """`places` of all buffers by number, but for those in the arena."""
        self.linked, self.status = linked, status
        self.given, self.arena = places, arena
        self.places = [*places]
        if arena is not None:
            for n, offset in linked.offsets:
                self.places[n] = place_at(arena, offset)
        # The values of the run that goes on, of which the host may have copies.
        self._held: dict[int, GpuValue] = {}
        self._begun: dict[int, Callable[[], Any]] = {}  # what ends it, by its number
        self._acts: list[list[Act]] = []  # of each step
        self._submissions: list[Submission] | None = None

    def lies_at(self, places: list[Place], arena: Place | None) -> bool:
        """Return True if these are its places."""
        return self.given == places and arena == self.arena

    def keep(self, others: Sequence[BoundProgram]) -> None:
        """Remember all launches, and share those of `others` that lie at one place."""
        for k in range(len(self.linked.program.steps)):
            shared = [x._acts[k] for x in others if self._agrees(x, k)]
            self._acts.append(shared[0] if shared else list(self._step(k)))
        self._submissions = list(_together(x for acts in self._acts for x in acts))

    def _agrees(self, other: BoundProgram, k: int) -> bool:
        """Return True if a step of another one is the same here."""
        step = self.linked.program.steps[k]
        if isinstance(step, Fallback) and k not in self.linked.loops:
            return False
        numbers = {*step.read, *step.written}
        if k in self.linked.loops and self.arena != other.arena:
            return False
        pairs = [(self.places[n], other.places[n]) for n in numbers]
        return self.status == other.status and all(x == y for x, y in pairs)

    def run(self, held: dict[int, GpuValue]) -> int:
        """Do all steps, for these values of buffers; how many launches that were."""
        submit, launches, kept = self.linked.store.driver.submit, 0, self._submissions
        self._held = held
        try:
            for one in _together(self.acts()) if kept is None else kept:
                submit(one.calls)
                launches += one.launches
                if one.host is not None:
                    one.host()
        finally:
            self._held = {}
        return launches

    def acts(self) -> Iterator[Act]:
        """What a run does, one thing after the other."""
        for k in range(len(self.linked.program.steps)):
            yield from self._step(k)

    def _step(self, k: int) -> Iterator[Act]:
        linked = self.linked
        ready, loop = linked.ready.get(k), linked.loops.get(k)
        if ready is not None:
            yield from self._launch(ready)
        elif loop is not None:
            assert self.arena is not None
            yield from loop.acts(self, place_at(self.arena, linked.room))
        else:
            step: Any = linked.program.steps[k]
            does = self._chosen if is_chosen(step, linked.program) else self._fallback
            yield Act(HOST, partial(does, step, linked.inner.get(k, {})))

    def _launch(self, ready: ReadyStep) -> Iterator[Act]:
        if places := ready.buffers_at(self.places, self.status):
            bind = self.linked.store.driver.bind
            yield Act(LAUNCH, bind(ready.entry, ready.groups, places, ready.numbers))

    # -- branches and loops of unknown length ------------------------------------------

    def _chosen(self, step: Fallback, inner: Any) -> None:
        """A branch or a loop whose values stay where they are, but for what it decides
        by."""
        op: Any = step.op
        buffers, store = self.linked.program.buffers, self.linked.store
        ends = len(step.read) - getattr(op, "draws", 0)
        on_host = {0} if isinstance(op, Cond) else {*range(ends, len(step.read))}
        values: list[Any] = [
            self.array(n)
            if k in on_host
            else GpuValue(store, buffers[n].type, self.places[n], None)
            for k, n in enumerate(step.read)
        ]

        def running(body: Body) -> Body:
            stays = not isinstance(op, While) or body is not op.test
            return CalledBody(body, partial(inner[body.number][0].called, stays))

        results = with_bodies(op, running).numpy(*values)
        for n, x in zip(step.written, results, strict=True):
            if x.nbytes:
                store.driver.copy(x.place, self.places[n], x.nbytes)

    # -- by NumPy ----------------------------------------------------------------------

    def array(self, n: int) -> Array:
        """A copy of a buffer on the host."""
        b, store = self.linked.program.buffers[n], self.linked.store
        held = self._held.get(n)
        if held is not None and held.home is not None:
            return held.home
        if not b.order:
            return store.read(b.type, self.places[n])
        shape = tuple(b.type.shape[k] for k in b.order)
        return laid(store.read(Type(shape, b.type.dtype), self.places[n]), b.order)

    def _put(self, n: int, array: Array) -> None:
        """Write a buffer from the host."""
        b = self.linked.program.buffers[n]
        whole = array.transpose(b.order) if b.order else array
        whole = np.ascontiguousarray(whole, b.type.dtype)
        self.linked.store.write(whole, self.places[n])

    def _fallback(self, step: Fallback, inner: Any) -> None:
        """One step by the NumPy rule of its op, whose bodies are programs."""

        def running(body: Body) -> Body:
            return CalledBody(body, partial(inner[body.number][0].called, False))

        op = with_bodies(step.op, running) if step.bodies else step.op
        arrays = [self.array(n) for n in step.read]
        if step.part == "begin":
            self._begun[step.number] = begin_at(op, step.type, arrays, step.origin)
            return
        rule = self._begun.pop(step.number) if step.part == "end" else None
        results = compute_at(op, step.type, arrays, step.origin, rule)
        several = results if isinstance(step.type, TupleType) else (results,)
        for n, x in zip(step.written, several, strict=True):
            if x.size:
                self._put(n, x)


def is_chosen(step: Fallback, program: Program) -> bool:
    """Return True if a step is a branch, or a loop of unknown length, on values in
    order."""
    ends = [program.buffers[n] for n in (*step.read, *step.written)]
    is_control = isinstance(step.op, (Cond, While)) and not step.part
    return is_control and bool(step.bodies) and not any(b.order for b in ends)


def _together(acts: Iterable[Act]) -> Iterator[Submission]:
    """Acts by submissions: the host waits for none but before its own steps."""
    calls, launches = list[Callable[[], Any]](), 0
    for kind, call in acts:
        if kind == HOST:
            yield Submission(calls, launches, call)
            calls, launches = [], 0
            continue
        calls.append(call)
        launches += kind == LAUNCH
        if len(calls) == TOGETHER:
            yield Submission(calls, launches)
            calls, launches = [], 0
    yield Submission(calls, launches)
