"""A program with machine code and memory: what one native call runs.

All pointers and sizes of all steps stand in one table of integers. A run takes a lease
of the arena, fills in the addresses in one array expression, and calls the runner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from treadle.base.caches import lazy
from treadle.base.errors import OutOfMemoryError, TreadleError
from treadle.core import native
from treadle.engines.base import are_below
from treadle.engines.native.codegen.code import Code
from treadle.engines.native.codegen.jit import compile_functions
from treadle.engines.native.execution.control import (
    ENDLESS,
    TOTAL,
    Control,
    LoopSize,
    code_of,
    is_native,
    size_of,
)
from treadle.engines.native.execution.interface import Interface
from treadle.engines.native.execution.kept import Kept, packed_of
from treadle.engines.native.execution.layout import (
    ProgramTable,
    codes_of,
    constants_of,
    memory_beside,
    scratch_of,
    table_of,
)
from treadle.engines.native.execution.pieces import merged, pieces
from treadle.engines.native.execution.pool import arrived
from treadle.engines.native.execution.run import CONTROL, FIELDS, Run, beside
from treadle.engines.native.execution.small import keep_panels, small
from treadle.engines.native.execution.tables import Tables
from treadle.engines.native.execution.timing import Key, StepNote, notes_of
from treadle.graph.body import bodies
from treadle.graph.claim import Claim, InPlace
from treadle.graph.origin import Origin
from treadle.graph.tensor import Tensor
from treadle.program.invariant import invariants
from treadle.program.lives import Lives, lives
from treadle.program.positions import Need, needs
from treadle.program.program import Fallback, Launch, Program, title
from treadle.rewrite.record import stage

Arrays = Sequence[np.ndarray[Any, Any]]


# That are made anew for other sizes, where somebody asks.
LAZY = ("small", "needs", "dying", "program", "plain", "lives", "interface")


def _linked_bodies(step: Fallback, room: int) -> dict[int, tuple[Linked, Any]]:
    """The programs of a step's bodies by their numbers, and what these are given."""
    bound = [(Linked(x.program, room), x.inputs) for x in step.bodies]
    return dict(zip([x.number for x in bodies(step.op).values()], bound, strict=True))


class Linked:
    """A program whose arena is planned and, once linked, whose kernels are compiled.

    room: bytes of scratch memory that products should do with, a worker; 0: any.
    known: the code of each step by its identity, where it is known already.
    """

    kept: Kept
    # Of one for other sizes its interface, and its results' extents, joined.
    faced: Callable[[], Interface]
    shapes: Any = None
    model: Any = None  # a small one of those for other sizes

    def __init__(
        self,
        program: Program,
        room: int = 0,
        known: Mapping[int, tuple[Code, ...]] | None = None,
    ) -> None:
        self.program = program
        self.plain = program  # with its steps in order
        self.interface = Interface.of(program)
        self.types = self.interface.types
        self.first: Linked | None = None  # that this one is for other sizes
        self.whole: Callable[[], Program] = lambda: program
        # Places of what an earlier program could have kept, and what inside of calls.
        self.again: Sequence[int] = ()
        self.inside: Sequence[tuple[int, int, int]] = ()
        # The extents of its graph, and what makes it for others, if that is known.
        self.extents: tuple[int, ...] = ()
        self.variant: Any = None
        self.lines: Mapping[Key, int] = {}  # where its graph's origins are found
        # Of each step with bodies, by the number of the body: its program, and what
        # that is given.
        self.inner: dict[int, dict[int, tuple[Linked, Any]]] = {
            k: _linked_bodies(s, room)
            for k, s in enumerate(program.steps)
            if isinstance(s, Fallback) and s.bodies
        }
        self.within: list[Linked] = [
            x for inner in self.inner.values() for x, _ in inner.values()
        ]
        self.loops = {k: size_of(program.steps[k], room > 0) for k in self.inner}
        with stage("write code"):
            codes = self.codes = codes_of(program, room, known)
        for k, each in self.inner.items():
            step = program.steps[k]
            if isinstance(step, Fallback) and is_native(step, program):
                codes[k] = (code_of(step, each, self.loops[k]),)
        every = [c for step_codes in codes for c in step_codes]
        # Of the table of the steps' arguments, beside those of regions.
        self.arguments = max(sum([len(c.arguments) for c in every]), 1)
        texts: dict[str, str] = {
            name: text for c in every for name, text in c.texts.items()
        }
        for inner in self.within:
            texts |= inner.texts
        self.texts: dict[str, str] = texts
        self.scratch = scratch_of(program, codes)
        # Of each step: its first record, and how many it has. A region has one before.
        self.spans: list[tuple[int, int]] = []
        starts = {r.first for r in program.regions}
        at = 0
        for k, step_codes in enumerate(codes):
            at += k in starts
            self.spans.append((at, len(step_codes)))
            at += len(step_codes)
        with stage("plan memory"):
            self._place_buffers(codes)
        self.invariants = invariants(program)
        self.kept = Kept(
            packed_of(program, self.invariants, self.spans, self.workspaces, codes)
        )

    def link(self) -> None:
        """Compile the kernels: what only plans does not need them."""
        if hasattr(self, "functions"):
            return
        with stage("machine code"):
            self._fill(compile_functions(self.texts))

    def _fill(self, functions: dict[str, int]) -> None:
        # Kept: the code of a function goes with the last of its addresses.
        self.functions = functions
        for inner in self.within:
            inner._fill(functions)
        self._fill_table(self.codes, self.functions)
        self._control()
        self.notes: list[StepNote] | None = None
        regions = self.program.regions
        spans = enumerate(self.spans)
        by_rule = [(at, 0 if k in self.inner else n) for k, (at, n) in spans]
        kernels = self.inner.keys().isdisjoint
        apart = [r for r in regions if not kernels(range(r.first, r.stop))]
        # One by one; as few as can be with branches and loops by NumPy's rule, which
        # regions with some of them are taken apart for; and all, if there is a core.
        self.pieces = pieces(by_rule, regions, apart)
        self.watched = merged(self.pieces)
        whole = all(self.spans[k][1] for k in self.inner)
        self.runs = merged(pieces(self.spans, regions, () if whole else apart))
        self.tables: list[Tables] = []  # of no run at this moment
        self.copies = {
            step.written[0]: self.spans[k][0]
            for k, step in enumerate(self.program.steps)
            if isinstance(step, Launch) and step.copies
        }

    def workspace(self, threads: int) -> int:
        """The bytes that a run needs beside arguments and results."""
        inner = max((x.workspace(threads) for x in self._by_rule()), default=0)
        return self.plan.size + self.scratch * threads + inner

    @property
    def arena(self) -> int:
        """The bytes of planned memory, with that of bodies that rules of NumPy call."""
        return self.plan.size + max((x.arena for x in self._by_rule()), default=0)

    def _by_rule(self) -> list[Linked]:
        """The programs of bodies that are called by the rules of their ops."""
        steps = [programs for k, programs in self.inner.items() if not self.codes[k]]
        return [x for programs in steps for x, _ in programs.values()]

    @property
    def nbytes(self) -> int:
        """Bytes of the tables and the constants, which stay between runs."""
        tables = self.records, self.table, self.slots, self.which, self.shifts
        size = sum(x.nbytes for x in (*tables, *self.constants.values()))
        return size + sum(x.nbytes for x in self.within)

    # -- what never changes ----------------------------------------------------------

    def _place_buffers(self, codes: Sequence[Sequence[Code]]) -> None:
        """Plan the arena, by the first and the last step of each of its buffers."""
        buffers = self.program.buffers
        # Of steps, by number; and the same of scratch memory, in chains.
        self.workspaces, self.scratches, sizes = memory_beside(self.program, codes)
        self.lives = lives(self.program, sizes)
        self.plan = self.lives.plan
        self.sizes = [r.bytes for r in self.lives.ranges]
        self.placed = np.array(list(self.lives.place), np.intp)
        self.places = np.array(list(self.lives.place.values()), np.intp)
        self.constants, self.fixed = constants_of(
            self.program.constants, len(buffers) + len(sizes) + 2
        )

    @lazy
    def program(self) -> Program:
        """The program, with steps and buffers."""
        return self.whole()

    @lazy
    def interface(self) -> Interface:
        """The arguments, results and constants."""
        return self.faced()

    @lazy
    def plain(self) -> Program:
        """The same with its steps in order."""
        return self.program

    @lazy
    def lives(self) -> Lives:
        """When what lies in the arena lives."""
        assert self.first is not None
        return self.first.lives.resized(self.sizes, self.plan)

    @lazy
    def dying(self) -> list[list[int]]:
        """Of each step the ranges whose bytes nobody has after it."""
        dead: list[list[int]] = [[] for _ in self.program.steps]
        for k, r in enumerate(self.lives.ranges):
            dead[r.last].append(k)
        for region in self.program.regions:  # a chain may have used memory again
            ends = self.lives.dying(region.first, region.stop)
            dead[region.first : region.stop] = [[]] * sum(region.chains)
            dead[region.stop - 1] = ends
        return dead

    def _fill_table(
        self, codes: Sequence[Sequence[Code]], functions: dict[str, int]
    ) -> None:
        """The records of the steps, and the table of their arguments."""
        written = self.written(codes, functions)
        count = len(written.records)
        self.records = np.array(written.records, np.int64).reshape(count, FIELDS)
        self.table = np.array(written.table or [0], np.int64)
        self.slots = np.array(written.slots, np.intp)
        self.which = np.array(written.which, np.intp)
        self.shifts = np.array(written.shifts, np.int64)

    def written(
        self, codes: Sequence[Sequence[Code]], functions: dict[str, int]
    ) -> ProgramTable:
        """The records of steps with some code, and the table of their arguments."""
        numbers = self.spans, self.workspaces, self.scratches, len(self.fixed)
        return table_of(self.program, codes, functions, *numbers)

    def _control(self) -> None:
        """Have the core's branches and loops in their records."""
        self.controls: list[Control] = []
        for k, programs in self.inner.items():
            if self.codes[k]:
                step, record = (self.first or self).program.steps[k], self.spans[k][0]
                assert isinstance(step, Fallback)
                control = Control(step, self.loops[k], programs)
                self.controls.append(control)
                self.records[record, [TOTAL, CONTROL]] = control.parts, control.address

    def arrays(self) -> ProgramTable:
        """The same of this program, as arrays."""
        return ProgramTable(
            self.records, self.table, self.slots, self.which, self.shifts
        )

    def resized(self, whole: Callable[[], Program]) -> Linked:
        """This program for other sizes: the same steps on buffers of other types, which
        `whole` makes where somebody asks.

        The caller fills in the numbers and the plan of memory.
        """
        linked = object.__new__(Linked)
        state = linked.__dict__
        state.update(self.__dict__)
        for name in LAZY:
            state.pop(name, None)
        linked.whole, linked.first = whole, self
        linked.tables, linked.notes, linked.kept = [], None, Kept(self.kept.packed)
        return linked

    def bind_bodies(
        self,
        inner: dict[int, dict[int, tuple[Linked, Any]]],
        loops: dict[int, LoopSize],
    ) -> None:
        """Have other bodies, by step and number, in scans of other lengths."""
        self.inner, self.loops = inner, loops
        self.within = [x for programs in inner.values() for x, _ in programs.values()]
        self._control()

    def bind_constants(self, constants: Sequence[tuple[int, Any]]) -> None:
        """Have other constants."""
        self.constants, self.fixed = constants_of(constants, len(self.fixed))

    @property
    def endless(self) -> bool:
        """True if the length of a loop is data: an interrupt alone may end it."""
        return any(x.parts >= ENDLESS for x in self.controls)

    @lazy
    def small(self) -> Any:
        """The program as the core runs it; None where it is not small: nothing else of
        Python runs meanwhile."""
        return None if native is None else small(self)

    def keep_panels(self) -> None:
        """Have the core leave out what a run has filled, if it is a program of its."""
        core_program = self.__dict__.get("small")
        if core_program is not None:
            keep_panels(self, core_program)

    @lazy
    def needs(self) -> tuple[Need, ...] | None:
        """As `positions.needs` tells it."""
        return needs(self.program)

    def finds_nothing_wrong(self, values: Sequence[Any]) -> bool:
        """Return True if the arguments that are there already rule out errors."""
        if self.needs is None:
            return False
        pairs = [(values[k], extent) for k, extent in self.needs]
        return all(type(x) is np.ndarray and are_below(x, n) for x, n in pairs)

    def located(self, error: OutOfMemoryError, number: int) -> OutOfMemoryError:
        """The error of memory for a buffer, or for the whole arena (-1), with the step
        that was to write it, or the largest of the arena.
        """
        place = self.lives.place
        if number < 0 and place:
            number = max(place, key=lambda n: self.sizes[place[n]])
        owners = {n: k for k, n in (*self.workspaces.items(), *self.scratches.items())}
        for k, step in enumerate(self.program.steps):
            if number in step.written or owners.get(number) == k:
                types = [self.program.buffers[n].type for n in step.written]
                error.origins = self.program.about[k].origins
                return error.located(title(step), ", ".join(map(repr, types)))
        return error

    def lined(self, error: OutOfMemoryError, order: Sequence[Tensor]) -> TreadleError:
        """An error with the line of a run's own nodes, which are in this order."""
        keys = [(id(code), offset) for code, offset in error.origins]
        where = [order[self.lines[x]].line for x in keys if x in self.lines]
        return error.located("", "", where[0] if where else "")

    def about(self) -> list[StepNote]:
        """The notes on each record, for those who watch."""
        if self.notes is None:
            self.notes = notes_of(self.program, self.spans)
        return self.notes

    def run(
        self,
        arrays: Arrays,
        spent: Set[int] = frozenset(),
        lines: Mapping[Key, Origin] | None = None,
        held: InPlace | None = None,
        claim: Claim | None = None,
    ) -> dict[int, Any]:
        """The results for the values of the arguments, in the program's order.

        Arguments numbered in `spent` may be overwritten, of which a `claim` is told, or
        are `held` in their place: what is written there is not among the results;
        `lines` as in `Timing.tell`.
        """
        with Run(self, lines) as run:
            return run(arrays, spent, held, claim)

    def begin(
        self,
        arrays: Arrays,
        spent: Set[int] = frozenset(),
        held: InPlace | None = None,
        claim: Claim | None = None,
    ) -> dict[int, Any]:
        """As `run`, beside the caller where that can be: the results as Futures."""
        if (
            len(self.runs) == 1
            and self.runs[0].records
            and not self.endless
            and beside()
        ):
            return Run(self).begin(arrays, spent, held, claim)
        arrived()  # arguments may be results of what goes on
        return self.run(arrays, spent, None, held, claim)
