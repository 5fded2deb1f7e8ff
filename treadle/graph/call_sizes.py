"""Plans of recorded calls for sizes never seen.

Calls that differ in extents alone are a family, as graphs are (`extents.py`). Where
several sizes came, the function is called once more with symbolic ones, and what it
makes then is a plan for all sizes that its guards admit.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import Any

from treadle.base.caches import Cache
from treadle.base.symbolic import LEAST
from treadle.base.symbolic.variants import Extents, Variants, alike, opened
from treadle.base.types import Type
from treadle.graph.calls import NodePlan, kept_of, written_plan, written_steps
from treadle.graph.extents import is_extent, without
from treadle.graph.frame import tracing
from treadle.graph.instantiate import Polymorphic, Unsized
from treadle.graph.leaves import Argument
from treadle.graph.origin import held
from treadle.graph.signature import NO_THING, TENSOR, WHOLE, kinds_of
from treadle.graph.tensor import Tensor, remade

FAMILIES = 4096
SURE = 4  # sizes without a plan, and one for more is made
VARIANTS = 8
ARGUMENT = Argument()

# By the function, and how its call is told without extents.
_families: Cache[Any, CallFamily] = Cache("plans of calls for sizes", FAMILIES)


class CallFamily:
    """The extents of calls of one form, and plans for more of them."""

    def __init__(self, things: Any) -> None:
        self.things = things  # that its key tells by identity
        self.seen: list[Extents] = []
        self.variants: Variants[_Variant] = Variants(VARIANTS)

    def plan(self, extents: Extents, things: Sequence[Any]) -> Any:
        """The plan of a call of such things, with some extents, as the core has it."""
        if not self.variants.all:
            return None
        kept = kept_of(things)
        return self.variants.find(lambda v: v.at(extents, kept))

    def due(self, extents: Extents) -> list[Extents] | None:
        """The sizes that had no plan, if a plan for more of them is worth its time."""
        seen = [*self.seen, extents]
        is_due = len(seen) >= SURE
        self.seen = [] if is_due else seen
        return seen if is_due else None

    def learn(
        self,
        seen: Sequence[Extents],
        plan: NodePlan,
        call: Callable[..., NodePlan | None],
    ) -> None:
        """Make a plan for more than these sizes; `plan` is that for the last one, and
        `call` makes one with other extents."""
        make = partial(_Variant, seen, plan, call)
        self.variants.add(make, lambda v: v.at(seen[-1], plan.things))


class _Variant:
    """A plan for all sizes that its guards admit."""

    def __init__(
        self,
        seen: Sequence[Extents],
        plan: NodePlan,
        call: Callable[..., NodePlan | None],
    ) -> None:
        """Raises Unsized where it is not `plan` for the last extents."""
        trace, inputs = opened(seen[-1], *alike(seen))
        try:
            with tracing("other extents"), held():
                traced = call(inputs)
                if traced is None:
                    raise Unsized
            parts = written_steps(traced), _arrays(traced.leaves)
            self.sized, self.plan = Polymorphic(trace, inputs, *parts), plan
        finally:
            trace.open = False
        wanted, again = (
            (written_steps(plan), _arrays(plan.leaves)),
            self.sized.at(seen[-1]),
        )
        if again is None or _contents(traced, *again) != _contents(plan, *wanted):
            raise Unsized

    def at(self, extents: Extents, things: Any) -> Any:
        """The plan for some extents, if it is one for them."""
        parts = self.sized.at(extents)
        if parts is None:
            return None
        steps, arrays = parts
        leaves = tuple(map(_leaf, self.plan.leaves, arrays)) if arrays else ()
        return written_plan(self.plan, steps, leaves, things)


def _arrays(leaves: Sequence[Tensor]) -> tuple[Any, ...]:
    return tuple([(x.type, x.stored) for x in leaves])


def _leaf(like: Tensor, parts: tuple[Type, Any]) -> Tensor:
    leaf = remade(like, like.op, (), parts[0])
    leaf.stored = parts[1]
    return leaf


def _contents(plan: NodePlan, steps: Any, leaves: Any) -> Any:
    """All that a plan makes of such steps and leaves."""
    bits = [(t, x.dtype, x.tobytes()) for t, x in leaves]
    return replace(plan, steps=(), leaves=(), things=()), steps, bits


def family_of_call(
    function: Any, key: bytes, things: Sequence[Any]
) -> tuple[CallFamily, Extents] | None:
    """The family of a call and its extents; None where there is none."""
    parts: list[Any] = [function]
    extents: list[int] = []
    words, rest = iter(array("q", key)), iter(things)
    for kind, value in zip(words, words, strict=True):
        part: Any = value
        if kind not in NO_THING:
            x = next(rest)
            if kind == TENSOR:
                if type(x) is not Tensor:
                    return None
                t = x.type
                sized = [type(n) is int and n >= LEAST for n in t.shape]
                extents += compress(t.shape, sized)
                part = [None if y else n for y, n in zip(sized, t.shape, strict=True)]
                part = *part, t.dtype, t.axes
            elif kind == WHOLE:
                part = without(value, extents)
        parts += kind, part
    if not extents:
        return None
    whole = tuple(parts)
    family = _families.get(whole)
    if family is None:
        family = _families[whole] = CallFamily(kept_of(things))
    return family, tuple(extents)


def with_extents(
    things: Sequence[Any], key: bytes, extents: Sequence[Any]
) -> list[Any]:
    """The arguments of a call, those in tuples one by one, with other extents."""
    numbers = iter(extents)
    others: dict[int, Tensor] = {}

    def other(x: Any, kind: int) -> Any:
        if kind == WHOLE:
            return next(numbers) if is_extent(x) else x
        if kind == TENSOR:
            t = x.type
            shape = tuple([next(numbers) if is_extent(n) else n for n in t.shape])
            others[id(x)] = Tensor(ARGUMENT, (), Type(shape, t.dtype, t.axes))
        return others.get(id(x), x)

    return [other(x, kind) for x, kind in zip(things, kinds_of(key), strict=True)]


def nested(parts: Iterator[Any], like: Any) -> Any:
    """Arguments in the tuples and lists that these are in."""
    if type(like) in (tuple, list):
        return type(like)([next(parts) for _ in like])
    return next(parts)
