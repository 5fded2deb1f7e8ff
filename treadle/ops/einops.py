"""Tensors for einops, which knows a library by a class of its own."""

from __future__ import annotations

from typing import Any

from treadle.base.extras import extra
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand, functions
from treadle.ops.create import arange
from treadle.ops.einsum import einsum
from treadle.ops.join import concat, stack
from treadle.ops.rearrange import expand_dims
from treadle.ops.repeat import tile

__all__ = ["register_einops"]

_FLOATS = ("float", "bfloat", "complex")
# What einops asks of a library; `self` is its object for it.
_METHODS: dict[str, Any] = {
    "framework_name": "treadle",
    "is_appropriate_type": lambda self, x: isinstance(x, Operand),
    "from_numpy": lambda self, x: as_tensor(x),
    "to_numpy": lambda self, x: x.numpy(),
    "arange": lambda self, start, stop: arange(start, stop),
    "shape": lambda self, x: x.type.shape,
    "reshape": lambda self, x, shape: functions.reshape(x, tuple(shape)),
    "transpose": lambda self, x, axes: functions.permute_dims(x, tuple(axes)),
    "reduce": lambda self, x, fold, axes: getattr(functions, fold)(x, tuple(axes)),
    "stack_on_zeroth_dimension": lambda self, xs: stack(xs),
    "add_axis": lambda self, x, place: expand_dims(x, place),
    "tile": lambda self, x, repeats: tile(x, tuple(repeats)),
    "concat": lambda self, xs, axis: concat(xs, axis=axis),
    "is_float_type": lambda self, x: x.type.dtype.name.startswith(_FLOATS),
    "einsum": lambda self, spec, *xs: einsum(spec, *xs),
}
_backend: type | None = None  # einops itself refers to it weakly


def register_einops() -> None:
    """The functions of einops with tensors, from here on: `einops.rearrange(x, ...)`.

    einops looks for libraries among the classes that there are when it first sees a
    type, so nothing but a call can tell it. `einops.array_api` needs none.

    >>> td.register_einops()
    >>> from einops import rearrange
    >>> rearrange(td.zeros((2, 3, 4)), "a b c -> (c a) b").shape
    (8, 3)
    """
    global _backend
    base = extra("einops._backends", "einops").AbstractBackend
    if _backend is None:
        _backend = type("EinopsBackend", (base,), _METHODS)
