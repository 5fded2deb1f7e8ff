"""Plans of calls (`graph/calls.py`) followed in machine code.

A function that is `Called` gets a built-in one in its place: it puts the signature of a
call together, looks its plan up, asks whether that holds, finds the user's line and
makes the nodes. All other calls take the long way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from types import CellType, FunctionType
from typing import Any

from treadle.base.changes import changes
from treadle.base.options import Modes
from treadle.base.routine import routine
from treadle.engines.native.jit import Address
from treadle.engines.native.objects.interpreter import (
    KEYWORDS,
    addresses,
    bound_to_threads,
    builtin,
    method,
)
from treadle.engines.native.objects.layout import WORD, place_of, slots
from treadle.engines.native.objects.plan_key import ROOM, planned
from treadle.engines.native.objects.plan_nodes import followed
from treadle.engines.native.objects.plan_site import NO, YES, allowed
from treadle.engines.native.objects.plan_things import (
    ATTRIBUTE,
    ENTRY,
    FIELD,
    STAMP,
    STATED,
    Own,
    Term,
    Written,
)
from treadle.engines.native.objects.things import Object
from treadle.engines.native.routines.compiled import code
from treadle.engines.native.routines.memory import Array, pointers
from treadle.graph import calls
from treadle.graph.calls import Called, Plan, Seen
from treadle.graph.leaves import CONSTANT, INTEGER, integer_array, integers
from treadle.graph.origin import capture, holding, library
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.variable import VariableItem

__all__ = ["provide_calls"]


@routine
def call(own: Own, args: Array[Object], given: int, names: Object) -> Object | None:
    """call(*args, **kwargs) of a function that has plans."""
    api = own.api
    if names is not None:
        return api.vector(own.long, args, given, names)
    values = pointers(ROOM)
    plan = planned(own, args, given, values)
    if plan is None:
        if api.occurred() is not None:
            return None
        return api.vector(own.long, args, given, names)
    answer = allowed(own, plan)
    result: Object | None = None
    if answer == YES:
        result = followed(own, plan, values)
    api.decref(plan)
    if answer == NO:
        return api.vector(own.long, args, given, names)
    return result


def provide_calls() -> None:
    """Let plans be followed by machine code from here on."""
    place = _code()
    if place is None:
        return

    def made(known: Called, long: Callable[..., Any]) -> Callable[..., Any]:
        return builtin("call", place, _own(known, long), KEYWORDS)

    calls.follow(made, _written, method)


@cache
def _code() -> Address | None:
    """The function; None where things do not lie as it expects."""
    return code(call) if bound_to_threads() else None


def _own(known: Called, long: Callable[..., Any]) -> tuple[Any, ...]:
    """What a function knows."""
    return Own.of(
        api=addresses(),
        plans=known.plans,
        latest=known.latest,
        long=long,
        tensor=Tensor,
        item=VariableItem,
        library=library,
        capture=capture,
        above=1,
        watchers=watchers,
        holding=holding,
        data=known.data,
        integers=integers,
        integer=integer_array,
        constant=CONSTANT,
        whole=INTEGER,
        empty=(),
        changes=changes,
    )


def _written(plan: Plan) -> tuple[Any, ...]:
    """A plan, as it is followed."""
    found = [
        plan.given,
        len(plan.variables) + len(plan.captured),
        len(plan.steps),
        plan.form,
        len(plan.results),
        bool(plan.seen or plan.holds or plan.variables),  # whether a trace is another
        len(plan.data),
        *plan.results,
        *plan.data,
    ]
    for step in plan.steps:
        found += [step.op.closed, len(step.places), *step.places]
    return Written.of(
        numbers=bytes((ctypes.c_int64 * len(found))(*found)),
        holds=plan.holds,
        variables=plan.variables,
        captured=plan.captured,
        ops=tuple(step.op for step in plan.steps),
        types=tuple(step.type for step in plan.steps),
        things=plan.things,
        seen=tuple(map(_term, plan.seen)),
    )


def _term(seen: Seen) -> tuple[Any, ...]:
    way, place = _place_of(seen)
    return Term.of(way=way, owner=seen.owner, place=place, value=seen.value)


def _place_of(seen: Seen) -> tuple[int, object]:
    """How something is seen, and where."""
    owner, name, value = seen.owner, seen.name, seen.value
    if seen.kind == calls.STAMP:
        return STAMP, None
    if seen.kind == calls.ITEM:
        return ENTRY, name
    if seen.kind == calls.MODE:
        places = slots(Modes, [name]) or {}
        return STATED, places[name] // WORD
    if type(owner) in (CellType, FunctionType):  # they keep these in a word each
        place = place_of(owner, id(value))
        if place is not None:
            return FIELD, place // WORD
    return ATTRIBUTE, name
