"""Activations of one element: relu, sigmoid, gelu and their kin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.dtypes import kind
from treadle.base.errors import ArgumentError
from treadle.graph.op import Array, Cotangents, Input, op
from treadle.graph.operators import functions, provide
from treadle.graph.recorded import recorded
from treadle.graph.tensor import Tensor
from treadle.ops.align import unary
from treadle.ops.cast import as_float
from treadle.ops.families import Elementwise

__all__ = [
    "gelu",
    "log_sigmoid",
    "mish",
    "relu",
    "selu",
    "sigmoid",
    "silu",
    "softplus",
    "softsign",
]

SQRT_HALF = 0.7071067811865476
NORMAL = 0.3989422804014327  # 1 / sqrt(2 pi)
SELU_ALPHA = 1.6732632423543772
SELU_SCALE = 1.0507009873554805
_erfc = np.frompyfunc(math.erfc, 1, 1)


class Activation(Elementwise):
    """A function of one float element."""

    __slots__ = ()
    arity = 1
    takes = "float"
    domain = (Input(low=-3, high=3, apart=0.05),)


def _sigmoid(x: Any) -> Any:
    # An overflow gives 0, which is right but for numbers below the smallest normal one.
    return 1.0 / (functions.exp(-x) + 1.0)


@op(tolerance="E", idempotent=True)
class Relu(Activation):
    """max(x, 0); its derivative at 0 is 0."""

    def numpy(self, x: Any) -> Array:
        return np.maximum(x, np.zeros((), x.dtype))

    def scalar(self, x: Any) -> Any:
        return functions.maximum(x, 0)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        return (functions.where(x > 0, g, 0),)


@provide
@recorded
def relu(x: Any) -> Tensor:
    """max(x, 0); its derivative at 0 is 0.

    >>> [f"{v:.4f}" for v in td.relu([-1.0, 2.0]).tolist()]
    ['0.0000', '2.0000']
    """
    return unary(Relu(), x)


@op(tolerance="R")
class Sigmoid(Activation):
    """1 / (1 + e**-x), exact on both sides."""

    def numpy(self, x: Any) -> Array:
        return np.where(
            x >= 0,
            1 / (1 + np.exp(-np.abs(x))),
            np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))),
        ).astype(x.dtype)

    def scalar(self, x: Any) -> Any:
        return _sigmoid(x)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g * y * (1.0 - y),)


@provide
@recorded
def sigmoid(x: Any) -> Tensor:
    """1 / (1 + e**-x), exact on both sides; complex numbers too.

    >>> [f"{v:.4f}" for v in td.sigmoid([-1.0, 2.0]).tolist()]
    ['0.2689', '0.8808']
    """
    node = as_float(x)
    if kind(node.type.dtype) != "complex":
        return Sigmoid()(node)
    right = functions.real(node) >= 0
    small = functions.exp(functions.where(right, -node, node))
    return functions.where(right, 1.0, small) / (small + 1.0)


@op(tolerance="R")
class LogSigmoid(Activation):
    """The logarithm of the sigmoid, without overflow."""

    def numpy(self, x: Any) -> Array:
        return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))

    def scalar(self, x: Any) -> Any:
        return functions.minimum(x, 0) - functions.log1p(
            functions.exp(-functions.abs(x))
        )

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        return (g * sigmoid(-x),)


@provide
@recorded
def log_sigmoid(x: Any) -> Tensor:
    """The logarithm of the sigmoid, without overflow.

    >>> [f"{v:.4f}" for v in td.log_sigmoid([-1.0, 2.0]).tolist()]
    ['-1.3133', '-0.1269']
    """
    return unary(LogSigmoid(), x)


@op(tolerance="R")
class Softplus(Activation):
    """log(1 + e**x), without overflow."""

    def numpy(self, x: Any) -> Array:
        return np.logaddexp(x, np.zeros((), x.dtype))

    def scalar(self, x: Any) -> Any:
        return functions.maximum(x, 0) + functions.log1p(
            functions.exp(-functions.abs(x))
        )

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        return (g * sigmoid(x),)


@provide
@recorded
def softplus(x: Any) -> Tensor:
    """log(1 + e**x), without overflow.

    >>> [f"{v:.4f}" for v in td.softplus([-1.0, 2.0]).tolist()]
    ['0.3133', '2.1269']
    """
    return unary(Softplus(), x)


@op(tolerance="R")
class Softsign(Activation):
    """x / (1 + |x|)."""

    def numpy(self, x: Any) -> Array:
        return x / (1 + np.abs(x))

    def scalar(self, x: Any) -> Any:
        return x / (functions.abs(x) + 1.0)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        return (g * functions.square(1.0 / (functions.abs(x) + 1.0)),)


@provide
def softsign(x: Any) -> Tensor:
    """x / (1 + |x|).

    >>> [f"{v:.4f}" for v in td.softsign([-1.0, 2.0]).tolist()]
    ['-0.5000', '0.6667']
    """
    return unary(Softsign(), x)


@op(tolerance="R")
class Silu(Activation):
    """x sigmoid(x), also named swish."""

    def numpy(self, x: Any) -> Array:
        return x / (1 + np.exp(-x))

    def scalar(self, x: Any) -> Any:
        return x * functions.sigmoid(x)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        return (g * sigmoid(x) * (x * sigmoid(-x) + 1.0),)


@provide
@recorded
def silu(x: Any) -> Tensor:
    """x sigmoid(x), also named swish (Elfwing et al., 2018); complex numbers too.

    >>> [f"{v:.4f}" for v in td.silu([-1.0, 2.0]).tolist()]
    ['-0.2689', '1.7616']
    """
    node = as_float(x)
    if kind(node.type.dtype) == "complex":
        return node * sigmoid(node)
    return Silu()(node)


@op(tolerance="R")
class Gelu(Activation):
    """x times the normal distribution function of x."""

    def numpy(self, x: Any) -> Array:
        return (0.5 * x * _erfc(x * -SQRT_HALF)).astype(x.dtype)

    def scalar(self, x: Any) -> Any:
        return x * 0.5 * functions.erfc(x * -SQRT_HALF)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        return (
            g
            * (
                functions.erfc(x * -SQRT_HALF) * 0.5
                + x * functions.exp(-0.5 * x * x) * NORMAL
            ),
        )


@provide
@recorded
def gelu(x: Any, approximate: str = "none") -> Tensor:
    """x times the normal distribution function of x (Hendrycks and Gimpel, 2016).

    With `approximate="tanh"` by a tanh, within 5e-4: `gelu_tanh`.

    >>> [f"{v:.4f}" for v in td.gelu([-1.0, 2.0]).tolist()]
    ['-0.1587', '1.9545']
    """
    if approximate not in ("none", "tanh"):
        raise ArgumentError(
            f"approximate is 'none' or 'tanh', not {approximate!r}"
        ).located("gelu")
    return functions.gelu_tanh(x) if approximate == "tanh" else unary(Gelu(), x)


@op(tolerance="R")
class Selu(Activation):
    """Scaled elu that keeps mean 0 and variance 1."""

    def numpy(self, x: Any) -> Array:
        return (
            SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0)))
        ).astype(x.dtype)

    def scalar(self, x: Any) -> Any:
        return (
            functions.where(
                x > 0, x, functions.expm1(functions.minimum(x, 0)) * SELU_ALPHA
            )
            * SELU_SCALE
        )

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        return (g * functions.where(x > 0, SELU_SCALE, y + SELU_SCALE * SELU_ALPHA),)


@provide
def selu(x: Any) -> Tensor:
    """Scaled elu that keeps mean 0 and variance 1 (Klambauer et al., 2017).

    >>> [f"{v:.4f}" for v in td.selu([-1.0, 2.0]).tolist()]
    ['-1.1113', '2.1014']
    """
    return unary(Selu(), x)


@op(tolerance="R")
class Mish(Activation):
    """x tanh(softplus(x))."""

    def numpy(self, x: Any) -> Array:
        return x * np.tanh(np.logaddexp(x, np.zeros((), x.dtype)))

    def scalar(self, x: Any) -> Any:
        return x * functions.tanh(functions.softplus(x))

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        return (
            g
            * (
                functions.tanh(softplus(x))
                + x * (1.0 - functions.square(functions.tanh(softplus(x)))) * sigmoid(x)
            ),
        )


@provide
def mish(x: Any) -> Tensor:
    """x tanh(softplus(x)) (Misra, 2019).

    >>> [f"{v:.4f}" for v in td.mish([-1.0, 2.0]).tolist()]
    ['-0.3034', '1.9440']
    """
    return unary(Mish(), x)
