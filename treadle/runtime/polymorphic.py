"""Shape polymorphism of plans: graphs that differ in extents alone share one.

Of such graphs the plans differ in the program, and so does that in numbers alone
(`engines/native/translation/families.py`). Two that are alike but for it tell which
extents of the program are which of the graph; the plan of a third is that of the second
with another program.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, cast

import numpy as np

from treadle.base.arrays import Array
from treadle.base.caches import Cache
from treadle.base.symbolic import IntegerTable, SymbolicTrace, compiled
from treadle.core import native
from treadle.graph.extents import LARGE, Open, family_of
from treadle.graph.look import Look
from treadle.graph.variable import Variable
from treadle.runtime.at_once import at_once
from treadle.runtime.plan_parts import Computed, small_programs
from treadle.runtime.steps import RunPlan

FAMILIES = 64  # of one caller
SEEN = 8  # graphs of a family
KINDS = 24  # of programs of a family
SURE = 3  # graphs that tell that an extent is a multiple of another one

Extents = tuple[int, ...]
_Constants = list[tuple[Array, Extents]]  # with the numbers in each


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
        self.plans: Cache[Any, tuple[RunPlan, _Constants]]
        self.plans = Cache("plans for kinds of programs", KINDS)
        self.nodes = 0
        self.seen: list[tuple[Extents, Extents]] = []
        self.even = True
        self._last: Any = None  # the program that was resized last
        self._fixed: list[Any] | None = None  # constants that programs are given
        self._rest: Any = None  # the programs after the first
        self._table: IntegerTable | None = None  # of programs by those of graphs

    def add(self, extents: Extents, plan: RunPlan, nodes: int) -> None:
        """Remember a plan; those before it that are not alike are of no use."""
        parts: Sequence[Any] = plan.parts
        part = parts[0]
        forms = [_form(x) for x in _arrays(part.sources)]
        numbers = [n for _, sizes in forms for n in sizes]
        pair = extents, (*part.program.extents, *numbers)
        before = [x for x in self.seen if x[0] != extents]
        if before and len(before[0][1]) != len(pair[1]):
            before = []  # another graph was run beside what was asked for
        self.seen = [*before, pair][-SEEN:]
        self._table = _table(self.seen) if before else None
        fixed = [x for x, _ in forms]
        fixed += [_bits(x) for y in parts[1:] for x in _arrays(y.sources)]
        rest = [(x.program.variant, x.program.extents) for x in parts[1:]]
        if self._fixed is not None and self._fixed != fixed:
            self.even = False  # numbers that come from sizes, in code nobody sees
        if self._rest is not None and self._rest != rest:
            self.even = False
        self._fixed, self._rest = fixed, rest
        if part.program.variant is not None:
            self._last = part.program
            sizes = [numbers for _, numbers in forms]
            constants = list(zip(_arrays(part.sources), sizes, strict=True))
            self.plans[part.program.variant] = plan, constants
            self.nodes = nodes

    def at(self, extents: Extents, look: Look) -> RunPlan | None:
        """The plan for some extents, if it is known which those of its program are."""
        table, last = self._table, self._last
        if table is None or last is None or not self.even:
            return None
        sizes, count = table(extents), len(last.extents)
        if sizes is None:
            return None
        program = last.resized(tuple(sizes[:count]))
        known = None if program is None else self.plans.get(program.variant)
        if program is None or known is None:
            return None
        plan = known[0]
        self._last, part = program, cast(Any, plan.parts[0])
        if not _takes(program, part.sources, look):
            return None
        resized = object.__new__(Computed)  # as `replace`, in less time
        resized.__dict__.update(part.__dict__, program=program, runs=0, still=None)
        constants = _resized(known[1], sizes[count:])
        if constants:
            resized.sources = _replaced(part.sources, constants)
            if part.moved is not None:
                resized.moved = copy(part.moved)
                resized.moved.rest = _replaced(part.moved.rest, constants)
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
        if small and plan.small is not None and not constants:
            new_plan.small = native.plan_like(plan.small, small)
        elif small:
            new_plan.small = at_once(new_plan, small, self.nodes)
        return new_plan


def _table(seen: Sequence[tuple[Extents, Extents]]) -> IntegerTable | None:
    """The extents of programs by those of graphs: those that always were equal are one
    symbol, those that never moved are as they were. None where a program's are no
    graph's, nor so many times one in three graphs.
    """
    graphs, programs = (list(zip(*x, strict=True)) for x in zip(*seen, strict=True))
    moves = [x for x in dict.fromkeys(graphs) if len(set(x)) > 1]
    trace = SymbolicTrace([x[-1] for x in moves])
    symbols: dict[Extents, Any] = dict(zip(moves, trace.symbols, strict=True))
    for x in programs:
        if len(set(x)) == 1 or x in symbols:
            continue
        of = next((y for y in moves if y[-1] and _is_multiple(x, y)), None)
        if of is None or len(seen) < SURE:
            return None
        symbols[x] = x[-1] // of[-1] * symbols[of]
    inputs, wanted = (
        [symbols.get(x, x[-1]) for x in columns] for columns in (graphs, programs)
    )
    return compiled(trace, wanted, inputs=inputs)


def _is_multiple(xs: Extents, ys: Extents) -> bool:
    """True if x is always so many times y."""
    times = xs[-1] // ys[-1]
    return xs == tuple([times * y for y in ys])


def _is_sized(plan: RunPlan) -> bool:
    """True if the first program of a plan has the extents of its graph, others come to
    all that is read of it, and nothing is noted."""
    part: Any = plan.parts[0]
    if any(type(x) is not Computed for x in plan.parts):
        return False
    if plan.values is not None and plan.values.more:
        return False
    return bool(getattr(part.program, "extents", ()))


def _arrays(sources: Sequence[Any]) -> list[Array]:
    return [x for x in sources if isinstance(x, np.ndarray)]


def _form(array: Array) -> tuple[Any, Extents]:
    """A constant without numbers that may come from sizes, and these: the extents of
    one that has a single whole number everywhere, and that number."""
    one = array.reshape(-1)[:1]
    if array.dtype.kind not in "fiu" or not (array == one).all():
        return _bits(array), ()
    number = float(one[0]) if array.size else 0.0
    if not (number.is_integer() and abs(number) < LARGE):
        return _bits(array), ()
    return (array.dtype, array.ndim), (*array.shape, int(number))


def _bits(array: Array) -> Any:
    return array.dtype, array.shape, array.tobytes()


def _resized(constants: _Constants, numbers: Sequence[int]) -> dict[int, Array]:
    """Those in the place of constants whose numbers are others now, by identities of
    the latter."""
    new, at = dict[int, Array](), 0
    for x, before in constants:
        now = tuple(numbers[at : at + len(before)])
        at += len(before)
        if now != before:
            new[id(x)] = np.full(now[:-1], now[-1], x.dtype)
            new[id(x)].setflags(write=False)
    return new


def _replaced(sources: Sequence[Any], constants: dict[int, Array]) -> list[Any]:
    return [constants.get(id(x), x) for x in sources]


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
