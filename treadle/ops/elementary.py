"""Elementary functions: the exponential, circular and hyperbolic functions, angles."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.op import Cotangents, Input, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.align import binary, unary
from treadle.ops.cast import as_float
from treadle.ops.elementwise import conj
from treadle.ops.families import Elementwise, Unary

__all__ = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "degrees",
    "exp",
    "radians",
    "sin",
    "sinh",
    "tan",
    "tanh",
]


@op(primitive=True, tolerance="U")
class Exp(Unary, ufunc=np.exp, domain=(Input(low=-4, high=4),)):
    """e**x."""

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
class Sin(Unary, ufunc=np.sin, domain=(Input(low=-4, high=4),)):
    """The sine of x in radians."""

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
class Cos(Unary, ufunc=np.cos, domain=(Input(low=-4, high=4),)):
    """The cosine of x in radians."""

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


@op(primitive=True, tolerance="U")
class Tan(Unary, ufunc=np.tan, domain=(Input(low=-1, high=1),)):
    """The tangent of x in radians."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * conj(y * y + 1.0),)


@provide
def tan(x: Any) -> Tensor:
    """The tangent of x in radians.

    >>> f"{float(td.tan(0.5)):.5f}"
    '0.54630'
    """
    return unary(Tan(), x)


@op(primitive=True, tolerance="U")
class Asin(Unary, ufunc=np.arcsin, domain=(Input(low=-0.8, high=0.8),)):
    """The angle whose sine is x."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g / conj(functions.sqrt(1.0 - xs[0] * xs[0])),)


@provide
def asin(x: Any) -> Tensor:
    """The angle whose sine is x.

    >>> f"{float(td.asin(0.5)):.5f}"
    '0.52360'
    """
    return unary(Asin(), x)


@op(primitive=True, tolerance="U")
class Acos(Unary, ufunc=np.arccos, domain=(Input(low=-0.8, high=0.8),)):
    """The angle whose cosine is x."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (-g / conj(functions.sqrt(1.0 - xs[0] * xs[0])),)


@provide
def acos(x: Any) -> Tensor:
    """The angle whose cosine is x.

    >>> f"{float(td.acos(0.5)):.5f}"
    '1.04720'
    """
    return unary(Acos(), x)


@op(primitive=True, tolerance="U")
class Atan(Unary, ufunc=np.arctan, domain=(Input(low=-2, high=2),)):
    """The angle whose tangent is x."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g / conj(xs[0] * xs[0] + 1.0),)


@provide
def atan(x: Any) -> Tensor:
    """The angle whose tangent is x.

    >>> f"{float(td.atan(0.5)):.5f}"
    '0.46365'
    """
    return unary(Atan(), x)


@op(primitive=True, tolerance="U")
class Sinh(Unary, ufunc=np.sinh, domain=(Input(low=-2, high=2),)):
    """The hyperbolic sine."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * conj(cosh(xs[0])),)


@provide
def sinh(x: Any) -> Tensor:
    """The hyperbolic sine.

    >>> f"{float(td.sinh(0.5)):.5f}"
    '0.52110'
    """
    return unary(Sinh(), x)


@op(primitive=True, tolerance="U")
class Cosh(Unary, ufunc=np.cosh, domain=(Input(low=-2, high=2),)):
    """The hyperbolic cosine."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * conj(sinh(xs[0])),)


@provide
def cosh(x: Any) -> Tensor:
    """The hyperbolic cosine.

    >>> f"{float(td.cosh(0.5)):.5f}"
    '1.12763'
    """
    return unary(Cosh(), x)


@op(primitive=True, tolerance="U")
class Tanh(Unary, ufunc=np.tanh, domain=(Input(low=-2, high=2),)):
    """The hyperbolic tangent."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * conj(1.0 - y * y),)


@provide
@recorded
def tanh(x: Any) -> Tensor:
    """The hyperbolic tangent.

    >>> f"{float(td.tanh(0.5)):.5f}"
    '0.46212'
    """
    return unary(Tanh(), x)


@op(primitive=True, tolerance="U")
class Asinh(Unary, ufunc=np.arcsinh, domain=(Input(low=-2, high=2),)):
    """The inverse of the hyperbolic sine."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g / conj(functions.sqrt(xs[0] * xs[0] + 1.0)),)


@provide
def asinh(x: Any) -> Tensor:
    """The inverse of the hyperbolic sine.

    >>> f"{float(td.asinh(0.5)):.5f}"
    '0.48121'
    """
    return unary(Asinh(), x)


@op(primitive=True, tolerance="U")
class Acosh(Unary, ufunc=np.arccosh, domain=(Input(low=1.3, high=3),)):
    """The inverse of the hyperbolic cosine."""

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        return (g / conj(functions.sqrt(x - 1.0) * functions.sqrt(x + 1.0)),)


@provide
def acosh(x: Any) -> Tensor:
    """The inverse of the hyperbolic cosine.

    >>> f"{float(td.acosh(1.5)):.5f}"
    '0.96242'
    """
    return unary(Acosh(), x)


@op(primitive=True, tolerance="U")
class Atanh(Unary, ufunc=np.arctanh, domain=(Input(low=-0.8, high=0.8),)):
    """The inverse of the hyperbolic tangent."""

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g / conj(1.0 - xs[0] * xs[0]),)


@provide
def atanh(x: Any) -> Tensor:
    """The inverse of the hyperbolic tangent.

    >>> f"{float(td.atanh(0.5)):.5f}"
    '0.54931'
    """
    return unary(Atanh(), x)


@op(primitive=True, tolerance="U")
class Atan2(Elementwise):
    """The angle of the point (x, y), given as (y, x); its derivative at 0, 0 is 0."""

    arity = 2
    takes = "float"
    ufunc = np.arctan2
    domain = Input(low=0.3, high=2), Input(apart=0.2)

    def vjp(self, g: Any, y: Any, a: Tensor, b: Tensor) -> Cotangents:
        r = functions.hypot(a, b)
        r = functions.where(r == 0, 1, r)
        return g * (b / r) / r, -g * (a / r) / r


@provide
def atan2(y: Any, x: Any) -> Tensor:
    """The angle of the point (x, y) in radians, from -pi to pi.

    >>> f"{float(td.atan2(1.0, -1.0)):.5f}"
    '2.35619'
    """
    return binary(Atan2(), as_float(y), as_float(x))


def degrees(x: Any) -> Tensor:
    """An angle in radians as degrees.

    >>> f"{float(td.degrees(3.14159265)):.3f}"
    '180.000'
    """
    return as_float(x) * (180.0 / np.pi)


def radians(x: Any) -> Tensor:
    """An angle in degrees as radians.

    >>> f"{float(td.radians(180.0)):.5f}"
    '3.14159'
    """
    return as_float(x) * (np.pi / 180.0)
