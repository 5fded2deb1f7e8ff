"""Named parameters: new each time, or found again inside a scope."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

import numpy as np

from treadle.base.allocate import memory_for
from treadle.base.dtypes import as_dtype, is_inexact, whole
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.options import current
from treadle.base.types import as_shape
from treadle.graph.frame import pushed
from treadle.graph.leaves import to_array
from treadle.graph.operators import Operand
from treadle.graph.thread import Frame
from treadle.graph.variable import Parameter

__all__ = [
    "Scope",
    "lookup",
    "param",
    "scope",
]

Init = Any


class Scope:
    """Parameters by name; `with td.scope(...)` finds them again."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.parameters: dict[str, Parameter] = {}


# The scopes around a task, outermost first.
_scopes: ContextVar[tuple[tuple[str, Scope], ...]] = ContextVar("scopes", default=())


@contextmanager
def scope(name_or_scope: str | Scope = "") -> Iterator[Scope]:
    """Inside, `td.param(name)` returns the parameter already made under that name.

    Takes a name (a prefix "name/") or a Scope that an earlier block yielded.

    >>> with td.scope("net") as net:
    ...     w = td.param("w", shape=(2,))
    >>> with td.scope(net):
    ...     td.param("w", shape=(2,)) is w, w.name
    (True, 'net/w')
    """
    stack = _scopes.get()
    if not isinstance(name_or_scope, (str, Scope)):
        raise ArgumentError(f"a scope has a name or is a Scope, not {name_or_scope!r}")
    if isinstance(name_or_scope, Scope):
        entry = (name_or_scope.prefix, name_or_scope)
    else:
        outer_prefix, home = stack[-1] if stack else ("", Scope())
        prefix = f"{outer_prefix}{name_or_scope}/" if name_or_scope else outer_prefix
        if not stack:
            home.prefix = prefix
        entry = (prefix, home)
    token = _scopes.set((*stack, entry))
    try:
        yield entry[1]
    finally:
        with suppress(ValueError):  # closed elsewhere, as by the collector
            _scopes.reset(token)


def initial_array(init: Init, shape: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """The first value of a parameter from a number, an array or init(shape, dtype).

    Without a dtype an array of floats keeps its own. Nobody else will write the value,
    but it may be read-only.
    """
    if dtype is None and isinstance(init, (np.ndarray, Operand)):
        known = as_dtype(init.dtype)
        dtype = known if is_inexact(known) else None
    wanted = as_dtype(dtype) if dtype is not None else current().dtype
    if callable(init) and not isinstance(init, Operand):
        if shape is None:
            raise ArgumentError("an init function needs a shape")
        with pushed(Frame()):
            value = init(as_shape(shape), wanted)
            fresh = getattr(init, "fresh", False)
            array = to_array(value, wanted, copy=not fresh)
    elif isinstance(init, Operand):
        array = to_array(init.numpy(), wanted, copy=False)
    else:
        array = np.array(whole(init), dtype=wanted)
    if shape is None:
        return array
    extents = as_shape(shape)
    if array.ndim and array.shape != extents:
        raise ShapeError(f"init has shape {array.shape}, the parameter {extents}")
    if array.shape == extents:
        return array
    with memory_for(math.prod(extents) * wanted.itemsize):
        return to_array(np.broadcast_to(array, extents))


def param(
    name: str | None = None,
    shape: Any = None,
    init: float | np.ndarray[Any, Any] | Callable[..., Any] = 0.0,
    trainable: bool = True,
    dtype: Any = None,
    axes: Any = None,
    sparse: bool = False,
) -> Parameter:
    """A trainable Variable; inside `td.scope` the one of that name, if there is one.

    `init` is a number, an array, whose dtype the parameter has unless another is given,
    or a function of (shape, dtype).

    >>> td.param("x", init=2.0)
    Parameter('x', float32[], 2.)
    >>> td.param("y", init=np.array([1.0, 2.0])).dtype
    dtype('float64')
    """
    if not _scopes.get():
        array = initial_array(init, shape, dtype)
        return Parameter(
            array, name=name, trainable=trainable, axes=axes, sparse=sparse, copy=False
        )
    if name is None:
        raise ArgumentError("inside td.scope a parameter needs a name")
    prefix, home = _scopes.get()[-1]
    full = prefix + name
    known = home.parameters.get(full)
    if known is None:
        array = initial_array(init, shape, dtype)
        known = Parameter(
            array, name=full, trainable=trainable, axes=axes, sparse=sparse, copy=False
        )
        home.parameters[full] = known
        return known
    if shape is not None and as_shape(shape) != known.shape:
        raise ShapeError(
            f"parameter {full!r} has shape {known.shape}, asked for {as_shape(shape)}"
        )
    if dtype is not None and as_dtype(dtype) != known.dtype:
        raise ArgumentError(
            f"parameter {full!r} is {known.dtype.name}, asked for {dtype}"
        )
    return known


def lookup(
    name: str | None,
    shape: Any,
    init: Any = 0.0,
    trainable: bool = True,
    dtype: Any = None,
) -> Parameter:
    """A table of rows to look up; its gradient is kept as the rows that were read, and
    optimizers change those alone.

    >>> table = td.lookup("table", (3, 1), init=1.0)
    >>> opt = td.optim.Momentum(lr=0.5)
    >>> for row in (0, 1):
    ...     _ = opt.step(table[row].sum())
    >>> table.numpy().ravel().tolist()
    [0.5, 0.5, 1.0]
    """
    return param(name, shape, init, trainable, dtype, sparse=True)
