"""Functions of elements as methods of tensors, under torch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from treadle.graph.table import functions

if TYPE_CHECKING:
    from treadle.graph.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def unary(name: str, text: str, function: str = "") -> Callable[[Any], Tensor]:
    """A method that is a function of the table, of its own name or another."""

    def method(self: Any) -> Tensor:
        return getattr(functions, function or name)(self)

    return _named(method, name, text)


def binary(name: str, text: str, function: str = "") -> Callable[[Any, Any], Tensor]:
    """As `unary`, for functions of two operands."""

    def method(self: Any, other: Any) -> Tensor:
        return getattr(functions, function or name)(self, other)

    return _named(method, name, text)


def _named(method: F, name: str, text: str) -> F:
    method.__name__, method.__doc__ = name, text
    method.__qualname__ = f"ElementwiseMethods.{name}"
    return method


class ElementwiseMethods:
    """Methods that compute each element of the result from one of each operand."""

    __slots__ = ()

    @property
    def real(self) -> Tensor:
        """The real parts of the elements."""
        return functions.real(self)

    @property
    def imag(self) -> Tensor:
        """The imaginary parts of the elements."""
        return functions.imag(self)

    abs = unary("abs", "The magnitudes of the elements.")
    neg = unary("neg", "The elements with the other sign.", "negative")
    sign = unary("sign", "-1, 0 or 1 as the elements are below, at or above 0.")
    exp = unary("exp", "e to the power of each element.")
    expm1 = unary("expm1", "e to the power of each element, minus 1, exact near 0.")
    log = unary("log", "The natural logarithms of the elements.")
    log2 = unary("log2", "The logarithms to base 2.")
    log10 = unary("log10", "The logarithms to base 10.")
    log1p = unary("log1p", "log(1 + x) of the elements, exact near 0.")
    sqrt = unary("sqrt", "The square roots of the elements.")
    rsqrt = unary("rsqrt", "1 over the square roots of the elements.")
    square = unary("square", "The squares of the elements.")
    reciprocal = unary("reciprocal", "1 over each element.")
    sin = unary("sin", "The sines of the elements.")
    cos = unary("cos", "The cosines of the elements.")
    tan = unary("tan", "The tangents of the elements.")
    asin = unary("asin", "The arcsines of the elements.")
    acos = unary("acos", "The arccosines of the elements.")
    atan = unary("atan", "The arctangents of the elements.")
    sinh = unary("sinh", "The hyperbolic sines of the elements.")
    cosh = unary("cosh", "The hyperbolic cosines of the elements.")
    tanh = unary("tanh", "The hyperbolic tangents of the elements.")
    asinh = unary("asinh", "The inverse hyperbolic sines of the elements.")
    acosh = unary("acosh", "The inverse hyperbolic cosines of the elements.")
    atanh = unary("atanh", "The inverse hyperbolic tangents of the elements.")
    sigmoid = unary("sigmoid", "1 / (1 + e**-x) of the elements.")
    relu = unary("relu", "The elements, 0 in the place of negative ones.")
    erf = unary("erf", "The error function of the elements.")
    erfc = unary("erfc", "1 minus the error function of the elements.")
    floor = unary(
        "floor", "The greatest whole numbers that are not above the elements."
    )
    ceil = unary("ceil", "The least whole numbers that are not below the elements.")
    round = unary("round", "The nearest whole numbers, even ones of two.")
    trunc = unary("trunc", "The elements without their fractions.")
    isnan = unary("isnan", "Which elements are NaN.")
    isinf = unary("isinf", "Which elements are infinite.")
    isfinite = unary("isfinite", "Which elements are neither infinite nor NaN.")
    logical_not = unary("logical_not", "Which elements are 0.")
    conj = unary("conj", "The complex conjugates of the elements.")

    # -- of two operands -----------------------------------------------------------

    add = binary("add", "x + y, with broadcasting.")
    sub = binary("sub", "x - y, with broadcasting.", "subtract")
    subtract = binary("subtract", "x - y, with broadcasting.")
    mul = binary("mul", "x * y, with broadcasting.", "multiply")
    multiply = binary("multiply", "x * y, with broadcasting.")
    div = binary("div", "x / y, with broadcasting.", "divide")
    divide = binary("divide", "x / y, with broadcasting.")
    floor_divide = binary(
        "floor_divide", "The greatest whole numbers that are not above x / y."
    )
    remainder = binary("remainder", "The remainder of a division, with the sign of y.")
    fmod = binary("fmod", "The remainder of a division, with the sign of x.")
    pow = binary("pow", "x to the power of y.")
    maximum = binary("maximum", "The greater of each two elements.")
    minimum = binary("minimum", "The lesser of each two elements.")
    atan2 = binary("atan2", "The angles of the points (y, x), x being the argument.")
    matmul = binary("matmul", "The matrix product x @ y.")
    mm = binary("mm", "The matrix product x @ y.", "matmul")
    bmm = binary("bmm", "The matrix products x @ y of two stacks.", "matmul")
    mv = binary("mv", "The product x @ y of a matrix and a vector.", "matmul")
    eq = binary("eq", "Which elements are equal.", "equal")
    ne = binary("ne", "Which elements are not equal.", "not_equal")
    lt = binary("lt", "Which elements are less.", "less")
    le = binary("le", "Which elements are less or equal.", "less_equal")
    gt = binary("gt", "Which elements are greater.", "greater")
    ge = binary("ge", "Which elements are greater or equal.", "greater_equal")
    logical_and = binary("logical_and", "Which elements are both true.")
    logical_or = binary("logical_or", "Which elements are true, one or both.")
    logical_xor = binary("logical_xor", "Which elements are true, one of both.")
