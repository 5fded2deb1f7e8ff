"""Graphs evaluated exactly: fractions, and 60 digits where there are none.

The NumPy rules of ops run unchanged, on arrays of these numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.rewrite.facts import is_lossless

__all__ = ["DIGITS", "Exact", "Inexact", "evaluate"]

DIGITS = 60


class Inexact(Exception):
    """An op has no exact meaning here, or a value lies outside of its domain."""


class Exact:
    """A number as a fraction, or as a decimal of many digits."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    @staticmethod
    def of(x: Any) -> Exact:
        return x if isinstance(x, Exact) else Exact(Fraction(float(x)))

    def wide(self) -> Decimal:
        if isinstance(self.value, Decimal):
            return self.value
        return Decimal(self.value.numerator) / Decimal(self.value.denominator)

    def _both(self, other: Any, f: Callable[[Any, Any], Any]) -> Exact:
        b = Exact.of(other)
        if isinstance(self.value, Fraction) and isinstance(b.value, Fraction):
            return Exact(f(self.value, b.value))
        return Exact(f(self.wide(), b.wide()))

    def __add__(self, other: Any) -> Exact:
        return self._both(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Exact:
        return self._both(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Exact:
        return self._both(other, lambda a, b: a * b)

    def __truediv__(self, other: Any) -> Exact:
        if Exact.of(other).value == 0:
            raise Inexact("division by 0")
        return self._both(other, lambda a, b: a / b)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other: Any) -> Exact:
        return Exact.of(other) - self

    def __rtruediv__(self, other: Any) -> Exact:
        return Exact.of(other) / self

    def __pow__(self, other: Any) -> Exact:
        b = Exact.of(other)
        whole = isinstance(b.value, Fraction) and b.value.denominator == 1
        if whole and isinstance(self.value, Fraction):
            if self.value == 0 and b.value < 0:
                raise Inexact("division by 0")
            return Exact(Fraction(self.value ** int(b.value)))
        if self.wide() <= 0:
            raise Inexact("a power of what is not positive")
        return Exact(self.wide() ** b.wide())

    def __neg__(self) -> Exact:
        return Exact(-self.value)

    def __abs__(self) -> Exact:
        return Exact(abs(self.value))

    def __eq__(self, other: Any) -> bool:
        return bool(self.wide() == Exact.of(other).wide())

    def __lt__(self, other: Any) -> bool:
        return bool(self.wide() < Exact.of(other).wide())

    def __le__(self, other: Any) -> bool:
        return bool(self.wide() <= Exact.of(other).wide())

    def __gt__(self, other: Any) -> bool:
        return bool(self.wide() > Exact.of(other).wide())

    def __ge__(self, other: Any) -> bool:
        return bool(self.wide() >= Exact.of(other).wide())

    def __hash__(self) -> int:
        return hash(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    # -- what np.exp and its kin call on objects ---------------------------------------

    def exp(self) -> Exact:
        return Exact(self.wide().exp())

    def log(self) -> Exact:
        if self.wide() <= 0:
            raise Inexact("logarithm of what is not positive")
        return Exact(self.wide().ln())

    def log1p(self) -> Exact:
        return (self + 1).log()

    def expm1(self) -> Exact:
        return self.exp() - 1

    def sqrt(self) -> Exact:
        if self.wide() < 0:
            raise Inexact("root of a negative")
        return Exact(self.wide().sqrt())

    def tanh(self) -> Exact:
        e = (self + self).exp()
        return (e - 1) / (e + 1)


def _abs(x: Any) -> Any:
    return np.abs(x)


def _softplus(x: Any) -> Any:
    return np.log1p(np.exp(x))


# Ops whose NumPy rule asks for a float's own functions.
RULES: dict[str, Callable[..., Any]] = {
    "Relu": lambda x: np.where(x > 0, x, x * 0),
    "Sign": lambda x: np.where(x > 0, 1, np.where(x < 0, -1, 0)) + x * 0,
    "Softplus": _softplus,
    "LogSigmoid": lambda x: -_softplus(-x),
    "Sigmoid": lambda x: 1 / (np.exp(-x) + 1),
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "LogAddExp": lambda x, y: np.log(np.exp(x) + np.exp(y)),
    "ScaleGradient": lambda x, y: x + y * 0,
    "ClipGradient": lambda x, y: x + y * 0,
    "OneHot": None,  # type: ignore[dict-item]
}


def _apply(node: Tensor, operands: Sequence[Any]) -> Any:
    op: Any = node.op
    name = type(op).__name__
    with np.errstate(all="ignore"):
        if name in ("Softmax", "LogSoftmax", "LogSumExp"):
            return _softmax(name, op, *operands)
        if name == "Cast":
            source = node.inputs[0].type.dtype
            if not is_lossless(source, op.dtype):
                raise Inexact("a cast that rounds")
            return exact(operands[0]) if op.dtype.kind == "f" else operands[0]
        if name == "Mean":
            x = operands[0]
            count = int(np.prod([x.shape[k] for k in op.axes], dtype=int))
            if not count:
                raise Inexact("mean of nothing")
            return x.sum(op.axes, keepdims=op.keepdims) / count
        rule = RULES.get(name, op.numpy)
        if rule is None:
            raise Inexact(name)
        return rule(*operands)


def _softmax(name: str, op: Any, x: Any) -> Any:
    e = np.exp(x)
    if name == "LogSumExp":
        return np.log(e.sum(op.axes, keepdims=op.keepdims))
    total = e.sum(op.axis, keepdims=True)
    return e / total if name == "Softmax" else x - np.log(total)


def exact(array: Any) -> Any:
    """An array of exact numbers."""
    array = np.asarray(array)
    if array.dtype == object:
        return array
    flat = np.empty(array.size, object)
    flat[:] = [Exact.of(v) for v in array.ravel()]
    return flat.reshape(array.shape)


def _is_exact(array: Any) -> bool:
    return array.dtype == object and all(isinstance(v, Exact) for v in array.flat)


def floats(array: Any) -> Any:
    """`exact` for an array of floats; others stay what they are."""
    return exact(array) if np.asarray(array).dtype.kind == "f" else np.asarray(array)


def evaluate(
    roots: Sequence[Tensor], values: Sequence[Any], digits: int = DIGITS
) -> list[Any]:
    """The roots for values of the arguments; Inexact where that has no answer."""
    made: dict[int, Any] = {}
    with localcontext() as context:
        context.prec = digits
        context.Emax, context.Emin = 10**15, -(10**15)
        for node in reach(roots):
            if isinstance(node.op, Argument):
                made[node.serial] = floats(values[node.op.position])
            elif node.stored is not None and not node.inputs:
                if not np.isfinite(np.asarray(node.stored, float)).all():
                    raise Inexact("an infinite constant")
                made[node.serial] = floats(node.stored)
            else:
                operands = [made[x.serial] for x in node.inputs]
                try:
                    found = np.asarray(_apply(node, operands))
                except (TypeError, AttributeError, ArithmeticError) as error:
                    raise Inexact(f"{node.op}: {error}") from None
                if node.type.dtype.kind == "f" and not _is_exact(found):
                    raise Inexact(type(node.op).__name__)
                made[node.serial] = np.broadcast_to(found, node.type.shape)
        return [made[root.serial] for root in roots]
