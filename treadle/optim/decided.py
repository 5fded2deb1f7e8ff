"""Decisions of an optimizer beside its graphs, and plans of first steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from treadle.autodiff.gradient import graded
from treadle.autodiff.tape import spent_by
from treadle.base.caches import Cache
from treadle.graph.leaves import Cut, Version, cut_of
from treadle.graph.look import Look, Owned, numbered
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.optim.groups import Now
from treadle.optim.stamp import Decisions, stamp
from treadle.optim.state import OptimizerState
from treadle.runtime.again import Plans
from treadle.runtime.at_once import at_once
from treadle.runtime.plan_parts import Computed, small_programs
from treadle.runtime.steps import RunPlan

KNOWN = 64  # first steps
# What a step has settled, or the key of its plan and how it looks; None: untold.
Followed = list[Tensor] | tuple[Any, Look] | None


class DecidedSteps(OptimizerState):
    """The decisions of an optimizer, and its first step by the plan of one made alike:
    models made in a loop have graphs that look the same."""

    _since: int

    def _scheduled(self) -> Now | None:
        """The rates of now, where they follow from the count of steps; None where they
        are numbers."""
        return None if self._decisions().numbers else self._now()

    def _decisions(self) -> Decisions:
        """The decisions of now, made anew where something changed."""
        known, now = self._decided, stamp.now
        if known.stamp != now:
            numbers = all(g.owns_rate for g in self.groups)
            rest = any(g.parameters is None for g in self.groups)
            every = tuple([p for g in self.groups for p in g.parameters or ()])
            listed = None if rest else every
            known = Decisions(now, numbers, listed, self._sign(), self._owned())
            vars(self)["_decided"] = known  # which does not move the stamp
        return known

    def _chosen(self) -> tuple[Variable, ...]:
        """The parameters of all groups; of one that takes the rest those that hold a
        gradient."""
        if (listed := self._decisions().listed) is not None:
            return listed
        known = graded(self._since)
        return tuple([p for g in self.groups for p in self.candidates(g, known)])

    def _variables(self) -> list[Variable]:
        """The Variables that steps write or that are rates; the first states come last,
        that a first step looks like those after it."""
        every = [self.count, *self.controls.counts(), *self._own_rates()]
        every += [p for group in self.groups for p in group.parameters or ()]
        every += [p for _, p, _ in self._states.values()]
        return [*{id(v): v for v in (*every, *self._own_states())}.values()]

    def _owned(self) -> Owned:
        """The same by id, with numbers for keys."""
        kept = len(self.groups), len(self._states), *map(id, self._own_rates())
        if self._numbered != kept:
            vars(self)["_numbered"] = kept
            vars(self)["_numbers"] = numbered(self._variables())
        return self._numbers

    def _states_owned(self) -> Owned:
        """Those of the states: no graph that was looked at has read what is new."""
        numbers = self._owned()
        return {id(v): numbers[id(v)] for v in self._own_states()}

    def _sign(self) -> tuple[Any, ...] | None:
        """The key of the update that is made of gradients, the rates left out; None
        where it may be another graph at each step."""
        controls, groups = self.controls.sign(), tuple([g.sign() for g in self.groups])
        if controls is None or None in groups:
            return None
        return controls, groups, self.sparse_updates, self._parted

    # -- first steps -------------------------------------------------------------------

    def _alike(self, key: tuple[Any, ...]) -> Any:
        """The key of a first step by that of its plan, the same for optimizers made
        alike; None where more decides it than settings and types of parameters."""
        look, only, of, counts, (controls, _, *rest), around = key
        decided = self._decisions()
        if only is not None or decided.listed is None or not decided.numbers:
            return None
        places = {known: k for k, known in enumerate(decided.owned)}
        if not self.controls.measures.whole or not places.keys() >= set(of):
            return None
        groups = [(g.rule, len(g.parameters or ())) for g in self.groups]
        types = [(p.type, p.trainable, p.sparse) for p in decided.listed]
        kind = type(self), self.masters, controls, *rest, *groups, *types
        return look, tuple([places[x] for x in of]), counts, around, kind

    def _known_alike(self, plans: Plans, seen: Followed) -> Followed:
        """Do a first step by the plan of an optimizer made alike, whose states this one
        gets; what was seen of it where there is none."""
        if not isinstance(seen, tuple):
            return seen
        first = _first.get(kind) if (kind := self._alike(seen[0])) is not None else None
        if first is None:
            return seen
        pairs = [(g, p) for g in self.groups for p in g.parameters or ()]
        # A step makes states by groups and parameters alone.
        self._states_in([(*pairs[k], None) for k in first.states])  # type: ignore[misc]
        every = self._variables()
        if len(every) != first.variables:
            return seen
        ids = {Own(k): id(v) for k, v in enumerate(every)}
        plan = rebound(first.plan, lambda x: every[x] if type(x) is Own else x, ids)
        plan.small = at_once(plan, small_programs(plan.parts), first.nodes)
        done = plans.take(*seen, plan)
        return seen if done is None else done

    def _note_first(
        self, key: tuple[Any, ...], plan: RunPlan | None, size: int
    ) -> None:
        """Keep the plan of a first step, of a graph of so many nodes, for optimizers
        made alike, if it changes Variables by small programs and does no more."""
        if plan is None or plan.small is None or (kind := self._alike(key)) is None:
            return
        more = plan.values or plan.rows or plan.pulled or plan.closed or plan.outputs
        cuts = all(type(leaf) in (Cut, Version) for _, _, leaf in plan.nodes)
        if more or not cuts or not all(type(x) is Computed for x in plan.parts):
            return
        variables = self._variables()
        places = {id(v): Own(k) for k, v in enumerate(variables)}
        if not plan.changed <= places.keys():
            return
        plan = rebound(plan, lambda x: places.get(id(x), x), places)
        parameters = [id(p) for g in self.groups for p in g.parameters or ()]
        states = [parameters.index(known) for known in self._states]
        _first[kind] = FirstStep(plan, size, len(variables), states)


class Own(int):
    """The place of a Variable among those of an optimizer."""

    __slots__ = ()


@dataclass(frozen=True)
class FirstStep:
    """The plan of a first step, with places for Variables; the nodes of its graph, how
    many Variables there are, and the places of parameters in the order of states."""

    plan: RunPlan
    nodes: int
    variables: int
    states: list[int]


_first: Cache[Any, FirstStep] = Cache("first steps of optimizers", KNOWN)


def rebound(
    plan: RunPlan, source: Callable[[Any], Any], numbers: Mapping[Any, Any]
) -> RunPlan:
    """A plan of programs with other Variables: what is the `source` in the place of
    each, and the number of each in what is cut."""

    def trained(leaf: Any) -> frozenset[Any] | None:
        known = leaf.trained
        return None if known is None else frozenset([numbers[x] for x in known])

    parts: list[Any] = []
    planned: Any = plan.parts
    for part in planned:
        needs = part.needs and [(source(x), n) for x, n in part.needs]
        changes = [x._replace(variable=source(x.variable)) for x in part.changes]
        over = [(k, source(x), n) for k, x, n in part.reused]
        rest = {"needs": needs, "changes": changes, "reused": over, "moved": None}
        parts.append(replace(part, sources=[*map(source, part.sources)], **rest))
    nodes: list[Any] = []
    for slot, k, leaf in plan.nodes:
        if type(leaf) is Cut:
            nodes.append((slot, k, cut_of(leaf.of, leaf.carried, trained(leaf))))
        else:  # a version, or the place of the Variable
            x = source(getattr(leaf, "variable", leaf))
            nodes.append((slot, k, x.version if isinstance(x, Variable) else x))
    spent = spent_by(trained(plan.spent))
    return RunPlan(parts, plan.slots, [], nodes, spent, plan.open, still=plan.still)
