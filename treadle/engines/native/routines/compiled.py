"""Routines as machine code that is called with arrays, records and objects."""

from __future__ import annotations

import ctypes
import importlib
import sys
from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from treadle.base.caches import cached
from treadle.base.routine import Numbers, interpreted
from treadle.engines.native.jit import Address, compile_functions
from treadle.engines.native.routines.kinds import (
    BOOL,
    INT,
    VOID,
    Kind,
    Record,
    Row,
    Several,
    signature,
)
from treadle.engines.native.routines.memory import Struct, Unknown
from treadle.engines.native.routines.text import text_of
from treadle.engines.native.texts import Function, lasting

__all__ = ["code", "compiled", "machine"]

_F = TypeVar("_F", bound=Callable[..., Any])
_PASSED: dict[Any, Any] = {INT: ctypes.c_int64, BOOL: ctypes.c_bool, VOID: None}


def compiled(routine: _F) -> _F:
    """A routine as machine code; run by Python where its source is not there to read.

    Arrays have to be contiguous. The interpreter's lock stays taken.
    """
    return machine(routine) or interpreted(routine)


def machine(routine: _F) -> _F | None:
    """A routine as machine code; None where its source is not there, or where things
    do not lie as it expects.
    """
    return _machine(routine)  # type: ignore[return-value]


@cached(1024)
def _machine(routine: Callable[..., Any]) -> Callable[..., Any] | None:
    arguments, result = signature(routine)
    if isinstance(result, Several):
        raise TypeError(f"{routine.__qualname__} returns several values to Python")
    address = code(routine)
    if address is None:
        return None
    ways = {name: _way(kind) for name, kind in arguments.items()}
    types = [ctype for ctype, _ in ways.values()]
    function = ctypes.PYFUNCTYPE(_way(result)[0], *types)(address)
    passed = [
        f"{pass_.__name__}({x})" if pass_ else x for x, (_, pass_) in ways.items()
    ]
    known = {"function": function, "_address": _address, "_packed": _packed}
    text = f"lambda {', '.join(ways)}: function({', '.join(passed)})"
    run: Callable[..., Any] = wraps(routine)(eval(text, known))
    run.__dict__["code"] = address  # stays loaded
    return run


@cached(1024)
def code(routine: Callable[..., Any]) -> Address | None:
    """Where the machine code of a routine begins; None as `machine` says."""
    versions = sys.version, np.__version__  # they say where things lie
    try:
        text = _text(routine.__module__, routine.__qualname__, *versions)
    except (OSError, Unknown):
        return None
    return compile_functions({text.name: text.text}, lasting=True)[text.name]  # type: ignore[return-value]


@lasting
def _text(module: str, name: str, *versions: str) -> Function:
    own = f"treadle_{name}"
    return Function(own, text_of(getattr(importlib.import_module(module), name), own))


def _way(kind: Kind) -> tuple[Any, Callable[[Any], int] | None]:
    """How ctypes passes a value of a kind, and what makes it of it, if not itself."""
    if isinstance(kind, Row):
        return ctypes.c_void_p, _address
    if isinstance(kind, Record):
        if issubclass(kind.made, Struct):
            return ctypes.py_object, None
        return ctypes.c_void_p, _packed
    return _PASSED[kind], None


def _address(x: Any) -> int:
    if not x.flags.c_contiguous:
        raise ValueError("a routine was given an array that is not contiguous")
    return int(x.ctypes.data)


def _packed(x: Any) -> int:
    """Where a record lies as machine code reads it."""
    try:
        return x._packed  # to ask for its __dict__ would slow down all fields
    except AttributeError:
        packed = _Packed.of(x)
        object.__setattr__(x, "_packed", packed)
        return packed


class _Packed(int):
    """Where the words of a record lie, whose fields machine code does not change."""

    words: Numbers

    @classmethod
    def of(cls, record: Any) -> _Packed:
        own = Record("ptr", type(record))
        words = []
        for field in fields(record):
            x, made = getattr(record, field.name), _way(own.field(field.name).kind)[1]
            words.append(made(x) if made else x)
        lying = np.array(words, np.int64)
        found = cls(lying.ctypes.data)
        found.words = lying
        return found
