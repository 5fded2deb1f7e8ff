"""Powers, roots, reciprocals, logarithms, and exponentials less one."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import (
    complex128,
    float16,
    float32,
    float64,
    int32,
    is_inexact,
    kind,
)
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Input, op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.align import binary, unary
from treadle.ops.cast import as_float, carried_wide, operands
from treadle.ops.elementwise import conj
from treadle.ops.families import Elementwise, Unary

__all__ = [
    "cube",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "pow",
    "reciprocal",
    "rsqrt",
    "safelog",
    "sqrt",
    "square",
]


@op(primitive=True, tolerance="E")
class Sqrt(Unary):
    """The square root; with `flat` its derivative at 0 is 0."""

    flat: bool = False
    ufunc = np.sqrt

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        if not self.flat:
            return (g / (functions.conj(y) * 2.0),)
        safe = functions.where(y == 0, 1, y)
        return (functions.where(y == 0, 0, g / (safe * 2.0)),)


@provide
@recorded
def sqrt(x: Any) -> Tensor:
    """The square root.

    >>> f"{float(td.sqrt(2.0)):.5f}"
    '1.41421'
    """
    return unary(Sqrt(), x)


@provide
def norm_of(squares: Any) -> Tensor:
    """The root of a sum of squares, of which the derivative is 0 where all are 0."""
    return unary(Sqrt(True), squares)


@op(tolerance="E")
class Square(Elementwise, arity=1, takes="numeric", sample_dtypes=(float32, int32)):
    """x x."""

    def numpy(self, *arrays: Any) -> Array:
        return np.multiply(arrays[0], arrays[0])

    def scalar(self, *xs: Any) -> Any:
        return xs[0] * xs[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * functions.conj(xs[0]) * 2,)


def squared_modulus(x: Tensor) -> Tensor:
    """|x|²: the square of a real x, and a real number for a complex one."""
    if kind(x.type.dtype) != "complex":
        return square(x)
    return functions.real(x * functions.conj(x))


@provide
@recorded
def square(x: Any) -> Tensor:
    """x x.

    >>> td.square([3.0, -2.0]).tolist()
    [9.0, 4.0]
    """
    return Square()(*operands(x))


def cube(x: Any) -> Tensor:
    """x x x.

    >>> float(td.cube(-2.0))
    -8.0
    """
    (node,) = operands(x)
    return square(node) * node


@op(tolerance="U")
class Rsqrt(Unary, domain=(Input(low=0.2, high=4),)):
    """The reciprocal of the square root."""

    def numpy(self, *arrays: Any) -> Array:
        return 1.0 / np.sqrt(arrays[0])

    def scalar(self, x: Any) -> Any:
        return 1.0 / functions.sqrt(x)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * functions.conj(y / xs[0]) * -0.5,)


@provide
def rsqrt(x: Any) -> Tensor:
    """The reciprocal of the square root.

    >>> f"{float(td.rsqrt(4.0)):.5f}"
    '0.50000'
    """
    return unary(Rsqrt(), x)


@op(tolerance="E")
class Reciprocal(Unary, domain=(Input(low=0.2, high=4),)):
    """1 / x."""

    def numpy(self, *arrays: Any) -> Array:
        return 1.0 / arrays[0]

    def scalar(self, x: Any) -> Any:
        return 1.0 / x

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (-g * functions.conj(y * y),)


@provide
def reciprocal(x: Any) -> Tensor:
    """1 / x.

    >>> f"{float(td.reciprocal(4.0)):.5f}"
    '0.25000'
    """
    return unary(Reciprocal(), x)


@op(primitive=True, tolerance="U")
class Pow(Elementwise, arity=2, takes="numeric", ufunc=np.power):
    """x to the power y."""

    def vjp(self, g: Any, y: Any, x: Tensor, n: Tensor) -> Cotangents:
        # Of the smallest numbers the power -1 is infinite: any will do beside n = 0.
        least = float(np.finfo(np.float32).tiny)  # bfloat16 has the same
        if x.type.dtype in (float16, float64, complex128):
            least = float(np.finfo(str(x.type.dtype)).tiny)
        lower = functions.where((n == 0) & (functions.abs(x) <= least), 0, n - 1)
        gx = g * functions.conj(n * functions.pow(x, lower))
        if kind(x.type.dtype) == "complex":
            return gx, g * functions.conj(y * functions.log(x))
        # The derivative by n is y log(x); at 0 it is 0 (for n > 0), below it is NaN.
        safe = functions.where(x == 0, 1, x)
        return gx, g * y * functions.log(safe)


@provide
def pow(x: Any, y: Any) -> Tensor:
    """x to the power y, element by element; small whole exponents become products.

    >>> td.pow([2.0, 3.0], 2).tolist(), td.pow([4.0], 0.5).tolist()
    ([4.0, 9.0], [2.0])
    """
    if isinstance(y, (int, float)) and not isinstance(y, bool):
        simple = _simple(x, y)
        if simple is not None:
            return simple
    nodes = operands(x, y)
    whole = kind(nodes[0].type.dtype) == "integer" and not isinstance(y, Operand)
    if whole and np.any(np.asarray(y) < 0):
        nodes = [as_float(node) for node in nodes]
    return binary(Pow(), *nodes)


def _simple(x: Any, y: float) -> Tensor | None:
    """x to an exponent that needs no logarithm, or None."""
    node = as_tensor(x)
    if isinstance(y, float):
        node = as_float(node)
    if y == 1:
        return node
    if y == 2:
        return square(node)
    if y == 3:
        return cube(node)
    if not is_inexact(node.type.dtype):
        # Whole numbers wrap, so that any order of their products is exact.
        if y < 4:
            return None
        half = pow(square(node), y // 2)
        return half * node if y % 2 else half
    if y == 0.5:
        return sqrt(node)
    if y == -1:
        return reciprocal(node)
    return rsqrt(node) if y == -0.5 else None


LN2 = 0.6931471805599453
LN10 = 2.302585092994046


@op(primitive=True, tolerance="U")
class Expm1(Unary, ufunc=np.expm1, domain=(Input(low=-2, high=2),)):
    """e**x - 1, exact near 0."""

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
class Log(Unary, ufunc=np.log, domain=(Input(low=0.2, high=4),)):
    """The natural logarithm."""

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
class Log1p(Unary, ufunc=np.log1p, domain=(Input(low=-0.6, high=3),)):
    """The logarithm of 1 + x, exact near 0."""

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
class Log2(Unary, ufunc=np.log2, domain=(Input(low=0.2, high=4),)):
    """The logarithm to base 2."""

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
class Log10(Unary, ufunc=np.log10, domain=(Input(low=0.2, high=4),)):
    """The logarithm to base 10."""

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
