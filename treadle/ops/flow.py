"""Ops that pass a value on: its gradient changed, or printed and logged on the way."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from treadle.base.dtypes import as_dtype
from treadle.base.errors import ArityError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, family, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import repeated, row_count
from treadle.graph.tensor import Tensor
from treadle.ops.cast import carried_wide, operands
from treadle.ops.families import Elementwise, Family

__all__ = [
    "clip_by_norm",
    "clip_gradient",
    "debug",
    "flip_gradient",
    "print",
    "scale_gradient",
    "stop_gradient",
]


@op(primitive=True, differentiable=False, idempotent=True)
class StopGradient(Elementwise, arity=1):
    """x, a constant for every derivative."""

    def numpy(self, *arrays: Any) -> Array:
        return arrays[0]


@provide
def stop_gradient(x: Any) -> Tensor:
    """`x` as a constant for every derivative.

    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(x * td.stop_gradient(x), [x])[0])
    2.0
    """
    return StopGradient()(as_tensor(x))


class Passing(Family):
    """An op that hands its first operand on, whatever the others are for."""

    __slots__ = ()

    def infer(self, *types: Any) -> Any:
        if len(types) < 2:
            raise ArityError("takes a value, and what it is handed on after")
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        return arrays[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g, *[None] * (len(xs) - 1))


@op(linear=True, tolerance="E")
class Again(Passing):
    """x, for those who compute from it anew once the other operands are there.

    Nothing that is computed from it is taken for what was computed from x before.
    """

    family = "control"

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        x = xs[0] if has_rows[0] else repeated(xs[0], row_count(has_rows, xs))
        return self(x, *xs[1:])


@op(primitive=True)
class ScaleGradient(Elementwise, arity=2, takes="inexact"):
    """x; its derivative is multiplied by the second operand."""

    def numpy(self, *arrays: Any) -> Array:
        return np.broadcast_arrays(*arrays)[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g * xs[1], None


def scale_gradient(x: Any, factor: Any) -> Tensor:
    """`x`, with the cotangent that passes back multiplied by `factor`.

    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(td.scale_gradient(x, 0.5) * 3.0, [x])[0])
    1.5
    """
    return ScaleGradient()(*operands(x, factor))


def flip_gradient(x: Any) -> Tensor:
    """`x`, with the cotangent that passes back negated (Ganin et al., 2016).

    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(td.flip_gradient(x) * 3.0, [x])[0])
    -3.0
    """
    return scale_gradient(x, -1.0)


@op(primitive=True)
class ClipGradient(Elementwise, arity=2, takes="float"):
    """x; its derivative is held between minus and plus the second operand."""

    def numpy(self, *arrays: Any) -> Array:
        return np.broadcast_arrays(*arrays)[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return functions.clip(g, -xs[1], xs[1]), None


def clip_gradient(x: Any, limit: Any) -> Tensor:
    """`x`, with each element of the cotangent passing back held within +-limit.

    Only what comes through this use of x is clipped.

    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(td.clip_gradient(x, 1.0) * 3.0 + x, [x])[0])
    2.0
    """
    return ClipGradient()(*operands(x, limit))


@carried_wide
def clip_by_norm(x: Any, limit: Any) -> Tensor:
    """`x` scaled down to the L2 norm `limit` where its norm is greater.

    >>> td.clip_by_norm([3.0, 4.0], 1.0).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    node, bound = operands(x, limit)
    size = functions.sum(node * node)
    safe = functions.where(size == 0, 1, size)
    return node * functions.minimum(1, bound / functions.sqrt(safe))


log = logging.getLogger("treadle")
SHOWN = 100  # elements of a value that are told one by one


def _text(x: Array, indent: str = "") -> str:
    if not x.ndim:
        return str(x[()])
    return np.array2string(x, precision=8, threshold=SHOWN, prefix=indent)


def account(mark: Logged, x: Array) -> str:
    """The report on a value: what it is, how large, its extremes, the values."""
    lines = [f"{mark.kind}: {mark.message} op={mark.origin}"]
    shape = "x".join(map(str, x.shape)) or "scalar"
    dtype = as_dtype(mark.dtype) if mark.dtype else x.dtype
    size = f"size={x.size} type={dtype.name}"
    lines.append(f"shape={shape} {size} device=cpu bytes={x.size * dtype.itemsize}")
    if x.size:
        wide = np.abs(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
        norm = float(np.sqrt(np.sum(np.square(wide))))
        low, high = (
            (x.min(), x.max()) if x.dtype.kind != "c" else (wide.min(), wide.max())
        )
        lines.append(
            f"min: {float(low):.8f} max: {float(high):.8f} l2-norm: {norm:.8f}"
        )
    lines.append(_text(x))
    return "\n".join(lines)


class Observed(Elementwise):
    """x itself, told when it is computed; not merged with others, not done for rows."""

    __slots__ = ()
    arity = 1

    def tell(self, x: Array) -> None:
        """Report a value."""
        raise NotImplementedError

    def numpy(self, *arrays: Any) -> Array:
        x: Array = arrays[0]
        self.tell(x)
        return x

    def scalar(self, *xs: Any) -> Any:
        return xs[0]

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return None  # what is told is of one value


@family
class Logged(Observed):
    """x, told in the log under a message, by the op that it is the result of."""

    __slots__ = ()
    message: str
    origin: str = ""
    dtype: str = ""
    kind: ClassVar[str]

    def tell(self, x: Array) -> None:
        log.debug("%s", account(self, x))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (DebugGradient(self.message, self.origin, self.dtype)(g),)


@op(effect="each")
class Debug(Logged):
    """x, told in the log when it is computed; its cotangent too."""

    kind = "Debug"


@op(effect="once")
class DebugGradient(Logged):
    """The cotangent of what Debug has told; by several operands it is derived twice."""

    kind = "Debug Grad"


@provide
def debug(x: Any, message: str = "") -> Tensor:
    """`x`, with its value and its gradient logged to "treadle" at level DEBUG.

    Shape, size, type, bytes, least, greatest, L2 norm and the values; use the result
    in place of x.

    >>> float(td.debug(td.constant(2.0), "two") * 3)
    6.0
    """
    node = as_tensor(x)
    return Debug(message, node.op.name, node.type.dtype.name)(node)


@op(effect="each", linear=True)
class Print(Observed):
    """x, printed when it is computed."""

    label: str
    dtype: str = ""  # as in Debug

    def tell(self, x: Array) -> None:
        dtype = as_dtype(self.dtype) if self.dtype else x.dtype
        start = f"{self.label}: " if self.label else ""
        extents = ", ".join(map(str, x.shape))
        start += f"{dtype.name}[{extents}] "
        builtins.print(start + _text(x, " " * len(start)))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g,)


@provide
def print(x: Any, label: str = "") -> Tensor:
    """`x`, printed each time it is computed: label, dtype, shape and values.

    Use the result in place of x; what nothing asks for is not computed and not printed.
    Works while a graph is built, in cells and in functions, where Python's own print
    sees no values. Gradients pass unchanged. `td.debug` tells them, too.

    >>> y = td.print(td.constant([1.0, 2.0]), "x") * 3
    >>> y.tolist()
    x: float32[2] [1. 2.]
    [3.0, 6.0]
    """
    node = as_tensor(x)
    return Print(label, node.type.dtype.name)(node)
