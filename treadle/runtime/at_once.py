"""Plans of small programs as the core runs them, all at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.caches import Cache
from treadle.base.changes import changes
from treadle.base.options import current, modes
from treadle.core import native
from treadle.engines.base import Failed, engine
from treadle.graph.frame import top
from treadle.graph.leaves import cut_of
from treadle.graph.look import Look
from treadle.graph.op import Op
from treadle.graph.serials import mark_run
from treadle.graph.tensor import Tensor, node_at, site
from treadle.graph.variable import Variable, variable_of
from treadle.runtime.around import settings
from treadle.runtime.plan_parts import Computed, Rowed, small_programs
from treadle.runtime.sources import Slot, Source
from treadle.runtime.steps import RunPlan

CALLS = 8  # plans of calls of one body
TRIES = 8  # to find one
PLACE, MADE, VARIABLE, ARRAY = range(4)  # kinds of sources (core/run.cpp)


def at_once(plan: RunPlan, programs: Sequence[Any], nodes: int) -> Any:
    """A plan of small programs for the core, for graphs of so many nodes; None where
    it does what only Python can.
    """
    parts: Sequence[Any] = plan.parts
    of: dict[Any, int] = {}
    steps = []
    forests = {x.number: x for x in parts if isinstance(x, Rowed)}
    for part, program in zip(parts, programs, strict=True):
        over = []
        if isinstance(part, Computed):
            of |= dict(part.results)
            over = [(k, uses) for k, _, uses in part.reused]
            wanted, results = part.sources, part.results
        elif isinstance(part, Rowed):
            wanted, exits = [*part.leaves, *part.shared], len(part.rows.exits.types)
            slots = enumerate([slot for _, slot in part.ids], 1 + exits)
            results = [(0, part.kept), *((1 + k, s) for k, s in part.exits), *slots]
        else:
            known = forests.get(part.number)
            wanted, results = [*part.cotangents.values()], part.results
            if known is not None:
                wanted = [known.kept, *known.shared, *wanted]
            else:  # what its run has kept is given after the nodes
                count = 1 + len(part.rows.program.shared)
                wanted = [*range(nodes, nodes + count), *wanted]
                nodes += count
        sources = [_source(x) for x in wanted]
        if None in sources:
            return None
        places = [(k, int(slot)) for k, slot in results]
        steps.append((program, sources, places, over))
    changed = getattr(parts[-1], "changes", [])
    changes = [(x.variable, x.base, of[x.number]) for x in changed]
    if any(type(x.variable).commit is not Variable.commit for x in changed):
        return None
    cuts = [(-1 if s is None else s, place, leaf, 0) for s, place, leaf in plan.nodes]
    cuts += [(slot, place, plan.spent, 0) for slot, place in plan.rows]
    kept, more, noted = plan.values or ((), (), None)
    values: list[Any] = [(slot, place, None, carried) for slot, place, carried in kept]
    if not any(carried for *_, carried in values):  # nobody will ask
        noted = None
    values += [(slot, place, False, carried) for slot, place, carried in more]
    key, numbers, leaves = noted or (None, [], None)
    rest = plan.slots, nodes, key, list(numbers), leaves
    return native.run_plan(steps, changes, cuts, values, *rest)


@dataclass
class CallPlan:
    """A call of a body, without the graph that it records.

    results: of each the slot, and the type and leaf of the node that has it.
    """

    small: Any
    last: Any  # the program
    still: Sequence[Callable[[], bool]]
    results: list[tuple[int, Any, Op]]

    def run(self, inputs: Sequence[Any]) -> list[Array] | None:
        """The results for the inputs of a call, arrays or nodes that have values; None
        where not all is plain."""
        for still in self.still:
            if not still():
                return None
        now = engine(current().engine)
        try:
            values = now.at_once(self.small, [*inputs], None, self.last)
        except Failed:  # the long way tells what it was
            return None
        if values is None:
            return None
        mark_run()
        return [values[slot] for slot, _, _ in self.results]

    def nodes(self, arrays: Sequence[Array], above: int) -> list[Tensor]:
        """Nodes that have the results, made so many calls above."""
        where = site(above + 1)
        pairs = zip(self.results, arrays, strict=True)
        return [node_at(where, leaf, (), t, x) for (_, t, leaf), x in pairs]


class Calls:
    """Calls of a body that go by plans, by what is around and which Variables train."""

    def __init__(self, variables: Sequence[Variable]) -> None:
        self.variables = variables  # that it reads or assigns
        self._seen = -1  # the stamp when they were looked at
        self._trained: tuple[bool, ...] | None = None  # None: rows of one are frozen
        # Plans, or how often there was none.
        self._known: Cache[Any, CallPlan | int] = Cache("calls done at once", CALLS)

    def run(
        self,
        inputs: Sequence[Any],
        planned: Callable[[Sequence[Any], Any], CallPlan | None],
    ) -> tuple[CallPlan, list[Array]] | None:
        """A plan and the results for these inputs; None where there is none, which is
        asked for some times, or where somebody has assigned what waits or is to be
        told.
        """
        frame, around, now = top(), settings(), modes.get()
        if around is None or frame.versions or frame.marks:
            return None
        if now.transactions or now.explicit:
            return None
        trained = self._trained if self._seen == changes.now else self._look()
        if trained is None:
            return None
        key = around, trained
        known = self._known.get(key, 0)
        if isinstance(known, int) and known < TRIES:
            self._known[key] = known = planned(inputs, around) or known + 1
        if isinstance(known, int):
            return None
        results = known.run(inputs)
        return None if results is None else (known, results)

    def _look(self) -> tuple[bool, ...] | None:
        """Which Variables train; None where rows of one are frozen."""
        seen, trained = changes.now, tuple([v.trainable for v in self.variables])
        frozen = any(v.frozen is not None for v in self.variables)
        self._trained, self._seen = None if frozen else trained, seen
        return self._trained


def of_call(
    plan: RunPlan | None, seen: Look, asked: Sequence[Tensor], inputs: Sequence[Tensor]
) -> CallPlan | None:
    """The plan of calls by that of a graph that one has recorded, which looks like
    this; None where it is not small, or asks for more.
    """
    if plan is None or plan.small is None or plan.values is None or plan.open:
        return None
    place = {x.serial: k for k, x in enumerate(inputs)}
    if len(place) < len(inputs):  # in another call they may be different
        return None
    changing = {id(x.variable): x.variable for x in _last(plan).changes}

    def moved(x: Source) -> Source:
        """A source among the inputs; -1 where it is none."""
        if type(x) is not int:
            return x
        node = seen.nodes[x]
        variable = variable_of(node)
        if id(variable) in changing:
            return variable
        return place.get(node.serial, -1)

    parts: list[Any] = []
    planned: Sequence[Any] = plan.parts
    for part in planned:
        sources = [moved(x) for x in part.sources]
        if any(type(x) is int and x < 0 for x in sources):
            return None
        over = [(k, sources[k], 0) for k, *_ in part.reused]
        if not all(isinstance(x, Variable) for _, x, _ in over):
            return None
        changes = [x._replace(base=-1) for x in part.changes]
        parts.append(replace(part, sources=sources, reused=over, changes=changes))
    values = [
        (slot, k, cut_of(seen.nodes[k].op.name, carried))
        for slot, k, carried in plan.values.nodes
    ]
    settled = {k: (slot, leaf) for slot, k, leaf in [*plan.nodes, *values]}
    if sorted(settled) != list(range(len(asked))):
        return None
    results = []
    for k, x in enumerate(asked):
        slot, leaf = settled[k]
        if slot is None:
            return None
        results.append((int(slot), x.type, leaf))
    call_plan = RunPlan(parts, plan.slots, [], [], plan.spent)
    small = at_once(call_plan, small_programs(parts), len(inputs))
    if small is None:
        return None
    return CallPlan(small, _last(plan).program, plan.still, results)


def _last(plan: RunPlan) -> Computed:
    last = plan.parts[-1]
    assert isinstance(last, Computed)
    return last


def _source(x: Source) -> tuple[int, Any] | None:
    if type(x) is int:
        return PLACE, x
    if type(x) is Slot:
        return MADE, int(x)
    if isinstance(x, Variable):
        return VARIABLE, x
    return (ARRAY, x) if type(x) is np.ndarray else None


if native is not None:
    native.bind_run(Variable)
