"""The parts of a planned run: programs, rows, and gradients of rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from treadle.autodiff.tape import GradientPart, Tape, TapeGradient
from treadle.base.options import modes
from treadle.core import native
from treadle.engines.base import CompiledProgram, Failed, are_below
from treadle.engines.early import listener
from treadle.graph.claim import Claim, InPlace
from treadle.graph.look import Look
from treadle.graph.references import counted, untouched
from treadle.graph.resident import Future, Resident
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.runtime.forests import Reads, Rows, RowsRun, leave_rows, parts_of
from treadle.runtime.moved import Moved, let_go
from treadle.runtime.sources import AsArgument, Slot, Slots, Source, Values
from treadle.runtime.written import outdated

# A program is begun that took longer than so many seconds in each of some runs: to
# begin takes a fifth of that.
WORTH, RUNS = 250e-6, 3


@dataclass
class Computed:
    """A program's part of a run; `reused` arguments may be written over, each with its
    source and how often the graph reads that. It is only begun where nothing but
    Variables gets its results, or later parts, or where it finds nothing wrong: if that
    can be told, `needs` has what is to be below what. It takes what `as_argument` makes
    of values. The last part makes the `changes`, by the numbers of results; of
    Variables whose next values it makes in their place it has all in `moved`.
    """

    program: CompiledProgram
    sources: list[Source]
    results: Slots
    reused: list[tuple[int, Source, int]]
    needs: list[tuple[Source, int]] | None = None
    as_argument: AsArgument | None = None
    still: Callable[[], bool] | None = None  # whether it is what is wanted
    begins: bool = False
    waits: bool = False  # for what it makes, which somebody is about to look at
    changes: list[Change] = field(default_factory=list)
    moved: Moved | None = None
    runs: int = 0  # that were waited for
    seconds: float = math.inf  # that the quickest of them took

    def run(self, values: Values) -> None:
        if self.still is not None and not self.still():
            raise Failed
        begins = self.begins or (self._is_worth_it() and self.is_sure(values))
        observer = listener()
        if observer is not None:
            observer.expect(self.results)
        begins = begins and not self.waits and observer is None
        if values.begun and not begins:
            values.begun[-1].wait()
        start = perf_counter()
        results = self._made(values, begins)
        values.put(results, [(k, slot) for k, slot in self.results if k in results])
        if not begins:
            self.runs += 1
            self.seconds = min(self.seconds, perf_counter() - start)

    def _made(self, values: Values, begins: bool) -> dict[int, Any]:
        """The results; what changes is taken away first, and lies where it did if
        nobody else refers to it."""
        moved = self.moved
        if modes.get().transactions:  # they hold what is there now
            if moved is not None and moved.together.held is not None:
                let_go(moved.together.ids)
            moved = None
        held = None if moved is None else moved.take(values.look)
        if moved is not None and held is not None:
            values.claim = held
            return self._move(values, moved, held, held, begins)
        claim, spent = None, set[int]()
        if self.changes:
            claim = values.claim = Claim([x.variable for x in self.changes])
            self._take(claim, values.look)
            if not modes.get().transactions:
                spent = self._spent(values.look, claim)
        if claim is not None and moved is not None and spent == moved.free:
            held = moved.together.hold(claim)
            return self._move(values, moved, held, claim, begins)
        arrays = [values(x, begins, self.as_argument) for x in self.sources]
        run = self.program.begin if begins else self.program.run
        results = run(arrays, spent, None, claim if spent else None)
        if claim is not None and claim.values is None:
            claim.values = [results[k] for k in claim.keys]
        return results

    def _take(self, claim: Claim, look: Look) -> None:
        """Take the versions before away from the Variables that are assigned."""
        claim.keys = [x.number for x in self.changes]
        places = [x.base for x in self.changes]
        bases = [look.nodes[k] if k >= 0 else None for k in places]
        changed = claim.take(bases)
        if changed is not None and look.updates:  # the long way says what that means
            raise Failed
        if changed is not None:
            raise outdated(changed).located("step", repr(changed.type))

    def _move(
        self, values: Values, moved: Moved, held: InPlace, claim: Claim, begins: bool
    ) -> dict[int, Any]:
        """The results besides the values that are written where those before lie."""
        arrays = moved.arguments(held, [values(x, begins) for x in moved.rest])
        run = self.program.begin if begins else self.program.run
        results = run(arrays, moved.free, held, claim)
        if begins:
            values.begun.append(held.runs)
        return results

    def _is_worth_it(self) -> bool:
        return self.runs >= RUNS and self.seconds > WORTH

    def is_sure(self, values: Values) -> bool:
        """True if nothing can be found wrong, as far as that is known beforehand."""
        if self.needs is None:
            return False
        return all(are_below(values(x), n) for x, n in self.needs)

    def _spent(self, look: Look, claim: Claim) -> set[int]:
        """The arguments whose arrays are this graph's alone now."""
        spent, taken = set(), set(map(id, claim.before))
        node: Tensor | None
        for k, source, uses in self.reused:
            if type(source) is int:
                node = look.nodes[source]
                inside = 1 + uses if look.others[source] <= 1 else -1
            elif isinstance(source, Variable):
                node, inside = claim.taken_from(source), 0
            else:
                continue
            if node is None or id(node) not in taken:
                continue
            if type(node.stored) is Future:
                node.stored.numpy()  # the step before may yet be writing it
            elif isinstance(node.stored, Resident) and self.as_argument is None:
                continue  # its copy at home may have readers
            # The list of what is taken refers to it, and the name.
            if counted([node]) == [inside + 2] and untouched(node):
                spent.add(k)
        return spent


@dataclass
class Rowed:
    """A forest's part of a run: its rows, and of some tables the rows it has read."""

    number: int
    rows: Rows
    leaves: list[Source]
    shared: list[Source]
    exits: Slots
    ids: Slots  # by serial of the table
    kept: Slot  # all values, where the core runs it
    # Of a run of values, whose exits may be derived later, `again` even by recipes.
    places: Reads[int] | None = None
    again: bool = False

    def run(self, values: Values) -> None:
        leaves = [values(x, True, self.rows.as_leaf) for x in self.leaves]
        shared = [values(x, True, self.rows.as_argument) for x in self.shared]
        rows_run = self.rows.run(leaves, shared, late=True)
        values.rows[self.number], values.sure[self.number] = rows_run, rows_run.is_sure
        values.put(rows_run.arrays(), self.exits)
        if rows_run.futures:
            values.begun.append(rows_run.futures)
            values.late |= dict.fromkeys(
                [slot for _, slot in self.exits], rows_run.futures
            )
        values.put({k: rows_run.ids(k) for k, _ in self.ids}, self.ids)

    def is_sure(self, values: Values) -> bool:
        """True if nothing can be found wrong, as far as that is known beforehand."""
        return values.sure[self.number]()

    def leave(self, values: Values) -> None:
        """Make leaves of the exits, if they are rows of a tape from now on."""
        assert self.places is not None
        nodes, run = values.look.nodes, values.rows.get(self.number)
        tape = None
        if self.rows.program.gradient:
            data = [nodes[k].serial for k in self.places.data]
            read = {s: nodes[self.places.sources[s]] for s, _ in self.rows.order}
            kept = [values.made[self.kept], *[values(x) for x in self.shared]]
            ids = {read[s].serial: values.there(slot) for s, slot in self.ids}
            make = partial(_taped, self.rows, read, kept, [*ids.values()], run)
            tape = Tape(make, [*read.values()], ids, data, self.rows.kind)
        exits = [nodes[k] for k in self.places.exits]
        arrays = [values.made[slot] for _, slot in self.exits]
        futures = None if run is None else run.futures
        leave_rows(exits, arrays, futures, tape, self.again)


def _taped(
    rows: Rows,
    sources: dict[int, Tensor],
    kept: list[Any],
    ids: list[Any],
    run: RowsRun | None,
) -> tuple[RowsRun, Sequence[GradientPart]]:
    """A run, which is that of the core if it is not given, and its gradient's parts."""
    if run is None:
        run = RowsRun(rows, rows.program.ran(kept[0], kept[1:], ids))
    return run, parts_of(run, sources)


@dataclass
class Pulled:
    """The gradient of a forest of this run, which is let go of then if this is its
    `last` use; or of one that ran before, `behind` its TapeGradient, by place, or the
    rows that cotangents are of or are `asked` for, whose numbers graphs differ in."""

    number: int | None
    behind: list[int]
    rows: Rows
    cotangents: dict[int, Source]
    asked: tuple[int, ...]
    results: Slots
    last: bool = True

    def run(self, values: Values) -> None:
        if self.number is None:
            self.of(values.look).pull(values, self.run_of(values.look))
            return
        rows_run = values.rows[self.number]
        if self.last:
            del values.rows[self.number]
        self.pull(values, rows_run)

    def pull(self, values: Values, rows_run: RowsRun) -> None:
        """Go backward through a run of these rows."""
        as_argument = self.rows.as_argument
        cotangents = {
            k: values(x, True, as_argument) for k, x in self.cotangents.items()
        }
        parts, futures = rows_run.parts(cotangents, self.asked, True)
        values.put(parts, self.results)
        if futures:
            values.begun.append(futures)
            values.late |= dict.fromkeys([s for _, s in self.results], futures)

    def of(self, look: Look) -> Pulled:
        """The same of the rows of another graph, which ran before."""
        nodes = [look.nodes[k] for k in self.behind]
        op: Any = nodes[0].op
        rows = self.run_of(look).rows
        if isinstance(op, TapeGradient):
            numbers = (*op.places, *op.asked)
        else:
            numbers = tuple(map(op.tape.place, nodes))
        count = len(self.cotangents)
        if rows is self.rows and numbers == (*self.cotangents, *self.asked):
            return self
        pairs = zip(numbers, self.cotangents.values(), strict=False)
        return replace(self, rows=rows, cotangents=dict(pairs), asked=numbers[count:])

    def run_of(self, look: Look) -> RowsRun:
        """The run before this one that it is the gradient of."""
        op: Any = look.nodes[self.behind[0]].op
        if op.tape.run is None:  # the long way tells what became of it
            raise Failed
        run: RowsRun = op.tape.run
        return run


Part = Computed | Rowed | Pulled


def small_programs(parts: Sequence[Any]) -> list[Any]:
    """The programs of all parts of a plan for the core; none if one is not small."""
    if native is None or any(type(x) is Pulled and x.asked for x in parts):
        return []
    programs = []
    for x in parts:
        if isinstance(x, Computed):
            program = x.program.small()
        elif isinstance(x, Rowed):
            program = x.rows.small
        else:
            program = x.rows.small_back(list(x.cotangents))
        if program is None:
            return []
        programs.append(program)
    return programs


class Change(NamedTuple):
    """A Variable that a plan assigns, the place of the version that it is made from, or
    -1 where that is not in the graph, and the number of the result."""

    variable: Variable
    base: int
    number: int
