"""Inverses and determinants of matrices."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treadle.base.dtypes import complex64, kind, real_of
from treadle.base.errors import RunError
from treadle.base.types import TupleType, Type
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Input, Mistake, Sample, op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.contract import matmul
from treadle.ops.families import outputs_of
from treadle.ops.matrices import (
    SINGULAR,
    OfMatrices,
    adjoint,
    of_square,
    of_stacks,
    solved,
    square,
    well,
)
from treadle.ops.rearrange import matrix_transpose
from treadle.ops.select import where


def per_matrix(g: Tensor) -> Tensor:
    """g[...] as g[..., 1, 1]: it scales matrices."""
    return g.reshape(*g.type.shape, 1, 1)


class OfSquare(OfMatrices):
    """An op on one stack of square matrices."""

    __slots__ = ()
    arity = 1

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls(), (well(3, 3),)),
            Sample(cls(), (well(2, 1, 4, 4),), None, False),
            Sample(cls(), (Input((2, 1, 1), low=0.5, high=2.0),)),
            Sample(cls(), (Input((0, 0)),), ()),
            Sample(cls(), (well(2, 3, 3, dtype=complex64),), ()),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        return [of_square(cls)]


@op()
class Inverse(OfSquare):
    """The inverse of square matrices x[..., n, n]."""

    def infer_matrices(self, *types: Type) -> Any:
        square(types[0], hint=SINGULAR)
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        return solved(np.linalg.inv, *arrays, hint=SINGULAR)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        back = adjoint(y)
        return (-matmul(matmul(back, g), back),)

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        zero = as_tensor(np.zeros((2, 2), np.float32))
        return [Mistake(lambda: cls()(zero).numpy(), RunError, "Singular matrix")]


@of_stacks
def inv(x: Any) -> Tensor:
    """The inverse of matrices x[..., n, n]; an error where one is singular.

    Gradient -y^H g y^H (Giles, Collected matrix derivative results, 2008).

    >>> td.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return Inverse()(as_float(x))


@op()
class Determinant(OfSquare):
    """The determinants of square matrices x[..., n, n].

    Its derivative is right for singular matrices too; the second one is not there.
    """

    def infer_matrices(self, *types: Type) -> Any:
        square(types[0])
        return types[0].with_shape(types[0].shape[:-2])

    def numpy(self, *arrays: Any) -> Array:
        return np.asarray(np.linalg.det(*arrays))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (per_matrix(g) * functions.conj(Cofactors()(*xs)),)


@of_stacks
def det(x: Any) -> Tensor:
    """The determinants of matrices x[..., n, n].

    The derivative by an element is its cofactor (Jacobi's formula).

    >>> f"{float(td.linalg.det([[2.0, 1.0], [1.0, 3.0]])):.4f}"
    '5.0000'
    """
    return Determinant()(as_float(x))


@op()
class Cofactors(OfSquare):
    """The cofactor of each element of square matrices, singular ones too."""

    def infer_matrices(self, *types: Type) -> Any:
        square(types[0])
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        # By the singular values, each of which is left out of the product once.
        u, s, vh = np.linalg.svd(*arrays)
        n = s.shape[-1]
        others = np.where(np.eye(n, dtype=bool), s.dtype.type(1), s[..., None, :])
        phase = np.linalg.det(u) * np.linalg.det(vh)
        minors = np.conj(u * np.prod(others, -1)[..., None, :]) @ np.conj(vh)
        return np.asarray(phase[..., None, None] * minors)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        (x,) = xs
        whole = per_matrix(det(x)) * matrix_transpose(inv(x))
        return functions.pullback(whole, g, xs)


@of_stacks
def cofactors(x: Any) -> Tensor:
    """The cofactors of matrices x[..., n, n]: the derivatives of the determinant.

    >>> found = td.linalg.cofactors([[2.0, 1.0], [5.0, 3.0]]).tolist()
    >>> [[round(v, 3) for v in row] for row in found]
    [[3.0, -5.0], [-1.0, 2.0]]
    """
    return Cofactors()(as_float(x))


@op()
class SlogDet(OfSquare):
    """The sign of the determinant and the logarithm of its absolute value."""

    def infer_matrices(self, t: Type) -> Any:
        square(t)
        sign = t.with_shape(t.shape[:-2])
        return TupleType((sign, sign.with_dtype(real_of(t.dtype))))

    def numpy(self, *arrays: Any) -> Any:
        return tuple(np.linalg.slogdet(*arrays))

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        sign, log = g
        weight: Any = None if log is None else astype(log, x.type.dtype)
        if sign is not None and kind(x.type.dtype) == "complex":
            turned = functions.imag(sign * functions.conj(outputs_of(y)[0]))
            phase = astype(turned, x.type.dtype) * 1j
            weight = phase if weight is None else weight + phase
        if weight is None:
            return (None,)
        return (per_matrix(weight) * adjoint(inv(x)),)


class SignAndLog(NamedTuple):
    """The results of `slogdet`."""

    sign: Tensor
    logabsdet: Tensor


@of_stacks
def slogdet(x: Any) -> SignAndLog:
    """The sign and the logarithm of the absolute value of determinants: no overflow.

    Gradient of the logarithm x^-H (Giles 2008).

    >>> [round(float(v), 4) for v in td.linalg.slogdet([[0.0, 1.0], [1.0, 0.0]])]
    [-1.0, 0.0]
    """
    return SignAndLog(*outputs_of(SlogDet()(as_float(x))))


@of_stacks
def logdet(x: Any) -> Tensor:
    """log(det(x)): NaN where the determinant is negative, -inf where it is 0.

    >>> f"{float(td.linalg.logdet([[2.0, 0.0], [0.0, 3.0]])):.4f}"
    '1.7918'
    """
    sign, log = slogdet(x)
    if kind(sign.type.dtype) == "complex":
        return functions.log(sign) + log
    return where(sign >= 0, log, np.nan)
