"""Elementary functions: exponentials, logarithms, roots and circular functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.op import Cotangents, Input, op
from treadle.graph.operators import provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.align import unary
from treadle.ops.elementwise import conj
from treadle.ops.families import Unary

__all__ = ["cos", "exp", "sin"]


@op(primitive=True, tolerance="U")
class Exp(Unary):
    """e**x."""

    ufunc = np.exp
    domain = (Input(low=-4, high=4),)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * conj(y),)


@provide
@recorded
def exp(x: Any) -> Tensor:
    """e to the power x.

    >>> float(td.exp(0.0))
    1.0
    """
    return unary(Exp(), x)


@op(primitive=True, tolerance="U")
class Sin(Unary):
    """The sine of x in radians."""

    ufunc = np.sin
    domain = (Input(low=-4, high=4),)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * conj(cos(xs[0])),)


@provide
@recorded
def sin(x: Any) -> Tensor:
    """The sine of x in radians.

    >>> float(td.sin(0.0))
    0.0
    """
    return unary(Sin(), x)


@op(primitive=True, tolerance="U")
class Cos(Unary):
    """The cosine of x in radians."""

    ufunc = np.cos
    domain = (Input(low=-4, high=4),)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (-g * conj(sin(xs[0])),)


@provide
@recorded
def cos(x: Any) -> Tensor:
    """The cosine of x in radians.

    >>> float(td.cos(0.0))
    1.0
    """
    return unary(Cos(), x)
