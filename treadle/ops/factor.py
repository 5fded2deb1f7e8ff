"""Matrices as products of triangular and orthogonal ones."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from treadle.base.dtypes import kind
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import TupleType, Type
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.contract import matmul
from treadle.ops.families import outputs_of
from treadle.ops.matrices import (
    OfMatrices,
    adjoint,
    hermitian_part,
    identity,
    mirrored,
    of_stacks,
    solved,
    square,
)
from treadle.ops.padding import tril
from treadle.ops.solve import TriangularSolve


def real_diagonal(x: Tensor) -> Tensor:
    """The real part of the diagonal, as diagonal matrices."""
    parts = x * identity(x, x.type.shape[-1])
    if kind(x.type.dtype) != "complex":
        return parts
    return astype(functions.real(parts), x.type.dtype)


def below(x: Tensor) -> Tensor:
    """x below its diagonal, and half of what is on it."""
    return tril(x, -1) + real_diagonal(x) * 0.5


def over_upper(x: Tensor, r: Tensor) -> Tensor:
    """x r^-H for an upper triangular r."""
    return adjoint(TriangularSolve(True)(r, adjoint(x)))


@op()
class Cholesky(OfMatrices):
    """The lower triangular L of x = L L^H, for the Hermitian part x of matrices."""

    arity = 1

    def infer_matrices(self, *types: Type) -> Any:
        square(types[0])
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        return solved(
            np.linalg.cholesky,
            hermitian_part(arrays[0]),
            hint="add a small multiple of the identity: x + eps * td.eye(n)",
        )

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        inner = below(matmul(adjoint(y), g))
        # y^-H inner y^-1, each side a triangular system.
        left = TriangularSolve(True)(adjoint(y), inner)
        return (mirrored(over_upper(left, adjoint(y))),)


@of_stacks
def cholesky(x: Any, *, upper: bool = False) -> Tensor:
    """The triangular L of x = L L^H for positive definite x[..., n, n]; L^H if `upper`.

    Of x its Hermitian part counts. Gradient by Murray, Differentiation of the Cholesky
    decomposition, 2016.

    >>> td.linalg.cholesky([[4.0, 2.0], [2.0, 2.0]]).tolist()
    [[2.0, 0.0], [1.0, 1.0]]
    """
    factor = Cholesky()(as_float(x))
    return adjoint(factor) if upper else factor


@op()
class QR(OfMatrices):
    """Orthonormal columns Q[m, k] and upper triangular R[k, n], k = min(m, n)."""

    arity = 1

    def infer_matrices(self, t: Type) -> Any:
        lead, (m, n) = t.shape[:-2], t.shape[-2:]
        k = min(m, n)
        return TupleType((t.with_shape((*lead, m, k)), t.with_shape((*lead, k, n))))

    def numpy(self, *arrays: Any) -> Any:
        return tuple(solved(np.linalg.qr, *arrays))

    def vjp(self, g: Any, y: Any, x: Tensor) -> Cotangents:
        q, r = outputs_of(y)
        pairs = zip(g, (q, r), strict=True)
        gq, gr = (z * 0 if part is None else part for part, z in pairs)
        m, n = x.type.shape[-2:]
        if m >= n:
            return (_qr_gradient(gq, gr, q, r),)
        # x = [a b] = q [u v] with q and u of a alone, and v = q^H b.
        b, gu, gv = x[..., m:], gr[..., :m], gr[..., m:]
        ga = _qr_gradient(gq + matmul(b, adjoint(gv)), gu, q, r[..., :m])
        return (functions.concat([ga, matmul(q, gv)], -1),)


def _qr_gradient(gq: Tensor, gr: Tensor, q: Tensor, r: Tensor) -> Tensor:
    """The cotangent of x = q r with as many columns as r, which is square."""
    inner = below(matmul(r, adjoint(gr)) - matmul(adjoint(gq), q))
    return over_upper(gq + matmul(q, inner + adjoint(inner)), r)


@op()
class Complement(OfMatrices):
    """Orthonormal columns N[m, m - k] that complete those of Q[m, k] to a basis."""

    arity = 1

    def infer_matrices(self, t: Type) -> Any:
        m, k = t.shape[-2:]
        if k > m:
            raise ShapeError(f"{k} columns of {m} elements are not independent")
        return t.with_shape((*t.shape[:-1], m - k))

    def numpy(self, q: Any) -> Array:
        whole = solved(lambda x: np.linalg.qr(x, mode="complete"), q)[0]
        return whole[..., q.shape[-1] :]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        # Of the bases of the complement, the one that does not rotate in itself.
        return (-matmul(y, matmul(adjoint(g), xs[0])),)


def completed(q: Tensor) -> Tensor:
    """Orthonormal columns Q[m, k] completed to an orthonormal basis [m, m]."""
    m, k = q.type.shape[-2:]
    return q if m == k else cast(Tensor, functions.concat([q, Complement()(q)], -1))


class QRFactors(NamedTuple):
    """The results of `qr`."""

    Q: Tensor
    R: Tensor


@of_stacks
def qr(x: Any, *, mode: str = "reduced") -> QRFactors:
    """Q and R of x = Q R: x[..., m, n], Q[..., m, k], R[..., k, n], k = min(m, n).

    Q^H Q = 1 and R is upper triangular; with mode="complete" k = m. Gradient by Walter
    and Lehmann, Algorithmic differentiation of linear algebra functions, 2012; it needs
    a full rank of the first min(m, n) columns.

    >>> q, r = td.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> [[round(v, 4) for v in row] for row in (q @ r).tolist()]
    [[3.0, 1.0], [4.0, 2.0]]
    """
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f"mode is 'reduced' or 'complete', not {mode!r}").located(
            "qr"
        )
    q, r = outputs_of(QR()(as_float(x)))
    if mode == "complete":
        lacking = q.type.shape[-2] - q.type.shape[-1]
        q = completed(q)
        still = [(0, 0)] * (r.type.ndim - 2)
        r = functions.pad(r, [*still, (0, lacking), (0, 0)]) if lacking else r
    return QRFactors(q, r)


@of_stacks
def lq(x: Any) -> tuple[Tensor, Tensor]:
    """L and Q of x = L Q: x[..., m, n], L[..., m, k], Q[..., k, n], k = min(m, n).

    Q Q^H = 1 and L is lower triangular: the QR factors of x^H, transposed.

    >>> left, q = td.linalg.lq([[3.0, 4.0]])
    >>> abs(round(float(left), 4))
    5.0
    """
    q, r = qr(adjoint(as_float(x)))
    return adjoint(r), adjoint(q)
