"""Shape polymorphism of plans: graphs that differ in extents alone share one.

Of such graphs the plans differ in the program, and so does that in numbers alone
(`engines/native/translation/families.py`). Two that are alike but for it tell which
extents of the program are which of the graph; the plan of a third is that of the second
with another program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from treadle.base.arrays import Array
from treadle.base.caches import Cache
from treadle.base.symbolic import IntegerTable, SymbolicTrace, compiled
from treadle.core import native
from treadle.graph.extents import Open, family_of
from treadle.graph.look import Look
from treadle.graph.variable import Variable
from treadle.runtime.at_once import at_once, small_programs
from treadle.runtime.plan_parts import Computed
from treadle.runtime.steps import RunPlan

FAMILIES = 64  # of one caller
SEEN = 8  # graphs of a family
KINDS = 24  # of programs of a family

Extents = tuple[int, ...]


class Sizes:
    """Plans of a caller by what graphs are without extents."""

    def __init__(self) -> None:
        self._table: Cache[Any, _Family]
        self._table = Cache("plans of steps for sizes", FAMILIES)

    def key(self, key: Sequence[Any], look: Look) -> Open | None:
        """The key of the plans of a family, and the extents of a graph."""
        opened = family_of(look)
        if opened is None or not opened[1]:
            return None
        rest = tuple([x for x in key if x is not look.key])
        return (opened[0], rest), opened[1]

    def is_known(self, opened: Open | None) -> bool:
        """True if others of a graph's family were seen; it is one of them now."""
        if opened is None:
            return False
        known = opened[0] in self._table
        if not known:
            self._table[opened[0]] = _Family()
        return known

    def find(self, opened: Open, look: Look) -> RunPlan | None:
        """A plan for the extents of a graph, by others of its family."""
        family = self._table.get(opened[0])
        return None if family is None else family.at(opened[1], look)

    def note(self, opened: Open, plan: RunPlan, nodes: int) -> None:
        """Remember the plan of a graph of so many nodes."""
        if _is_sized(plan):
            family = self._table.get(opened[0])
            if family is None:
                family = self._table[opened[0]] = _Family()
            family.add(opened[1], plan, nodes)


class _Family:
    """The newest plan of each kind of program, and the extents of graphs and programs.

    Programs of a kind differ in numbers alone.
    """

    def __init__(self) -> None:
        self.plans: Cache[Any, RunPlan] = Cache("plans for kinds of programs", KINDS)
        self.nodes = 0
        self.seen: list[tuple[Extents, Extents]] = []
        self.even = True
        self._last: Any = None  # the program that was resized last
        self._fixed: list[Array] | None = None  # constants that programs are given
        self._rest: Any = None  # the programs after the first
        self._table: IntegerTable | None = None  # of programs by those of graphs

    def add(self, extents: Extents, plan: RunPlan, nodes: int) -> None:
        """Remember a plan; those before it that are not alike are of no use."""
        parts: Sequence[Any] = plan.parts
        part = parts[0]
        pair = extents, part.program.extents
        before = [x for x in self.seen if x[0] != extents]
        if before and len(before[0][1]) != len(pair[1]):
            before = []  # another graph was run beside what was asked for
        self.seen = [*before, pair][-SEEN:]
        self._table = _table(self.seen) if before else None
        fixed = [x for y in parts for x in y.sources if isinstance(x, np.ndarray)]
        rest = [(x.program.variant, x.program.extents) for x in parts[1:]]
        if self._fixed is not None and not _are_same(self._fixed, fixed):
            self.even = False  # numbers that come from sizes, in code nobody sees
        if self._rest is not None and self._rest != rest:
            self.even = False
        self._fixed, self._rest = fixed, rest
        if part.program.variant is not None:
            self._last = part.program
            self.plans[part.program.variant] = plan
            self.nodes = nodes

    def at(self, extents: Extents, look: Look) -> RunPlan | None:
        """The plan for some extents, if it is known which those of its program are."""
        table, last = self._table, self._last
        if table is None or last is None or not self.even:
            return None
        sizes = table(extents)
        program = None if sizes is None else last.resized(tuple(sizes))
        plan = None if program is None else self.plans.get(program.variant)
        if program is None or plan is None:
            return None
        self._last, part = program, cast(Any, plan.parts[0])
        if not _takes(program, part.sources, look):
            return None
        resized = object.__new__(Computed)  # as `replace`, in less time
        resized.__dict__.update(part.__dict__, program=program, runs=0, still=None)
        if part.needs is not None:
            needs = program.needs
            if needs is None:
                return None
            pairs = zip(part.needs, needs, strict=True)
            resized.needs = [(source, extent) for (source, _), (_, extent) in pairs]
        parts: list[Any] = [resized, *plan.parts[1:]]
        still = [x.still for x in parts if x.still is not None]
        new_plan = object.__new__(RunPlan)
        new_plan.__dict__.update(plan.__dict__, parts=parts, small=None, still=still)
        new_plan.__dict__.pop("quick", None)
        values = plan.values
        if values is not None and values.noted is not None:
            new_plan.values = values._replace(noted=None)
            new_plan.once = any(carried for _, _, carried in values.nodes)
        small = small_programs(parts)
        if small and plan.small is not None:
            new_plan.small = native.plan_like(plan.small, small)
        elif small:
            new_plan.small = at_once(new_plan, small, self.nodes)
        return new_plan


def _table(seen: Sequence[tuple[Extents, Extents]]) -> IntegerTable | None:
    """The extents of programs by those of graphs: those that always were equal are one
    symbol, those that never moved are as they were. None where a program's are no
    graph's.
    """
    graphs, programs = (list(zip(*x, strict=True)) for x in zip(*seen, strict=True))
    moves = [x for x in dict.fromkeys(graphs) if len(set(x)) > 1]
    trace = SymbolicTrace([x[-1] for x in moves])
    symbols: dict[Extents, Any] = dict(zip(moves, trace.symbols, strict=True))
    if any(len(set(x)) > 1 and x not in symbols for x in programs):
        return None
    inputs, wanted = (
        [symbols.get(x, x[-1]) for x in columns] for columns in (graphs, programs)
    )
    return compiled(trace, wanted, inputs=inputs)


def _is_sized(plan: RunPlan) -> bool:
    """True if the first program of a plan has the extents of its graph, others come to
    all that is read of it, and nothing is noted."""
    part: Any = plan.parts[0]
    if any(type(x) is not Computed for x in plan.parts):
        return False
    if plan.values is not None and plan.values.more:
        return False
    return bool(getattr(part.program, "extents", ()))


def _are_same(xs: Sequence[Array], ys: Sequence[Array]) -> bool:
    if len(xs) != len(ys):
        return False
    pairs = zip(xs, ys, strict=True)
    return all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in pairs)


def _takes(program: Any, sources: Sequence[Any], look: Look) -> bool:
    """Return True if the arguments of a program have the shapes of what it is given."""
    for source, t in zip(sources, program.types, strict=True):
        if type(source) is int:
            actual = look.nodes[source].type
        elif isinstance(source, Variable):
            actual = source.type
        else:
            continue
        if actual is not t and (actual.shape, actual.dtype) != (t.shape, t.dtype):
            return False
    return True
