"""Logarithms, and exponentials less one."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Input, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.align import unary
from treadle.ops.cast import carried_wide
from treadle.ops.elementwise import conj
from treadle.ops.families import Unary

__all__ = ["expm1", "log", "log10", "log1p", "log2", "safelog"]

LN2 = 0.6931471805599453
LN10 = 2.302585092994046


@op(primitive=True, tolerance="U")
class Expm1(Unary):
    """e**x - 1, exact near 0."""

    ufunc = np.expm1
    domain = (Input(low=-2, high=2),)

    def numpy(self, *arrays: Any) -> Array:
        (x,) = arrays
        y = np.expm1(x)
        if x.dtype.kind != "c":
            return np.asarray(y)
        # NumPy has it by e^a cos(b) - 1, which is no number where it should be.
        with np.errstate(all="ignore"):
            return np.where(np.isfinite(x) & (x != 0), y, np.exp(x) - 1)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * conj(y + 1.0),)


@provide
def expm1(x: Any) -> Tensor:
    """e**x - 1, exact near 0.

    >>> f"{float(td.expm1(0.5)):.5f}"
    '0.64872'
    """
    return unary(Expm1(), x)


@op(primitive=True, tolerance="U")
class Log(Unary):
    """The natural logarithm."""

    ufunc = np.log
    domain = (Input(low=0.2, high=4),)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g / conj(xs[0]),)


@provide
@recorded
def log(x: Any) -> Tensor:
    """The natural logarithm.

    >>> f"{float(td.log(2.0)):.5f}"
    '0.69315'
    """
    return unary(Log(), x)


@op(primitive=True, tolerance="U")
class Log1p(Unary):
    """The logarithm of 1 + x, exact near 0."""

    ufunc = np.log1p
    domain = (Input(low=-0.6, high=3),)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g / conj(xs[0] + 1.0),)


@provide
@recorded
def log1p(x: Any) -> Tensor:
    """log(1 + x), exact near 0.

    >>> f"{float(td.log1p(0.5)):.5f}"
    '0.40547'
    """
    return unary(Log1p(), x)


@op(primitive=True, tolerance="U")
class Log2(Unary):
    """The logarithm to base 2."""

    ufunc = np.log2
    domain = (Input(low=0.2, high=4),)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g / (conj(xs[0]) * LN2),)


@provide
@recorded
def log2(x: Any) -> Tensor:
    """The logarithm to base 2.

    >>> f"{float(td.log2(8.0)):.5f}"
    '3.00000'
    """
    return unary(Log2(), x)


@op(primitive=True, tolerance="U")
class Log10(Unary):
    """The logarithm to base 10."""

    ufunc = np.log10
    domain = (Input(low=0.2, high=4),)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g / (conj(xs[0]) * LN10),)


@provide
def log10(x: Any) -> Tensor:
    """The logarithm to base 10.

    >>> f"{float(td.log10(100.0)):.5f}"
    '2.00000'
    """
    return unary(Log10(), x)


@carried_wide
def safelog(x: Any) -> Tensor:
    """log(max(x, e**-50)): finite at 0, with no derivative below the cut.

    >>> float(td.safelog(0.0))
    -50.0
    """
    return log(functions.maximum(as_tensor(x), float(np.exp(-50.0))))
