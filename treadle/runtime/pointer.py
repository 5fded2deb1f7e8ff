"""Computations as functions of C, which are called without Python and its lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.types import Type
from treadle.core import native
from treadle.runtime.at_once import TRIES, Calls


class FunctionPointer(NamedTuple):
    """A function of C: what keeps it alive, its address and that of its data."""

    owner: Any
    address: int
    data: int


def pointer_of(
    calls: Calls, inputs: Sequence[Any], outputs: Sequence[Type], planned: Any, run: Any
) -> FunctionPointer:
    """The function of C of calls with these inputs, of which the one that is None is
    the vector; raises ArgumentError where they make no number and its gradient.
    """
    places = [k for k, x in enumerate(inputs) if x is None]
    vector = outputs[-1] if len(outputs) == 2 else None
    fits = [(x.dtype.name, x.shape) for x in outputs]
    if len(places) != 1 or vector is None or len(vector.shape) != 1:
        raise _refused("one vector, and a value and its gradient as outputs")
    if fits != [("float64", ()), ("float64", vector.shape)]:
        raise _refused("a float64 value () and its gradient, as long as the vector")
    if native is None:
        raise _refused("the core of the library, which was not built")
    arrays = [
        x if x is None else np.ascontiguousarray(x.array)  # nodes that have values
        for x in inputs
    ]
    zeros = [np.zeros(vector.shape) if x is None else x for x in inputs]
    for _ in range(TRIES):
        call = calls.run(zeros, planned)
        if call is not None:
            slots = [slot for slot, _, _ in call[0].results]
            function = native.function(call[0].small, arrays, *slots)
            if function is not None:
                return FunctionPointer(*function)
            break
        run(zeros)
    raise _refused("a computation that is one small program")


def _refused(what: str) -> ArgumentError:
    error = ArgumentError(
        f"a function of C takes {what}",
        hint="td.computation((value, td.grad(value, x)), x) with a placeholder x of "
        "shape (n,) in float64, no assignments and no draws",
    )
    return error.located("computation")
