"""Routines as machine code that is called with arrays and records."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from typing import Any, TypeVar

import numpy as np

from treadle.base.routine import interpreted
from treadle.engines.native.jit import compile_functions
from treadle.engines.native.routines.kinds import BOOL, INT, VOID, signature
from treadle.engines.native.routines.text import text_of
from treadle.engines.native.texts import Function, lasting

__all__ = ["compiled"]

_F = TypeVar("_F", bound=Callable[..., Any])
_PASSED: dict[Any, Any] = {INT: ctypes.c_int64, BOOL: ctypes.c_bool, VOID: None}


def compiled(routine: _F) -> _F:
    """A routine as machine code; run by Python where its source is not there to read.

    Arrays have to be contiguous. The interpreter's lock stays taken.
    """
    return _compiled(routine)  # type: ignore[return-value]


@cache
def _compiled(routine: Callable[..., Any]) -> Callable[..., Any]:
    try:
        text = _text(routine.__module__, routine.__qualname__)
    except OSError:
        return interpreted(routine)
    arguments, result = signature(routine)
    if result not in _PASSED:
        raise TypeError(
            f"{routine.__qualname__} returns several values, or none of ours"
        )
    address = compile_functions({text.name: text.text}, lasting=True)[text.name]
    kinds = [_PASSED.get(kind, ctypes.c_void_p) for kind in arguments.values()]
    function = ctypes.PYFUNCTYPE(_PASSED[result], *kinds)(address)

    @wraps(routine)
    def run(*given: Any) -> Any:
        held: list[Any] = []
        return function(*[_passed(x, held) for x in given])

    run.__dict__["code"] = address  # stays loaded
    return run


@lasting
def _text(module: str, name: str) -> Function:
    own = f"treadle_{name}"
    return Function(own, text_of(getattr(importlib.import_module(module), name), own))


def _passed(x: Any, held: list[Any]) -> int:
    """What stands for an argument; what has to live as long as the call is held."""
    if isinstance(x, np.ndarray):
        if not x.flags.c_contiguous:
            raise ValueError("a routine was given an array that is not contiguous")
        return int(x.ctypes.data)
    if is_dataclass(x):
        words = [_passed(getattr(x, f.name), held) for f in fields(x)]
        held.append(np.array(words, np.int64))
        return int(held[-1].ctypes.data)
    return int(x)
