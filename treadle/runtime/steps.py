"""A run put down in parts, to be done for other graphs that look alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from treadle.autodiff.tape import cut_pulled, tape_of
from treadle.base.caches import lazy
from treadle.base.options import current, modes
from treadle.core import native
from treadle.engines.base import Failed, engine
from treadle.engines.early import listener
from treadle.graph.carried import Carried
from treadle.graph.frame import top
from treadle.graph.look import Look
from treadle.graph.op import Op
from treadle.graph.resident import Futures, LateError
from treadle.graph.serials import mark_run
from treadle.graph.tensor import Tensor, cut, leave, settle
from treadle.runtime.forests import running_rows
from treadle.runtime.history import keep_residual, note_residuals
from treadle.runtime.moved import holding, let_go
from treadle.runtime.plan_parts import Computed, Part, Pulled, Rowed, small_programs
from treadle.runtime.sources import Slot, Source, Values
from treadle.runtime.written import outdated

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
            if values[slot] is not None:
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
    closed: Sequence[int] = ()  # places of rows that ran before, whose tapes it uses up
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
            if self.small is not None:
                done = self._run_at_once(look)
                if done is not None:
                    return done
            return self._carry_out(look) if look.updates else self._run(look)
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
        if holding:
            let_go(self.changed)
        nodes, others, updates = look.nodes, look.others, look.updates
        given, now = nodes, engine(around.options.engine)
        small = self._through(look) if self.later else self.small
        if small is None:
            return None
        for part in self.later:
            more = part.run_of(look).kept
            given, others = [*given, *more], [*others, *[0] * len(more)]
        if self.open:
            now.derived([nodes[k] for k in self.open])
        frame = (top(), updates) if updates else ()
        values = now.at_once(small, given, others, self.last, frame)
        if values is None:
            return None
        mark_run()
        for mark in (frame and frame[0].marks) or ():
            mark.carried_out(updates)
        for rowed in self.rowed:
            rowed.rows.count()
        if self.pulled or self.leaves:
            self._leave(Values(look, values))
        self._close(nodes)
        made = Values(look, values) if self.outputs else None
        look.outputs = {n: made(x) for n, x in self.outputs} if made else {}
        return self.settled(nodes)

    def put_out(self, nodes: list[Tensor], values: list[Any]) -> Mapping[int, Any]:
        """The outputs of a plan that is `quick`, of what the core has made."""
        pairs = self.outputs
        return {n: values[x] if type(x) is Slot else nodes[x].array for n, x in pairs}

    def _through(self, look: Look) -> Any:
        """The same for the core with the ways back through the rows of this graph."""
        known = {id(x): x.of(look) for x in self.later}
        if all(x is known[id(x)] for x in self.later):
            return self.small
        parts = [known.get(id(x), x) for x in self.parts]
        programs = small_programs(parts)
        return native.plan_like(self.small, programs) if programs else None

    def settled(self, nodes: Sequence[Tensor]) -> list[Tensor]:
        """The nodes that keep their recipes, once the core has given all their values;
        what is kept for gradients besides is known from now on."""
        if self.values is None:
            return []
        values, more, _ = self.values
        if more:
            there = [x for _, k, _ in more if (x := nodes[k]).stored is not None]
            note_residuals(there)
        return [nodes[place] for _, place, _ in values]

    @lazy
    def last(self) -> Any:
        """The program that runs last."""
        return getattr(self.parts[-1], "program", None)

    @lazy
    def quick(self) -> tuple[Any, ...] | None:
        """What the core has to know to follow this by itself: the plan for it, the
        checks, the places of values that are derived, the last program, and whether
        more is put out; None where Python has more to do (core/run.cpp)."""
        more = self.once or self.rowed or self.later or self.closed or self.pulled
        there = {type(x) for _, x in self.outputs} <= {int, Slot}
        if self.small is None or more or not there:
            return None
        open_places, puts_out = tuple(self.open), bool(self.outputs)
        return self.small, tuple(self.still), open_places, self.last, puts_out

    @lazy
    def changed(self) -> Set[int]:
        """The Variables that it assigns, by their ids."""
        changes = getattr(self.parts[-1], "changes", ())
        return frozenset([id(x.variable) for x in changes])

    @lazy
    def rowed(self) -> Sequence[Rowed]:
        """The parts that are rows."""
        return [x for x in self.parts if isinstance(x, Rowed)]

    @lazy
    def leaves(self) -> Sequence[Rowed]:
        """Those whose exits are leaves after a run."""
        return [x for x in self.rowed if x.places is not None]

    @lazy
    def later(self) -> Sequence[Pulled]:
        """The gradients of rows that ran before."""
        return [x for x in self.parts if isinstance(x, Pulled) and x.number is None]

    def _leave(self, values: Values) -> None:
        """Give gradients of rows, and rows that stay, their values."""
        pulled = [values.look.nodes[place] for _, place in self.pulled]
        with running_rows:  # another thread may be about to run these
            for node, (slot, _) in zip(pulled, self.pulled, strict=True):
                settle(node, values.there(slot))
            cut_pulled(pulled)
            for part in self.leaves:
                part.leave(values)

    def _close(self, nodes: Sequence[Tensor]) -> None:
        """Let go of the tapes that are used up."""
        for tape in map(tape_of, [nodes[k] for k in self.closed]):
            if tape is not None:
                tape.close(self.spent.trained)  # type: ignore[attr-defined]

    def _run(self, look: Look) -> list[Tensor]:
        values = Values(look, [None] * self.slots)
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
            self._close(nodes)
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
            observer.begin(self.about)
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
