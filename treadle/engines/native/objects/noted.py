"""Calls of what has notes of its own (`graph/noted.py`), entered in machine code.

A layer is called for each word of each sentence: in Python entering it takes as long
as the look-up of a row does that it then asks for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

from treadle.base.routine import routine
from treadle.engines.native.objects.interpreter import (
    KEYWORDS,
    Interpreter,
    addresses,
    bound_to_threads,
    builtin,
    keep,
    method,
    own_state,
)
from treadle.engines.native.objects.things import Items, Object, State, Tuple
from treadle.engines.native.routines.compiled import code
from treadle.engines.native.routines.memory import Array, pointers
from treadle.graph.noted import quicken

__all__ = ["provide_noted"]


class Own(Items):
    """What the method has as its `self`: the interpreter's functions, the method in
    Python, and the names of attributes.
    """

    api: Interpreter
    long: Object
    notes: Object
    path: Object
    forward: Object


@routine
def call(own: Own, args: Array[Object], given: int, names: Object) -> Object | None:
    """method(object, *args, **kwargs)"""
    api = own.api
    if given == 0:
        return _long(own, args, given, names)
    state = cast(State, own_state(api))
    if state is None:
        return _long(own, args, given, names)
    before = keep(api, state.notes)
    known = _known(own, args[0], before)
    if known is None:
        api.decref(before)
        return _long(own, args, given, names)
    result = _inside(own, known.items[2], before, args, given, names)
    api.decref(known)
    api.decref(before)
    return result


@routine
def _long(own: Own, args: Array[Object], given: int, names: Object) -> Object:
    """Leave a call to Python, which raises again what was raised."""
    own.api.clear()
    return own.api.vector(own.long, args, given, names)


@routine
def _known(own: Own, x: Object, before: Object) -> Tuple | None:
    """What an object keeps of its notes, a reference; null if they are not known here,
    or the interpreter has raised something.
    """
    api = own.api
    found = cast(Tuple, api.getattr(x, own.notes))
    if found is None:
        return None
    if _holds(own, x, before, found):
        return found
    api.decref(found)
    return None


@routine
def _holds(own: Own, x: Object, before: Object, found: Tuple) -> bool:
    """Whether what an object keeps of its notes is for these around and its path."""
    api = own.api
    if found.kind is not api.tupletype or found.size != 3:
        return False
    path = api.getattr(x, own.path)
    if path is None:
        return False
    api.decref(path)
    return found.items[0] is before and found.items[1] is path


@routine
def _inside(
    own: Own,
    notes: Object,
    before: Object,
    args: Array[Object],
    given: int,
    names: Object,
) -> Object | None:
    """Call `forward` with notes, then have those from before, whatever was raised
    meanwhile.
    """
    api = own.api
    if not _carry(api, notes):
        return None
    result = api.method(own.forward, args, given, names)
    if result is None:
        _carry_raising(api, before)
        return None
    if not _carry(api, before):
        api.decref(result)
        return None
    return result


@routine
def _carry(api: Interpreter, notes: Object) -> bool:
    """Set the notes of new nodes; whether that could be done."""
    state = cast(State, own_state(api))
    if state is None:
        return False
    _exchange(api, state, notes)
    return True


@routine
def _exchange(api: Interpreter, state: State, notes: Object) -> None:
    before = state.notes
    state.notes = keep(api, notes)
    api.decref(before)


@routine
def _carry_raising(api: Interpreter, notes: Object) -> None:
    """Set the notes of new nodes while something is raised, and stays so."""
    kind, error, trace = pointers(1), pointers(1), pointers(1)
    api.fetch(kind, error, trace)
    if not _carry(api, notes):
        api.clear()
    api.restore(kind[0], error[0], trace[0])


def provide_noted() -> None:
    """Let such calls be entered by machine code from here on."""
    place = code(call) if bound_to_threads() else None
    if place is None:
        return

    def made(long: Callable[..., Any]) -> Any:
        notes, path, forward = map(sys.intern, ("_notes", "_path", "forward"))
        own = Own.of(
            api=addresses(), long=long, notes=notes, path=path, forward=forward
        )
        return method(builtin("__call__", place, own, KEYWORDS))

    quicken(made)
