"""Which plan a call has, by its signature (`call.py`)."""

from __future__ import annotations

from typing import cast

from treadle.base.routine import Numbers, room, routine
from treadle.engines.native.objects.interpreter import Interpreter, keep
from treadle.engines.native.objects.plan_things import Own, Written
from treadle.engines.native.objects.things import Bytes, List, Node, Object, Tuple
from treadle.engines.native.routines.memory import Array, address, behind
from treadle.graph.calls import LIST, LONGEST, NUMBER, OTHER, SAME, TENSOR, TUPLE

__all__ = ["ROOM", "planned"]

WORD = 8
ROOM = LONGEST + 2  # for a key, and for values


@routine
def planned(
    own: Own, args: Array[Object], count: int, values: Array[Object]
) -> Written | None:
    """The plan of a call, a reference, with the tensors and the data among its
    arguments put down; null if there is none, or the interpreter has raised something.
    """
    key = room(ROOM)
    length = _sign(own, args, count, key, values)
    if length < 0:
        return None
    latest = own.latest.items
    if _equal(cast(Bytes, latest[0]), key, length):
        return cast(Written, keep(own.api, latest[1]))
    return cast(Written, _looked_up(own, latest, key, length))


@routine
def _looked_up(
    own: Own, latest: Array[Object], key: Numbers, length: int
) -> Object | None:
    """The plan of a key, as `planned` says, which is the latest from here on."""
    api = own.api
    made = api.makebytes(key, WORD * length)
    if made is None:
        return None
    plan = api.getitem(own.plans, made)
    if plan is None:
        api.decref(made)
        return None
    api.incref(plan)
    last, before = latest[0], latest[1]
    latest[0], latest[1] = made, keep(api, plan)
    api.decref(last)
    api.decref(before)
    return plan


@routine
def _equal(held: Bytes, key: Numbers, length: int) -> bool:
    """Whether bytes are these numbers."""
    if held.size != WORD * length:
        return False
    k = 0
    while k < length and held.words[k] == key[k]:
        k += 1
    return k == length


@routine
def _sign(
    own: Own, args: Array[Object], count: int, key: Numbers, values: Array[Object]
) -> int:
    """Tell the arguments of a call in a key, the items of tuples and lists included;
    how many numbers these are, or -1 if they are too many.
    """
    api = own.api
    n, seen = 0, 0
    for k in range(count):
        x = args[k]
        things, many = behind(args, k), 1
        if x.kind is api.tupletype or x.kind is api.listtype:
            if n >= LONGEST:
                return -1
            things, many = _parts(api, x), cast(Tuple, x).size
            key[n] = TUPLE if x.kind is api.tupletype else LIST
            key[n + 1] = many
            n += 2
        n, seen = _tell(own, things, many, key, n, values, seen)
        if n < 0:
            return -1
    return n


@routine
def _parts(api: Interpreter, x: Object) -> Array[Object]:
    """The items of a tuple or a list."""
    if x.kind is api.tupletype:
        return cast(Tuple, x).items
    return cast(List, x).items


@routine
def _tell(
    own: Own,
    things: Array[Object],
    count: int,
    key: Numbers,
    n: int,
    values: Array[Object],
    seen: int,
) -> tuple[int, int]:
    """Tell some arguments in a key, from number n on, and put down the tensors and the
    data among them behind those that were seen; how many numbers there are then, -1 if
    too many, and how many were seen.
    """
    ints, data = own.api.inttype, own.data is own.api.true
    for k in range(count):
        if n >= LONGEST:
            return -1, seen
        x = things[k]
        if x.kind is own.tensor or x.kind is own.item:
            first = _first(values, seen, x)
            key[n] = TENSOR if first == seen else SAME
            key[n + 1] = address(cast(Node, x).type) if first == seen else first
            values[seen] = x
            seen += 1
        elif x.kind is ints and data:
            key[n], key[n + 1] = NUMBER, 0
            values[seen] = x
            seen += 1
        else:
            key[n], key[n + 1] = OTHER, address(x)
        n += 2
    return n, seen


@routine
def _first(values: Array[Object], count: int, x: Object) -> int:
    """The place of a value among so many; their count if it is not there."""
    for k in range(count):
        if values[k] is x:
            return k
    return count
