"""A run put down in parts, to be done for other graphs that look alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

from treadle.autodiff.tape import cut_pulled
from treadle.base.caches import lazy
from treadle.base.options import current, modes
from treadle.engines.base import CompiledProgram, Failed, are_below, engine
from treadle.engines.early import listener
from treadle.graph.carried import Carried
from treadle.graph.claim import Claim, InPlace
from treadle.graph.frame import top
from treadle.graph.look import Look
from treadle.graph.op import Op
from treadle.graph.references import counted, untouched
from treadle.graph.resident import Future, Futures, LateError, Resident
from treadle.graph.serials import mark_run
from treadle.graph.tensor import Tensor, cut, leave, settle
from treadle.graph.variable import Variable
from treadle.runtime.forests import Reads, Rows, RowsRun, leave_rows, tape_for
from treadle.runtime.history import keep_residual, note_residual
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
        spent = set()
        node: Tensor | None
        for k, source, uses in self.reused:
            if type(source) is int:
                node = look.nodes[source]
                inside = 1 + uses if look.others[source] <= 1 else -1
            elif isinstance(source, Variable):
                node, inside = claim.taken_from(source), 0
            else:
                continue
            if node is None or not claim.has_taken(node):
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
        leaves = [values(x, True) for x in self.leaves]
        rows_run = self.rows.run(
            leaves, [values(x, True) for x in self.shared], late=True
        )
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
        run = values.rows.get(self.number)
        if values.by_core:
            self.rows.count()
        if self.places is None:
            return
        if run is None:
            shared = [values(x) for x in self.shared]
            ids = [values.made[slot] for _, slot in self.ids]
            made = self.rows.program.ran(values.made[self.kept], shared, ids)
            run = RowsRun(self.rows, made)
        reads = self.places.map(values.look.nodes.__getitem__)
        arrays = [values.made[slot] for _, slot in self.exits]
        tape = tape_for(run, reads)
        leave_rows(reads.exits, arrays, run.futures, tape, self.again)


@dataclass
class Pulled:
    """The gradient of a forest of this run, which is let go of then, or of the one that
    the TapeGradient at a `place` is of."""

    number: int | None
    place: int | None
    rows: Rows
    cotangents: dict[int, Source]
    asked: tuple[int, ...]
    results: Slots

    def run(self, values: Values) -> None:
        if self.number is not None:
            rows_run = values.rows.pop(self.number)
        else:
            rows_run = self.run_of(values.look)
        cotangents = {k: values(x, True) for k, x in self.cotangents.items()}
        parts, futures = rows_run.parts(cotangents, self.asked, True)
        values.put(parts, self.results)
        if futures:
            values.begun.append(futures)
            values.late |= dict.fromkeys([s for _, s in self.results], futures)

    def run_of(self, look: Look) -> RowsRun:
        """The run before this one that it is the gradient of."""
        assert self.place is not None
        op: Any = look.nodes[self.place].op
        if op.tape.run is None:  # the long way tells what became of it
            raise Failed
        run: RowsRun = op.tape.run
        return run


Part = Computed | Rowed | Pulled


class Change(NamedTuple):
    """A Variable that a plan assigns, the place of the version that it is made from, or
    -1 where that is not in the graph, and the number of the result."""

    variable: Variable
    base: int
    number: int


# How nodes were made: a key, the numbers of some by place, and those that were given.
Noted = tuple[Any, list[tuple[int, int]], Any]


class Valued(NamedTuple):
    """The nodes that have values after a run and keep their recipes, those that do for
    a gradient to come, and how they are noted to have been made: what is made, the
    place, and whether it depends on what is trained.
    """

    nodes: list[tuple[Slot, int, bool]]
    more: list[tuple[Slot, int, bool]]
    noted: Noted | None

    def settle(self, nodes: Sequence[Tensor], values: Sequence[Any]) -> list[Tensor]:
        """Give nodes their values; the first of them."""
        marks = {}
        if self.noted is not None and any(carried for _, _, carried in self.nodes):
            key, places, leaves = self.noted
            known = {nodes[k].serial: n for k, n in places}
            marks = {"program": (key, known, leaves)}
        for slot, place, carried in self.nodes:
            settle(nodes[place], values[slot])
            nodes[place].mark = {**marks, "carried": carried}
        for slot, place, carried in self.more:
            keep_residual(nodes[place], values[slot], carried)
        return [nodes[place] for _, place, _ in self.nodes]


@dataclass
class RunPlan:
    """A run: its parts, of which the last makes the next values of Variables; the rows
    and other nodes that have what it makes."""

    parts: list[Part]
    slots: int
    rows: list[tuple[Slot, int]]  # place
    # What is made of a node, if it has no value, its place, and what it is cut to.
    nodes: Sequence[tuple[Slot | None, int, Op]]
    spent: Op  # what rows are cut to
    open: Sequence[int] = ()  # places of values whose gradient this is
    values: Valued | None = None  # of a run that cuts nothing
    pulled: Sequence[tuple[Slot, int]] = ()  # results of a TapeGradient, with places
    small: Any = None  # the same for the core, where all parts are small
    still: Sequence[Callable[[], bool]] = ()  # whether they are what is wanted
    # What it makes of no node of the graph, by numbers below zero: no serial is.
    outputs: Sequence[tuple[int, Source]] = ()
    once: bool = False  # at the second sight it is made with what gradients need
    about: Any = None  # what its caller notes of it

    def run(self, look: Look) -> list[Tensor] | None:
        """Run all parts for this graph and what was assigned before, settle and cut its
        nodes, and commit; the nodes that keep their recipes, or None where another run
        carries out some of that."""
        try:
            done = None if self.small is None else self._run_at_once(look)
            if done is None:
                done = self._carry_out(look) if look.updates else self._run(look)
            return done
        except Failed:
            raise
        except BaseException:  # as any run that fails; they may have been carried out
            if look.updates:
                top().drop(look.updates)
            raise

    def _carry_out(self, look: Look) -> list[Tensor] | None:
        """Run all parts while no other run carries out what was assigned."""
        carried = Carried()
        with carried.lock:
            try:
                if carried.take(look.updates) is not None:
                    return None
                if any(x.stored is not None for x in look.updates):
                    return None  # by a signal handler, since they were looked at
                return self._run(look)
            finally:
                carried.leave()

    def _run_at_once(self, look: Look) -> list[Tensor] | None:
        """Have the core do all of it; None where somebody else is to be told of it."""
        around = modes.get()
        if around.transactions:
            return None
        for still in self.still:
            if not still():
                raise Failed
        nodes, now = look.nodes, engine(around.options.engine)
        given, others = nodes, look.others
        for part in self.forests:
            if isinstance(part, Pulled) and part.number is None:
                more = part.run_of(look).kept
                given, others = [*given, *more], [*others, *[0] * len(more)]
        if self.open:
            now.derived([nodes[k] for k in self.open])
        last = getattr(self.parts[-1], "program", None)
        updates = (top(), look.updates) if look.updates else ()
        values = now.at_once(self.small, given, others, last, updates)
        if values is None:
            return None
        mark_run()
        for mark in (updates and updates[0].marks) or ():
            mark.carried_out(look.updates)
        if self.outputs or self.forests:
            all_values = Values(look, self.slots)
            all_values.made, all_values.by_core = values, True
            self._leave(all_values)
        if self.outputs:
            look.outputs = {n: all_values(source) for n, source in self.outputs}
        if self.values is None:
            return []
        for _, place, _ in self.values.more:
            note_residual(nodes[place])
        return [nodes[place] for _, place, _ in self.values.nodes]

    @lazy
    def forests(self) -> Sequence[Rowed | Pulled]:
        """The parts that are rows or gradients of rows."""
        return [x for x in self.parts if not isinstance(x, Computed)]

    def _leave(self, values: Values) -> None:
        """Give gradients of rows, and rows that stay, their values."""
        for slot, place in self.pulled:
            node = values.look.nodes[place]
            settle(node, values.there(slot))
            cut_pulled(node)
        for part in self.forests:
            if isinstance(part, Rowed):
                part.leave(values)

    def _run(self, look: Look) -> list[Tensor]:
        values = Values(look, self.slots)
        done: list[Tensor] = []
        try:
            self._run_parts(values)
            mark_run()
            nodes, arrays = look.nodes, values.made
            if self.open:
                engine(current().engine).derived([nodes[k] for k in self.open])
            rows = [nodes[place] for _, place in self.rows]
            leave(rows, [values.there(slot) for slot, _ in self.rows], self.spent)
            for slot, place, leaf in self.nodes:
                if slot is not None:
                    settle(nodes[place], arrays[slot])
                cut(nodes[place], leaf)
            if self.values is not None:
                done = self.values.settle(nodes, arrays)
            self._leave(values)
            if self.outputs and values.begun:
                values.begun[-1].wait()
            look.outputs = {n: values(source) for n, source in self.outputs}
            if look.updates:
                top().drop(look.updates)
        except BaseException as error:
            failed = isinstance(error, (Failed, LateError))
            if values.claim is not None:
                values.claim.leave(failed)
                let_go(set(map(id, values.claim.variables)))
            runs = [run.ticket for run in values.begun]
            if isinstance(error, LateError) and error.ticket in runs:
                raise Failed from None
            raise
        claim = values.claim
        changed = None if claim is None else claim.finish()
        if claim is not None and claim.copies is not None:
            let_go(set(map(id, claim.variables)))
        if changed is not None:
            raise outdated(changed).located("step", repr(changed.type))
        return done

    def _run_parts(self, values: Values) -> None:
        """Begin all parts, and be there until nothing can be found wrong any more: what
        checks positions that nobody could look at before is waited for.
        """
        observer, nodes = listener(), values.look.nodes
        if observer is not None:
            kept = () if self.values is None else self.values.nodes
            places = [(k, at) for k, at, *_ in (*self.nodes, *kept, *self.pulled)]
            serials = {k: nodes[at].serial for k, at in places if k is not None}
            numbers = {x: n for n, x in self.outputs if type(x) is Slot}
            observer.place(serials | numbers)
        checking: list[tuple[Computed | Rowed, Futures]] = []
        for part in self.parts:
            part.run(values)
            last = part is self.parts[-1] and isinstance(part, Computed)
            if last or isinstance(part, Pulled):
                continue
            if values.begun:
                checking.append((part, values.begun[-1]))
        for part, run in reversed(checking):  # what is over has checked all before it
            if run.is_over or not part.is_sure(values):
                run.wait()
                return
