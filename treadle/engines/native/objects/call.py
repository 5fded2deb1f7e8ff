"""Plans of calls (`graph/calls.py`) followed in machine code.

A function that is `Called` gets a built-in one in its place: it puts the signature of a
call together, looks its plan up, asks whether that holds, finds the user's line and
makes the nodes. All other calls take the long way.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from types import CellType, FunctionType
from typing import Any

from treadle.base.changes import Again, Changes, changes
from treadle.engines.native.objects.fresh import FRESH
from treadle.engines.native.objects.interpreter import (
    KEYWORDS,
    addresses,
    bound_to_threads,
    builtin,
    method,
    numbers,
)
from treadle.engines.native.objects.layout import offsets, place_of, slots
from treadle.engines.native.objects.plan_key import SIGNATURE
from treadle.engines.native.objects.plan_nodes import CALL, NODES
from treadle.engines.native.objects.plan_site import HOLDS, SITE
from treadle.engines.native.objects.text import loaded
from treadle.graph import calls
from treadle.graph.calls import Called, Plan, Seen
from treadle.graph.leaves import CONSTANT, INTEGER, integer_array, integers
from treadle.graph.origin import capture, holding, library
from treadle.graph.tensor import Tensor, watchers
from treadle.graph.thread import Frame, ThreadState
from treadle.graph.variable import Variable, VariableItem

__all__ = ["provide_calls"]

# `self` of such a function is a tuple of these,
_OWN = (
    "api",
    "plans",
    "latest",
    "long",
    "class",
    "item",
    "library",
    "capture",
    "above",
    "watchers",
    "holding",
    "data",
    "integers",
    "integer",
    "constant",
    "whole",
    "empty",
    "changes",
)
# a plan one of these.
_PLAN = ("numbers", "holds", "variables", "captured", "ops", "types", "things", "seen")
# How something is seen: in a word of its owner, as an attribute, as one of an attribute
# (nested), as an entry of a dict, behind a stamp, or in a word of the thread's state.
_SEEN = {"FIELD": 0, "ATTRIBUTE": 1, "NESTED": 2, "ENTRY": 3, "STAMP": 4, "STATED": 5}
# The fields that are read, by classes.
_READ: dict[type, tuple[str, ...]] = {
    Changes: ("now",),
    Again: ("seen",),
    ThreadState: ("notes", "frames"),
    Frame: ("tracing", "versions"),
    Variable: ("committed",),
}
_HEAD = 7  # numbers of a plan before the places of its results
_TEXT = SIGNATURE + HOLDS + SITE + NODES + CALL


def provide_calls() -> None:
    """Let plans be followed by machine code from here on."""
    code = _code()
    if code is None:
        return

    def made(known: Called, long: Callable[..., Any]) -> Callable[..., Any]:
        own = _own(known, long)
        return builtin("call", code, own, KEYWORDS)

    calls.follow(made, _written, method)


@cache
def _code() -> int | None:
    """The function; None where things do not lie as it expects."""
    fields, filename = offsets(), _filename()
    read = [slots(kind, names) for kind, names in _READ.items()]
    if fields is None or filename is None or None in read or not bound_to_threads():
        return None
    known = {**numbers(), **_SEEN, "FILENAME": filename, "HEAD": _HEAD}
    for own in read:
        known |= own or {}
    known |= {f"own_{name}": k for k, name in enumerate(_OWN)}
    known |= {f"plan_{name}": k for k, name in enumerate(_PLAN)}
    known |= {"TENSOR": calls.TENSOR, "TUPLE_ARG": calls.TUPLE, "LIST_ARG": calls.LIST}
    known |= {"NUMBER": calls.NUMBER, "SAME": calls.SAME}
    known |= {"OTHER": calls.OTHER, "LONGEST": calls.LONGEST}
    known["ROOM"] = calls.LONGEST + 2
    return loaded("treadle_call", FRESH + _TEXT, fields, **known)


def _own(known: Called, long: Callable[..., Any]) -> tuple[Any, ...]:
    """What a function knows, in the order of `_OWN`."""
    found = {
        "api": addresses(),
        "plans": known.plans,
        "latest": known.latest,
        "long": long,
        "class": Tensor,
        "item": VariableItem,
        "library": library,
        "capture": capture,
        "above": 1,  # frames, from where `capture` looks
        "watchers": watchers,
        "holding": holding,
        "data": known.data,
        "integers": integers,
        "integer": integer_array,
        "constant": CONSTANT,
        "whole": INTEGER,
        "empty": (),
        "changes": changes,
    }
    return tuple(found.get(name, sys.intern(name)) for name in _OWN)


def _written(plan: Plan) -> tuple[Any, ...]:
    """A plan in the order of `_PLAN`."""
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
    known = {
        "numbers": bytes((ctypes.c_int64 * len(found))(*found)),
        "holds": plan.holds,
        "variables": plan.variables,
        "captured": plan.captured,
        "ops": tuple(step.op for step in plan.steps),
        "types": tuple(step.type for step in plan.steps),
        "things": plan.things,
        "seen": tuple(map(_place_of, plan.seen)),
    }
    return tuple(known[name] for name in _PLAN)


def _place_of(seen: Seen) -> tuple[int, object, object, object]:
    """How something is seen, of which owner, where, and what it is."""
    owner, names, value = seen.owner, seen.names, seen.value
    if seen.kind == calls.STAMP:
        return _SEEN["STAMP"], owner, None, None
    if seen.kind == calls.ITEM:
        return _SEEN["ENTRY"], owner, names[0], value
    if seen.kind == calls.THREAD:
        (field,) = names[1:]
        places = slots(ThreadState, [field]) or {}
        return _SEEN["STATED"], owner, places[field], value
    if len(names) > 1:
        return _SEEN["NESTED"], owner, names, value
    if type(owner) in (CellType, FunctionType):  # they keep these in a word each
        word = place_of(owner, id(value))
        if word is not None:
            return _SEEN["FIELD"], owner, word, value
    return _SEEN["ATTRIBUTE"], owner, names[0], value


def _filename() -> int | None:
    """The byte of a code object where it refers to the name of its file."""
    code = provide_calls.__code__
    return place_of(code, id(code.co_filename))
