"""A program running: memory leased, addresses filled in, steps carried out in order."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import OutOfMemoryError
from treadle.base.events import span, watchers
from treadle.base.options import current, modes
from treadle.base.types import TupleType
from treadle.engines.base import PositionError
from treadle.engines.early import listener
from treadle.engines.native.execution.arena import Arena, Lease, Results
from treadle.engines.native.execution.kept import Kept, Panels
from treadle.engines.native.execution.pieces import EarlyCuts, StepPiece
from treadle.engines.native.execution.pool import Held, Limit, Pool, pool
from treadle.engines.native.execution.tables import Tables, memory_under
from treadle.engines.native.execution.timing import Key, Timing
from treadle.graph.body import Body, CalledBody, with_bodies
from treadle.graph.claim import Claim, InPlace
from treadle.graph.meaning import begin_at, compute_at
from treadle.graph.origin import Origin
from treadle.graph.resident import Futures
from treadle.program.layout import laid
from treadle.program.program import Fallback, title

if TYPE_CHECKING:
    from treadle.engines.native.execution.linked import Linked

# Integers of a step record: function, arguments, total, grain, records of a region,
# a branch or loop, and zeros.
FIELDS, CONTROL = 8, 5
AHEAD = Limit("programs", 8 << 20)  # bytes of those that go on beside Python


class RunMemory:
    """Arenas and results of one mode."""

    def __init__(self, mode: str) -> None:
        self.arena = Arena(mode)
        self.results = Results(mode)


_memories: dict[str, RunMemory] = {}


def memory_of(mode: str) -> RunMemory:
    """The memory that programs share in a mode: "fast", "poison" or "guard"."""
    if mode not in _memories:
        _memories[mode] = RunMemory(mode)
    return _memories[mode]


def beside() -> bool:
    """Return True if a run may be asynchronous: nobody watches it or its memory, and
    there are workers."""
    now = current()
    if watchers or now.arena != "fast" or modes.get().transactions:
        return False
    return pool(now.threads).helped


class Run:
    """A run of a program, or the runs of a body one after another, on one thread.

    Between calls stays what they share: memory, and arguments that come again.
    """

    def __init__(
        self, linked: Linked, lines: Mapping[Key, Origin] | None = None
    ) -> None:
        options = current()
        self.linked, self.lines = linked, lines
        self.memory = memory_of(options.arena)
        self.keeps = not options.workspace  # packed weights, from run to run
        self.kept = linked.kept if self.keeps else Kept(())
        self.threads = pool(options.threads)
        try:
            self.tables = linked.tables.pop()
        except IndexError:  # the first run, or others go on at the same time
            self.tables = Tables(linked)
        self.tables.status.value = 0
        self.addresses = self.tables.addresses
        self.scratch = -(-linked.scratch * self.threads.threads // 64) * 64
        self.last_arguments: list[Any] = [None] * len(linked.interface.arguments)
        self.by_buffer: dict[
            int, Array
        ] = {}  # the same by their buffers, as kernels read it
        self.lease: Lease | None = None
        self.begun: dict[int, Callable[[], Any]] = {}  # what ends it, by its number

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()
        self.linked.tables.append(self.tables)

    def _release(self) -> None:
        lease, self.lease = self.lease, None
        if lease is not None:
            lease.release()

    def __call__(
        self,
        arrays: Sequence[Array],
        spent: Set[int] = frozenset(),
        held: InPlace | None = None,
        claim: Claim | None = None,
    ) -> dict[int, Any]:
        """The results for the values of the arguments; those in `spent` may go, of
        which a `claim` is told, or are `held` in their place."""
        alive, panels, idle = self._placed(arrays, spent, held)
        if held is not None:
            held.next_turn()
        careful = type(self.lease) is not Lease
        results = self._found(alive)
        if claim is not None:
            claim.expect(results)
        try:
            self._execute(alive, idle, self.lease if careful else None, claim, results)
        finally:
            if careful:  # what a step has done with is gone for good
                self._release()
        if self.tables.status.value:
            raise PositionError
        self._keep(panels)
        return results

    def _keep(self, panels: Panels) -> None:
        panels.done()
        if panels.fresh:
            self.linked.keep_panels()

    def begin(
        self,
        arrays: Sequence[Array],
        spent: Set[int] = frozenset(),
        held: InPlace | None = None,
        claim: Claim | None = None,
    ) -> dict[int, Any]:
        """The same as Futures, and the run is over when they are there: its one piece
        is queued. It is left by then. What lies `held` in its place is not among them.
        """
        linked, tables, types = self.linked, self.tables, self.linked.interface.results
        load = Held(linked.plan.size + self.scratch, AHEAD)
        self.threads.make_room(load)
        alive, panels, idle = self._placed(arrays, spent, held)
        results, futures = self._found(alive), Futures()
        values = {s: futures.of(t, results[s]) for s, _, t in types if s in results}
        runs = None if held is None else held.begin_run()
        if claim is not None:
            claim.expect(values)

        def done(well: bool) -> None:
            futures.done(well)
            if runs is not None:
                runs.done(well)
            if well:
                self._keep(panels)
            self.__exit__()

        self._write()
        self.last_arguments = [
            memory_under(x) for x in self.last_arguments if x is not None
        ]
        self.by_buffer = {}
        (piece,) = linked.runs
        place = tables.records(idle) + piece.record * FIELDS * 8
        pointers = tables.arguments, tables.flag
        arguments = place, piece.records, *pointers, done, load, claim
        futures.ticket = self.threads.queue(*arguments)
        if runs is not None:
            runs.ticket = futures.ticket
        return values

    def _placed(
        self,
        arrays: Sequence[Array],
        spent: Set[int],
        held: InPlace | None = None,
    ) -> tuple[dict[int, Array], Panels, list[int]]:
        """Arguments and results by their buffers, with memory and addresses; which
        records have nothing to do. What is `held` has the addresses of before.
        """
        linked, addresses = self.linked, self.addresses
        memory = self.memory
        over = self.tables.over(held)
        places = range(len(arrays)) if over is None else over.rest
        fresh = [k for k in places if arrays[k] is not self.last_arguments[k]]
        if fresh:
            for k in fresh:  # until it has its address: an interrupt may come
                self.last_arguments[k] = None
            self.tables.take(fresh, arrays, self.by_buffer)
            for k in fresh:
                self.last_arguments[k] = arrays[k]
        alive = self.by_buffer.copy()
        if over is None:
            results, idle = self._shared(alive, spent)
            if held is not None and len(results) == len(spent):
                self.tables.know(held, spent, results, idle)
        else:
            results, idle = over.results, over.idle
        number = -1
        try:
            for b in linked.interface.buffers:
                number, t = b.number, b.type
                if number not in alive and number not in results:
                    shape = [t.shape[k] for k in b.order] if b.order else t.shape
                    x, addresses[number] = memory.results.lend(shape, t.dtype)
                    alive[number] = laid(x, b.order) if b.order else x
            number = -1
            if self.lease is None:
                self.lease = memory.arena.lease(linked.sizes, linked.plan, self.scratch)
        except OutOfMemoryError as error:
            raise linked.located(error, number) from error.__cause__
        addresses[-2] = self.lease.scratch
        addresses[linked.placed] = self.lease.addresses[linked.places]
        changing = set(results.values())
        panels = self.kept.place(alive, changing, addresses, memory.results.lend)
        if held is None:
            alive |= {result: alive[argument] for result, argument in results.items()}
        return alive, panels, idle + panels.ready

    def _shared(
        self, alive: Mapping[int, Array], spent: Set[int]
    ) -> tuple[dict[int, int], list[int]]:
        """The results that are written over arguments, with these, which have their
        addresses then; and copies from a buffer to itself.
        """
        linked, addresses = self.linked, self.addresses
        shared, idle = {}, []
        free = {linked.interface.arguments[k] for k in spent}
        for result, argument in linked.interface.shared:
            if argument in free and alive[argument].flags.c_contiguous:
                shared[result], addresses[result] = argument, addresses[argument]
                if result in linked.copies:
                    idle.append(linked.copies[result])
        return shared, idle

    def _found(self, alive: Mapping[int, Array]) -> dict[int, Any]:
        """The results by serial, but for those that nobody has to be told of."""
        linked, results = self.linked, {}
        for serial, n, t in linked.interface.results:
            x = alive.get(n)
            if x is None:
                x = linked.constants.get(n)
            # A new object, where an old array is written over: it is another version.
            if x is not None:
                results[serial] = x if isinstance(t, TupleType) else x.reshape(t.shape)
        return results

    def _execute(
        self,
        alive: dict[int, Array],
        idle: list[int],
        careful: Lease | None,
        claim: Claim | None,
        results: Mapping[int, Any],
    ) -> None:
        """All steps but the idle ones; `careful` is told what is dead after each. What
        is written over is by the last piece. A listener is told of the `results`."""
        linked, tables = self.linked, self.tables
        self._write()
        records, arguments = tables.records(idle), tables.arguments
        flag = tables.flag
        pieces = linked.pieces if careful else self._pieces()
        observer = listener()
        cuts = (
            None
            if observer is None or careful
            else EarlyCuts(linked, observer, results)
        )
        if cuts is not None:
            pieces = cuts.pieces(pieces)
        for piece in pieces:
            last = claim if piece is pieces[-1] else None
            place = records + piece.record * FIELDS * 8
            threads = pool(1) if piece.one_thread else self.threads
            if not piece.records:
                self._fallback(piece.first, alive)
            elif watchers and careful is None:
                stop = piece.record + piece.records
                steps = tables.steps[piece.record : stop]
                self._timed(threads, steps, piece.record, arguments, flag, last)
            else:
                pointers = place, piece.records, arguments, flag, 0, last
                brief = careful is None and piece.record in tables.brief
                threads.run(*pointers, brief)
            if careful is not None:
                for k in range(piece.first, piece.stop):
                    for n in linked.dying[k]:
                        careful.poison(n)
            if tables.status.value:
                return
            if cuts is not None:
                cuts.passed(piece.stop)

    def _pieces(self) -> Sequence[StepPiece]:
        """The native calls of a run, whose branches and loops NumPy's rule goes through
        where somebody watches."""
        return self.linked.watched if watchers else self.linked.runs

    def _write(self) -> None:
        """Write the addresses where the steps read them."""
        linked = self.linked
        where = self.addresses[linked.which] + linked.shifts
        self.tables.table[linked.slots] = where

    def _timed(
        self,
        threads: Pool,
        records: Array,
        first: int,
        arguments: int,
        flag: int,
        claim: Claim | None,
    ) -> None:
        """Run records, the first of them with a number, and tell when they ran."""
        timing = Timing(records, threads.threads)
        pointers = arguments, flag, timing.address
        threads.run(records.ctypes.data, len(records), *pointers, claim)
        timing.tell(self.linked.about()[first:], self.lines)

    def _fallback(self, k: int, alive: dict[int, Array]) -> None:
        """One step by the NumPy rule of its op, whose bodies are programs."""
        linked = self.linked
        step = linked.program.steps[k]
        assert isinstance(step, Fallback)

        def array(n: int) -> Array:
            if n in alive or n in linked.constants:
                return alive[n] if n in alive else linked.constants[n]
            b = linked.program.buffers[n]
            t, order = b.type, b.order or tuple(range(b.type.ndim))
            raw: Any = (ctypes.c_uint8 * t.nbytes).from_address(int(self.addresses[n]))
            flat = np.frombuffer(raw, np.uint8).view(t.dtype)
            return laid(flat.reshape([t.shape[k] for k in order]), order)

        with ExitStack() as stack:

            def running(body: Body) -> Body:
                inner, inputs = linked.inner[k][body.number]
                return CalledBody(body, _bound(stack.enter_context(Run(inner)), inputs))

            op = with_bodies(step.op, running) if step.bodies else step.op
            arrays = [array(n) for n in step.read]
            if watchers:
                stack.enter_context(span(title(step), "numpy", (step.origin,)))
            if step.part == "begin":
                end = begin_at(op, step.type, arrays, step.origin)
                self.begun[step.number] = end
                return
            rule = self.begun.pop(step.number) if step.part == "end" else None
            results = compute_at(op, step.type, arrays, step.origin, rule)
            several = results if isinstance(step.type, TupleType) else (results,)
            for n, x in zip(step.written, several, strict=True):
                if math.prod(x.shape):
                    array(n)[...] = x


def _bound(run: Run, inputs: Sequence[Any]) -> Callable[[Sequence[Array]], Any]:
    """The outputs of a body from its arguments; `inputs` as a BodyProgram has it."""

    def call(arrays: Sequence[Array]) -> tuple[Array, ...]:
        outputs = run([arrays[x] if isinstance(x, int) else x for x in inputs])
        return tuple([outputs[k] for k in range(len(outputs))])

    return call
