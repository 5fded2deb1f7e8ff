"""Whether a call may follow its plan, and where the user's line is (`call.py`)."""

from __future__ import annotations

from typing import cast

from treadle.base.routine import routine
from treadle.engines.native.objects.interpreter import Interpreter, keep, own_state
from treadle.engines.native.objects.plan_things import (
    ENTRY,
    FIELD,
    STAMP,
    STATED,
    TRACES,
    Again,
    Code,
    Own,
    Term,
    Written,
)
from treadle.engines.native.objects.things import Int, Object, State, Tuple, number
from treadle.engines.native.routines.memory import Array, pointers

__all__ = ["CODE", "NO", "OFFSET", "YES", "allowed", "located"]

NO, YES, RAISED = range(3)  # answers
CODE, OFFSET = range(2)  # where a line is


@routine
def allowed(own: Own, plan: Written) -> int:
    """Whether a call may follow its plan here and now."""
    if own.watchers.size or own.holding.size:
        return NO
    if plan.numbers.words[TRACES]:
        state = own_state(own.api)
        if state is None:
            return RAISED
        if not _outside(own.api, cast(State, state)):
            return NO
    for k in range(plan.seen.size):
        answer = _holds(own, cast(Term, plan.seen.items[k]))
        if answer != YES:
            return answer
    if plan.holds is own.api.none:
        return YES
    return _says(own.api, plan.holds)


@routine
def _outside(api: Interpreter, state: State) -> bool:
    """Whether a thread is in no trace, and has assigned nothing that waits."""
    frame = state.frames.items[state.frames.size - 1]
    return frame.tracing is api.false and frame.versions.size == 0


@routine
def _says(api: Interpreter, what: Object) -> int:
    """Whether something that is called without arguments says True."""
    said = api.noargs(what)
    if said is None:
        return RAISED
    api.decref(said)
    return int(said is api.true)


@routine
def _holds(own: Own, term: Term) -> int:
    """Whether something that a plan has seen is there."""
    way = number(term.way)
    if way == STAMP:
        return _unchanged(own, cast(Again, term.owner))
    if way == FIELD:
        return int(_word(term.owner, term.place) is term.value)
    if way == STATED:
        return _stated(own.api, term)
    return int(_asked(own.api, term, way) is term.value)


@routine
def _unchanged(own: Own, check: Again) -> int:
    if own.changes.now is check.seen:
        return YES
    return _says(own.api, check)


@routine
def _word(x: Object, k: Object) -> Object:
    """What a word of an object refers to."""
    return cast(Array[Object], x)[number(cast(Int, k))]


@routine
def _asked(api: Interpreter, term: Term, way: int) -> Object | None:
    """What an owner says is there, only to be compared; null if nothing is."""
    found: Object | None
    if way == ENTRY:
        found = api.getitem(term.owner, term.place)
    else:
        found = api.getattr(term.owner, term.place)
    if found is None:
        api.clear()
        return None
    if way != ENTRY:
        # What it is compared with is alive, so it is not another at the same address.
        api.decref(found)
    return found


@routine
def _stated(api: Interpreter, term: Term) -> int:
    """Whether a word of what a context variable has is as it was."""
    default: Object | None = None  # its own
    found = pointers(1)
    if int(api.contextget(term.owner, default, found)) != 0:
        return RAISED
    answer = int(_word(found[0], term.place) is term.value)
    api.decref(found[0])
    return answer


# -- the user's line -------------------------------------------------------------------


@routine
def located(own: Own, site: Array[Object]) -> bool:
    """Put down code and offset of the user's call, a reference to each; whether that
    could be done.
    """
    api = own.api
    frame = _calling(own, site)
    if frame is None:
        return _captured(own, site)
    place = int(api.lasti(frame))
    api.decref(frame)
    site[OFFSET] = api.long(place)
    if site[OFFSET] is None:
        api.decref(site[CODE])
        return False
    return True


@routine
def _calling(own: Own, site: Array[Object]) -> Object | None:
    """The innermost frame that is not the library's, a reference, whose code is put
    down with one; null where it takes more to find.
    """
    api = own.api
    frame: Object | None = api.frame()
    if frame is not None:
        api.incref(frame)
    while frame is not None:
        code = api.code(frame)
        ours = api.getitem(own.library, cast(Code, code).filename)
        if ours is api.false:
            site[CODE] = code
            return frame
        api.decref(code)
        if ours is not api.true:
            api.decref(frame)
            return None
        back = api.back(frame)
        api.decref(frame)
        frame = back
    return None


@routine
def _captured(own: Own, site: Array[Object]) -> bool:
    """As `located`, by a function in Python."""
    api = own.api
    pair = cast(Tuple, api.onearg(own.capture, own.above))
    if pair is None:
        return False
    site[CODE] = keep(api, pair.items[0])
    site[OFFSET] = keep(api, pair.items[1])
    api.decref(pair)
    return True
