"""The plan of a run that was told part by part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.autodiff.tape import is_spent, spent_by
from treadle.graph.leaves import cut_of
from treadle.graph.op import Op
from treadle.graph.variable import Variable
from treadle.runtime.at_once import at_once
from treadle.runtime.history import DATA
from treadle.runtime.moved import Moved, Together
from treadle.runtime.plan_parts import Computed, Rowed, small_programs
from treadle.runtime.recording import RunRecording, foreseen
from treadle.runtime.sources import Slot, Source
from treadle.runtime.steps import RunPlan, Valued


class PlanRecording(RunRecording):
    """A recording of a run of which a plan is made, among the `plans` of its caller."""

    plans: Any = None

    def plan(self) -> RunPlan | None:
        """The plan of what has run; None where it is not to be foretold."""
        # A signal handler may have carried out what was assigned, after the look.
        if not self.possible or not self.assigned <= self.made.keys():
            return None
        small = small_programs(self.parts)
        self.small = bool(small)
        plan = self._plan_of_values() if self.values else self._plan_of_changes()
        if plan is None:
            return None
        self._put_out(plan)
        if small:
            plan.small = at_once(plan, small, len(self.place))
            stills = [getattr(x, "still", None) for x in self.parts]
            plan.still = [x for x in stills if x is not None]
        return plan if self.possible else None

    @foreseen
    def _put_out(self, plan: RunPlan) -> None:
        plan.outputs = [(n, self._source(x)) for n, x in self.outputs.items()]

    def _plan_of_changes(self) -> RunPlan | None:
        """The plan where Variables change, or are about to by what is put out."""
        if not self.parts or not (self.changes or self.outputs):
            return None
        serials, all_stale, empty = list(self.place), self._stale(), frozenset[int]()
        values: list[tuple[Slot, int, bool]] = []
        nodes, lasts = self._opened()
        nodes += self._carried_out()
        pulled: list[tuple[Slot, int]] = []
        asked, held = {*range(self.asked)} - self.known, self._held_that_ran(serials)
        lasts = lasts or len(held) < len(self.held)
        for k in [*sorted(asked), *held]:
            serial = serials[k]
            if serial in self.pulls:
                pulled.append((self.made[serial], k))
                continue
            if serial not in self.leaves:
                return None
            leaf = self.leaves[serial]
            if k >= self.asked:
                mine = self.trained.get(serial, empty) <= self.chosen
                lasts = lasts or (serial in all_stale and not mine)
                if k in self.without:
                    nodes.append((self.made[serial], k, self.without[k]))
                    continue
                if serial not in all_stale or not mine:
                    if is_spent(leaf):
                        return None
                    values.append((self.made[serial], k, serial in self.carried))
                    continue
            else:  # others may be behind it
                leaf = cut_of(leaf.of, leaf.carried)
            nodes.append((self.made[serial], k, leaf))
        stale = [k for k in self.ran.values() if serials[k] in all_stale]
        closed = [k for k in stale if self.trained[serials[k]] <= self.chosen]
        lasts = lasts or len(closed) < len(stale)
        kept = [s for s in self.kept if s not in all_stale]
        if any(s not in self.place for s in kept):
            return None
        *before, last = self.parts
        slots = {slot for _, slot in getattr(last, "results", ())}
        if not slots >= self.changes.keys():
            return None
        for part in [x for x in before if isinstance(x, Computed)]:
            part.begins = not self.small  # the run waits for them itself
        if self.changes and isinstance(last, Computed):
            last.changes = list(self.changes.values())
            # Who reads what else it computes waits for it.
            last.begins = slots == self.changes.keys() and not self.small
            if lasts:  # what stays refers to versions of before
                last.reused = []
            elif len(self.over) == len(self.changes):
                last.moved = self._moved(last.sources)
        rows = [(s, k) for s, k, leaf in nodes if s is not None and is_spent(leaf)]
        others = [x for x in nodes if x[0] is None or not is_spent(x[2])]
        whole = any(k < self.asked for _, k in rows)
        spent = spent_by(None if whole else self._trained_by())
        more = self._valued(values, kept) if values or kept else None
        rest = spent, list(self.open), more, pulled
        return RunPlan(self.parts, self.slots, rows, others, *rest, closed=closed)

    def _carried_out(self) -> list[tuple[Slot | None, int, Op]]:
        """What was assigned before and may be read yet: a version, as after any run."""
        return [(self.made[serial], k, version) for serial, k, version in self.written]

    def _valued(
        self, values: list[tuple[Slot, int, bool]], kept: Sequence[int]
    ) -> Valued:
        """The nodes that have values and keep their recipes."""
        noted = self.noted if len(self.parts) == 1 else None
        return Valued(values, self._residuals(kept), noted)

    def _held_that_ran(self, serials: Sequence[int]) -> list[int]:
        """What somebody holds, but for what waits yet: what is made of that has run."""
        ran = self.pulls | self.leaves.keys()
        return [k for k in self.held if self.forests or serials[k] in ran]

    def _opened(self) -> tuple[list[tuple[Slot | None, int, Op]], bool]:
        """Which values with recipes are cut to what, and whether one is not: others are
        trained by it yet, so it keeps its recipe."""
        nodes: list[tuple[Slot | None, int, Op]] = []
        lasts = False
        for k, (name, carried, trained) in self.open.items():
            if k >= self.asked and self.spends and k in self.open_data:
                nodes.append((None, k, cut_of(name, False, DATA)))
                continue
            if k >= self.asked and self.chosen.isdisjoint(trained):
                continue
            if k >= self.asked and not trained <= self.chosen:
                lasts = True
                continue
            by = None if k < self.asked else self._trained_by()
            nodes.append((None, k, cut_of(name, carried, by)))
        return nodes, lasts

    def _residuals(self, kept: Sequence[int]) -> list[tuple[Slot, int, bool]]:
        """The other values, of some serials, that are kept for gradients."""
        places = [(s, k) for s in kept if (k := self.place[s]) not in self.without]
        return [(self.made[s], k, s in self.carried) for s, k in places]

    def _plan_of_values(self) -> RunPlan | None:
        """The plan where values keep their recipes, and what was assigned before is
        carried out."""
        forests = [x for x in self.parts if isinstance(x, Rowed)]
        if not self.parts:
            return None
        pulled: list[tuple[Slot, int]] = []
        serials = list(self.place)
        values = []
        cuts = self._carried_out()
        rows, read = set[int](), set[int]()  # places
        for x in forests:
            assert x.places is not None
            rows.update(x.places.exits)
            read.update(x.places.expressions)
        for k in dict.fromkeys([*range(self.asked), *self.held, *sorted(read)]):
            if k not in self.known and k not in rows:
                slot = self.made.get(serials[k])
                if slot is None and self.asked:
                    return None
                if slot is None:  # where nothing is asked for, rows alone have run
                    continue
                if serials[k] in self.pulls:
                    pulled.append((slot, k))
                elif k in self.without:
                    cuts.append((slot, k, self.without[k]))
                else:
                    values.append((slot, k, serials[k] in self.carried))
        if any(s not in self.place for s in self.kept):
            return None
        last: Any = self.parts[-1]
        slots = {slot for _, slot in getattr(last, "results", ())}
        variables = [x.variable for x in self.changes.values()]
        if any(type(v).commit is not Variable.commit for v in variables):
            return None
        if not slots >= self.changes.keys():
            return None
        for part in self.parts:
            if isinstance(part, Computed):
                part.waits = True
        if self.changes:
            last.changes = list(self.changes.values())
        if self.changes and len(self.over) == len(self.changes):
            last.moved = self._moved(last.sources)
        valued = self._valued(values, self.kept)
        rest = spent_by(None), list(self.open), valued, pulled
        return RunPlan(self.parts, self.slots, [], cuts, *rest)

    def _moved(self, sources: Sequence[Source]) -> Moved | None:
        """The Variables of the last part, if that writes over all their arrays, and is
        not done at once."""
        if self.small or self.written or self.parts[-1].as_argument is not None:  # type: ignore[union-attr]
            return None
        variables = [x.variable for x in self.changes.values()]
        if any(type(v).commit is not Variable.commit for v in variables):
            return None
        key, new = tuple(sorted(self.over)), Together(variables)
        together = self.together.setdefault(key, new)
        numbers = [self.over[id(v)][0] for v in together.variables]
        return Moved(together, numbers, sources, self.uses)
