"""Functions of elements as methods of tensors, under torch's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treadle.graph.table import functions

if TYPE_CHECKING:
    from treadle.graph.tensor import Tensor


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

    def abs(self) -> Tensor:
        """The magnitudes of the elements."""
        return functions.abs(self)

    def neg(self) -> Tensor:
        """The elements with the other sign."""
        return functions.negative(self)

    def sign(self) -> Tensor:
        """-1, 0 or 1 as the elements are below, at or above 0."""
        return functions.sign(self)

    def exp(self) -> Tensor:
        """e to the power of each element."""
        return functions.exp(self)

    def expm1(self) -> Tensor:
        """e to the power of each element, minus 1, exact near 0."""
        return functions.expm1(self)

    def log(self) -> Tensor:
        """The natural logarithms of the elements."""
        return functions.log(self)

    def log2(self) -> Tensor:
        """The logarithms to base 2."""
        return functions.log2(self)

    def log10(self) -> Tensor:
        """The logarithms to base 10."""
        return functions.log10(self)

    def log1p(self) -> Tensor:
        """log(1 + x) of the elements, exact near 0."""
        return functions.log1p(self)

    def sqrt(self) -> Tensor:
        """The square roots of the elements."""
        return functions.sqrt(self)

    def rsqrt(self) -> Tensor:
        """1 over the square roots of the elements."""
        return functions.rsqrt(self)

    def square(self) -> Tensor:
        """The squares of the elements."""
        return functions.square(self)

    def reciprocal(self) -> Tensor:
        """1 over each element."""
        return functions.reciprocal(self)

    def sin(self) -> Tensor:
        """The sines of the elements."""
        return functions.sin(self)

    def cos(self) -> Tensor:
        """The cosines of the elements."""
        return functions.cos(self)

    def tan(self) -> Tensor:
        """The tangents of the elements."""
        return functions.tan(self)

    def asin(self) -> Tensor:
        """The arcsines of the elements."""
        return functions.asin(self)

    def acos(self) -> Tensor:
        """The arccosines of the elements."""
        return functions.acos(self)

    def atan(self) -> Tensor:
        """The arctangents of the elements."""
        return functions.atan(self)

    def sinh(self) -> Tensor:
        """The hyperbolic sines of the elements."""
        return functions.sinh(self)

    def cosh(self) -> Tensor:
        """The hyperbolic cosines of the elements."""
        return functions.cosh(self)

    def tanh(self) -> Tensor:
        """The hyperbolic tangents of the elements."""
        return functions.tanh(self)

    def asinh(self) -> Tensor:
        """The inverse hyperbolic sines of the elements."""
        return functions.asinh(self)

    def acosh(self) -> Tensor:
        """The inverse hyperbolic cosines of the elements."""
        return functions.acosh(self)

    def atanh(self) -> Tensor:
        """The inverse hyperbolic tangents of the elements."""
        return functions.atanh(self)

    def sigmoid(self) -> Tensor:
        """1 / (1 + e**-x) of the elements."""
        return functions.sigmoid(self)

    def relu(self) -> Tensor:
        """The elements, 0 in the place of negative ones."""
        return functions.relu(self)

    def erf(self) -> Tensor:
        """The error function of the elements."""
        return functions.erf(self)

    def erfc(self) -> Tensor:
        """1 minus the error function of the elements."""
        return functions.erfc(self)

    def floor(self) -> Tensor:
        """The greatest whole numbers that are not above the elements."""
        return functions.floor(self)

    def ceil(self) -> Tensor:
        """The least whole numbers that are not below the elements."""
        return functions.ceil(self)

    def round(self) -> Tensor:
        """The nearest whole numbers, even ones of two."""
        return functions.round(self)

    def trunc(self) -> Tensor:
        """The elements without their fractions."""
        return functions.trunc(self)

    def isnan(self) -> Tensor:
        """Which elements are NaN."""
        return functions.isnan(self)

    def isinf(self) -> Tensor:
        """Which elements are infinite."""
        return functions.isinf(self)

    def isfinite(self) -> Tensor:
        """Which elements are neither infinite nor NaN."""
        return functions.isfinite(self)

    def logical_not(self) -> Tensor:
        """Which elements are 0."""
        return functions.logical_not(self)

    def conj(self) -> Tensor:
        """The complex conjugates of the elements."""
        return functions.conj(self)

    # -- of two operands -----------------------------------------------------------

    def add(self, other: Any) -> Tensor:
        """x + y, with broadcasting."""
        return functions.add(self, other)

    def sub(self, other: Any) -> Tensor:
        """x - y, with broadcasting."""
        return functions.subtract(self, other)

    def subtract(self, other: Any) -> Tensor:
        """x - y, with broadcasting."""
        return functions.subtract(self, other)

    def mul(self, other: Any) -> Tensor:
        """x * y, with broadcasting."""
        return functions.multiply(self, other)

    def multiply(self, other: Any) -> Tensor:
        """x * y, with broadcasting."""
        return functions.multiply(self, other)

    def div(self, other: Any) -> Tensor:
        """x / y, with broadcasting."""
        return functions.divide(self, other)

    def divide(self, other: Any) -> Tensor:
        """x / y, with broadcasting."""
        return functions.divide(self, other)

    def floor_divide(self, other: Any) -> Tensor:
        """The greatest whole numbers that are not above x / y."""
        return functions.floor_divide(self, other)

    def remainder(self, other: Any) -> Tensor:
        """The remainder of a division, with the sign of y."""
        return functions.remainder(self, other)

    def fmod(self, other: Any) -> Tensor:
        """The remainder of a division, with the sign of x."""
        return functions.fmod(self, other)

    def pow(self, other: Any) -> Tensor:
        """x to the power of y."""
        return functions.pow(self, other)

    def maximum(self, other: Any) -> Tensor:
        """The greater of each two elements."""
        return functions.maximum(self, other)

    def minimum(self, other: Any) -> Tensor:
        """The lesser of each two elements."""
        return functions.minimum(self, other)

    def atan2(self, other: Any) -> Tensor:
        """The angles of the points (y, x), x being the argument."""
        return functions.atan2(self, other)

    def matmul(self, other: Any) -> Tensor:
        """The matrix product x @ y."""
        return functions.matmul(self, other)

    def mm(self, other: Any) -> Tensor:
        """The matrix product x @ y."""
        return functions.matmul(self, other)

    def bmm(self, other: Any) -> Tensor:
        """The matrix products x @ y of two stacks."""
        return functions.matmul(self, other)

    def mv(self, other: Any) -> Tensor:
        """The product x @ y of a matrix and a vector."""
        return functions.matmul(self, other)

    def eq(self, other: Any) -> Tensor:
        """Which elements are equal."""
        return functions.equal(self, other)

    def ne(self, other: Any) -> Tensor:
        """Which elements are not equal."""
        return functions.not_equal(self, other)

    def lt(self, other: Any) -> Tensor:
        """Which elements are less."""
        return functions.less(self, other)

    def le(self, other: Any) -> Tensor:
        """Which elements are less or equal."""
        return functions.less_equal(self, other)

    def gt(self, other: Any) -> Tensor:
        """Which elements are greater."""
        return functions.greater(self, other)

    def ge(self, other: Any) -> Tensor:
        """Which elements are greater or equal."""
        return functions.greater_equal(self, other)

    def logical_and(self, other: Any) -> Tensor:
        """Which elements are both true."""
        return functions.logical_and(self, other)

    def logical_or(self, other: Any) -> Tensor:
        """Which elements are true, one or both."""
        return functions.logical_or(self, other)

    def logical_xor(self, other: Any) -> Tensor:
        """Which elements are true, one of both."""
        return functions.logical_xor(self, other)
