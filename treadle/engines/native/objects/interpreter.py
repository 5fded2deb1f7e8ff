"""The interpreter's own functions, for machine code to call.

Routines that work on objects are given bytes with the addresses of these functions, as
their `self` or as an argument, and read them as an `Interpreter`.
"""

from __future__ import annotations

import _thread
import ctypes
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from treadle.base.routine import Numbers, routine
from treadle.engines.native.objects.layout import BYTES, WORD
from treadle.engines.native.objects.things import Bytes, Int, List, Object, Tuple
from treadle.engines.native.routines.memory import Array, CInt, Struct
from treadle.graph.serials import next_serial, warn_if_growing
from treadle.graph.thread import local, thread_state

__all__ = [
    "KEYWORDS",
    "Interpreter",
    "addresses",
    "bound_to_threads",
    "builtin",
    "drop_all",
    "keep",
    "method",
    "own_state",
]

# Bytes hold the addresses of these, in order.
_FUNCTIONS = {
    "ALLOC": "PyType_GenericAlloc",
    "NOARGS": "PyObject_CallNoArgs",
    "ONEARG": "PyObject_CallOneArg",
    "LONG": "PyLong_FromLong",
    "TUPLE": "PyTuple_New",
    "INCREF": "Py_IncRef",
    "DECREF": "Py_DecRef",
    "TRACKED": "PyObject_GC_IsTracked",
    "TRACK": "PyObject_GC_Track",
    "UNTRACK": "PyObject_GC_UnTrack",
    "FRAME": "PyEval_GetFrame",
    "CODE": "PyFrame_GetCode",
    "LASTI": "PyFrame_GetLasti",
    "GETATTR": "PyObject_GetAttr",
    "GETITEM": "PyDict_GetItemWithError",
    "BACK": "PyFrame_GetBack",
    "VECTOR": "PyObject_Vectorcall",
    "MAKEBYTES": "PyBytes_FromStringAndSize",
    "LIST": "PyList_New",
    "SETITEM": "PyList_SetItem",
    "OCCURRED": "PyErr_Occurred",
    "CLEAR": "PyErr_Clear",
    "SETATTR": "PyObject_SetAttr",
    "METHOD": "PyObject_VectorcallMethod",
    "FETCH": "PyErr_Fetch",
    "RESTORE": "PyErr_Restore",
    "THREAD": "PyThreadState_Get",
    "THREADID": "PyThreadState_GetID",
    "CONTEXTGET": "PyContextVar_Get",
}
# The number of the thread whose state was asked for last, and where that lies.
latest = bytes(16)
_OBJECTS = {
    "NEXT": next_serial,
    "WARN": warn_if_growing,
    "NONE": None,
    "TRUE": True,
    "FALSE": False,
    "TUPLETYPE": tuple,
    "LISTTYPE": list,
    "INTTYPE": int,
    "CLOSED": sys.intern("closed"),
    "STATE": thread_state,
    "LATEST": latest,
}


class Interpreter(Struct):
    """Where the interpreter's functions begin and some objects are, in bytes.

    What returns an object gives a reference to it, but for `getitem`, `frame` and
    `occurred`; null says that something was raised. `setitem` takes a reference.
    """

    fixed = True

    alloc: Callable[[Object, int], Object]
    noargs: Callable[[Object], Object]
    onearg: Callable[[Object, Object], Object]
    long: Callable[[int], Int]
    tuple: Callable[[int], Tuple]
    incref: Callable[[Object], None]
    decref: Callable[[Object], None]
    tracked: Callable[[Object], CInt]
    track: Callable[[Object], None]
    untrack: Callable[[Object], None]
    frame: Callable[[], Object]
    code: Callable[[Object], Object]
    lasti: Callable[[Object], CInt]
    getattr: Callable[[Object, Object], Object]
    getitem: Callable[[Object, Object], Object]
    back: Callable[[Object], Object]
    vector: Callable[[Object, Array[Object], int, Object], Object]
    makebytes: Callable[[Numbers, int], Bytes]
    list: Callable[[int], List]
    setitem: Callable[[Object, int, Object], CInt]
    occurred: Callable[[], Object]
    clear: Callable[[], None]
    setattr: Callable[[Object, Object, Object], CInt]
    method: Callable[[Object, Array[Object], int, Object], Object]
    fetch: Callable[[Array[Object], Array[Object], Array[Object]], None]
    restore: Callable[[Object, Object, Object], None]
    thread: Callable[[], Object]
    threadid: Callable[[Object], int]
    contextget: Callable[[Object, Object | None, Array[Object]], CInt]
    next: Object
    warn: Object
    none: Object
    true: Object
    false: Object
    tupletype: Object
    listtype: Object
    inttype: Object
    closed: Object
    state: Object
    latest: Bytes

    @classmethod
    def places(cls) -> Mapping[str, int]:
        names = [*_FUNCTIONS, *_OBJECTS]
        return {name.lower(): BYTES + WORD * k for k, name in enumerate(names)}


@routine
def keep(api: Interpreter, x: Object) -> Object:
    """A thing, with one more reference to it."""
    api.incref(x)
    return x


@routine
def drop_all(api: Interpreter, things: Array[Object], count: int) -> None:
    """Let go of some things."""
    for k in range(count):
        api.decref(things[k])


@routine
def own_state(api: Interpreter) -> Object:
    """The state of this thread (`graph/thread.py`), which lives as long as the thread;
    null where the interpreter has raised something. No number of a thread comes again.
    """
    number = api.threadid(api.thread())
    last = cast(Latest, api.latest)
    if last.state is not None and last.number == number:
        return last.state
    found = api.noargs(api.state)
    if found is None:
        return None
    before = last.state
    last.number = number
    last.state = found
    if before is not None:
        api.decref(before)
    return found


class Latest(Struct):
    """The thread whose state was asked for last, and that, in bytes."""

    number: int
    state: Object

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return {"number": BYTES, "state": BYTES + WORD}


_FASTCALL = 0x80  # METH_FASTCALL: arguments by position, in an array
KEYWORDS = _FASTCALL | 0x02  # and by name behind these


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def bound_to_threads() -> bool:
    """Whether a thread of the interpreter is what has a state of its own: libraries of
    lighter threads may put their own class in the place of `threading.local`.
    """
    return issubclass(type(local), _thread._local)


@cache
def addresses() -> bytes:
    """Where the interpreter's functions and some objects are, in the order of names."""
    found = [*map(_address, _FUNCTIONS.values()), *map(id, _OBJECTS.values())]
    return bytes((ctypes.c_int64 * len(found))(*found))


def builtin(
    name: str, code: int, own: object, flags: int = _FASTCALL
) -> Callable[..., Any]:
    """A built-in function of machine code, which `own` is the `self` of.

    The code, an `Address`, stays loaded for good.
    """
    method = _methods.get((code, flags))
    if method is None:
        method = _methods[code, flags] = _Method(name.encode(), code, flags, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = ctypes.POINTER(_Method), ctypes.py_object, ctypes.c_void_p
    made: Callable[..., Any] = make(ctypes.byref(method), own, None)
    return made


def method(function: Callable[..., Any]) -> Any:
    """A built-in function as a method: the object it is called on comes first."""
    make = ctypes.pythonapi.PyInstanceMethod_New
    make.restype, make.argtypes = ctypes.py_object, (ctypes.py_object,)
    return make(function)


def _address(name: str) -> int:
    """Where a function of the interpreter begins."""
    function = getattr(ctypes.pythonapi, name)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_methods: dict[tuple[int, int], _Method] = {}
