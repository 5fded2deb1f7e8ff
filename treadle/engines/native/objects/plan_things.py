"""What the function that follows plans of calls reads, where it lies (`call.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from treadle.base import changes
from treadle.engines.native.objects.interpreter import Interpreter
from treadle.engines.native.objects.layout import known_slots, place_of
from treadle.engines.native.objects.things import (
    Bytes,
    Int,
    Items,
    List,
    Nodes,
    Object,
    Tuple,
)
from treadle.engines.native.routines.memory import Unknown
from treadle.graph import variable

__all__ = [
    "ATTRIBUTE",
    "DATA",
    "ENTRY",
    "FIELD",
    "FORM",
    "GIVEN",
    "HEAD",
    "MORE",
    "RESULTS",
    "STAMP",
    "STATED",
    "STEPS",
    "TRACES",
    "Again",
    "Changes",
    "Code",
    "Own",
    "Term",
    "Variable",
    "Written",
]

# The numbers that a plan begins with: how many values are arguments, and are read from
# elsewhere, how many steps, the form of the results, how many, whether a trace would be
# another call, how many leaves. The places of results and leaves are behind these, then
# the steps: whether each is closed, how many values it reads, and the places of these.
GIVEN, MORE, STEPS, FORM, RESULTS, TRACES, DATA = range(7)
HEAD = 7
# How something is seen: in a word of its owner, as an attribute, as an entry of a dict,
# behind a stamp, or in a word of what its owner, a context variable, has.
FIELD, ATTRIBUTE, ENTRY, STAMP, STATED = range(5)


class Own(Items):
    """What such a function has as its `self`."""

    api: Interpreter
    plans: Object  # by keys
    latest: List  # key and plan of the last call
    long: Object  # the way of a call that has no plan
    tensor: Object  # the classes of tensors
    item: Object
    library: Object  # files by name: whether they are the library's
    capture: Object  # what looks for the user's line, from how many frames above
    above: Object
    watchers: List
    holding: List
    data: Object  # whether ints are data
    integers: Object  # arrays by ints, what makes one, op and type of their leaves
    integer: Object
    constant: Object
    whole: Object
    empty: Nodes
    changes: Changes


class Written(Items):
    """A plan, as it is followed."""

    numbers: Bytes
    holds: Object
    variables: Tuple
    captured: Tuple
    ops: Tuple
    types: Tuple
    things: Object
    seen: Tuple


class Term(Items):
    """What a plan has seen: how, of which owner, where, and what it was."""

    way: Int
    owner: Object
    place: Object
    value: Object


class Changes(Object):
    """A stamp that moves."""

    now: Object

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return known_slots(changes.Changes, "now")


class Again(Object):
    """A check that holds from one stamp to the next."""

    seen: Object

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return known_slots(changes.Again, "seen")


class Variable(Object):
    """A Variable."""

    committed: Object

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return known_slots(variable.Variable, "committed")


class Code(Object):
    """The code of a function of Python."""

    filename: Object

    @classmethod
    def places(cls) -> Mapping[str, int]:
        code = known_slots.__code__
        place = place_of(code, id(code.co_filename))
        if place is None:
            raise Unknown
        return {"filename": place}
