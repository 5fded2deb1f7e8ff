"""Elementary functions: exponentials, logarithms, roots and circular functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.op import Array, Cotangents, Sample, op
from treadle.graph.operators import provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.align import unary
from treadle.ops.elementwise import conj
from treadle.ops.families import Elementwise, unary_samples

__all__ = ["cos", "exp", "sin"]


@op(primitive=True, tolerance="U")
class Exp(Elementwise):
    """e**x."""

    arity = 1
    takes = "inexact"

    def numpy(self, *arrays: Any) -> Array:
        return np.exp(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * conj(y),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return unary_samples(cls(), -4, 4)


@provide
@recorded
def exp(x: Any) -> Tensor:
    """e to the power x.

    >>> import treadle as td
    >>> float(td.exp(0.0))
    1.0
    """
    return unary(Exp(), x)


@op(primitive=True, tolerance="U")
class Sin(Elementwise):
    """The sine of x in radians."""

    arity = 1
    takes = "inexact"

    def numpy(self, *arrays: Any) -> Array:
        return np.sin(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * conj(cos(xs[0])),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return unary_samples(cls(), -4, 4)


@provide
@recorded
def sin(x: Any) -> Tensor:
    """The sine of x in radians.

    >>> import treadle as td
    >>> float(td.sin(0.0))
    0.0
    """
    return unary(Sin(), x)


@op(primitive=True, tolerance="U")
class Cos(Elementwise):
    """The cosine of x in radians."""

    arity = 1
    takes = "inexact"

    def numpy(self, *arrays: Any) -> Array:
        return np.cos(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (-g * conj(sin(xs[0])),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return unary_samples(cls(), -4, 4)


@provide
@recorded
def cos(x: Any) -> Tensor:
    """The cosine of x in radians.

    >>> import treadle as td
    >>> float(td.cos(0.0))
    1.0
    """
    return unary(Cos(), x)
