"""Eigenvalues, Hermitian or not, and singular values, with their vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treadle.base.dtypes import complex_of, kind, real_of
from treadle.base.types import TupleType, Type
from treadle.graph.op import Cotangents, op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.contract import matmul
from treadle.ops.elementwise import conj
from treadle.ops.factor import completed
from treadle.ops.families import outputs_of
from treadle.ops.matrices import (
    OfMatrices,
    adjoint,
    as_column,
    as_row,
    hermitian_part,
    identity,
    mirrored,
    of_stacks,
    on_diagonal,
    solved,
    square,
)
from treadle.ops.solve import solve


def over_gaps(x: Tensor, gap: Tensor) -> Tensor:
    """x / gap with 0 on the diagonal; not finite where two of the values are equal."""
    one = identity(gap, gap.type.shape[-1])
    return x * (1 - one) / (gap + one)


@op()
class Eigh(OfMatrices):
    """Rising eigenvalues, and eigenvectors, of the Hermitian part of matrices."""

    arity = 1

    def infer_matrices(self, t: Type) -> Any:
        square(t)
        values = t.with_shape(t.shape[:-1])
        return TupleType((values.with_dtype(real_of(t.dtype)), t))

    def numpy(self, *arrays: Any) -> Any:
        return tuple(solved(np.linalg.eigh, hermitian_part(arrays[0])))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        w, v = outputs_of(y)
        gw, gv = g
        inner: Any = None
        if gw is not None:
            inner = on_diagonal(astype(gw, v.type.dtype))
        if gv is not None:
            gaps = astype(as_row(w) - as_column(w), v.type.dtype)
            rotation = over_gaps(matmul(adjoint(v), gv), gaps)
            inner = rotation if inner is None else inner + rotation
        if inner is None:
            return (None,)
        return (mirrored(matmul(matmul(v, inner), adjoint(v))),)


class EighFactors(NamedTuple):
    """The results of `eigh`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@of_stacks
def eigh(x: Any) -> EighFactors:
    """The eigenvalues w[..., n], rising, and vectors v[..., n, n] of Hermitian x.

    x v[..., k] = w[..., k] v[..., k]. Of x its Hermitian part counts. Gradient by Giles
    2008; of vectors it is defined where eigenvalues differ, and else not finite.

    >>> w, v = td.linalg.eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> [round(x, 4) for x in w.tolist()]
    [1.0, 3.0]
    """
    return EighFactors(*outputs_of(Eigh()(as_float(x))))


@of_stacks
def eigvalsh(x: Any) -> Tensor:
    """The eigenvalues of Hermitian matrices x[..., n, n], rising.

    >>> [round(x, 4) for x in td.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]]).tolist()]
    [1.0, 3.0]
    """
    return eigh(x)[0]


@op()
class SVD(OfMatrices):
    """U[m, k], the falling singular values s[k] and V^H[k, n], k = min(m, n)."""

    arity = 1

    def infer_matrices(self, t: Type) -> Any:
        lead, (m, n) = t.shape[:-2], t.shape[-2:]
        k = min(m, n)
        values = Type((*lead, k), real_of(t.dtype))
        u, vh = t.with_shape((*lead, m, k)), t.with_shape((*lead, k, n))
        return TupleType((u, values, vh))

    def numpy(self, *arrays: Any) -> Any:
        return tuple(solved(lambda x: np.linalg.svd(x, full_matrices=False), *arrays))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        u, s, vh = outputs_of(y)
        return (_svd_gradient(g, u, astype(s, u.type.dtype), adjoint(vh)),)


def _svd_gradient(g: Any, u: Tensor, s: Tensor, v: Tensor) -> Tensor | None:
    """The cotangent of x = u s v^H from those of u, s and v^H, or some of them."""
    gu, gs, gvh = g
    row, column = as_row(s), as_column(s)
    gaps = (row - column) * (row + column)
    inner: Any = None
    outer: Any = None
    if gs is not None:
        inner = on_diagonal(astype(gs, u.type.dtype))
    if gu is not None:
        along = matmul(adjoint(u), gu)
        rotation = over_gaps(along - adjoint(along), gaps) * row
        if kind(u.type.dtype) == "complex":
            # The phases of a pair of vectors are free: they are put on u.
            phase = functions.imag(functions.diagonal(along))
            rotation = rotation + on_diagonal(astype(phase, u.type.dtype) * 1j / s)
        inner = rotation if inner is None else inner + rotation
        if u.type.shape[-2] > s.type.shape[-1]:
            outer = matmul((gu - matmul(u, along)) / row, adjoint(v))
    if gvh is not None:
        gv = adjoint(gvh)
        along = matmul(adjoint(v), gv)
        rotation = column * over_gaps(along - adjoint(along), gaps)
        inner = rotation if inner is None else inner + rotation
        if v.type.shape[-2] > s.type.shape[-1]:
            rest = matmul(u, adjoint((gv - matmul(v, along)) / row))
            outer = rest if outer is None else outer + rest
    if inner is None:
        return None
    gradient = matmul(matmul(u, inner), adjoint(v))
    return gradient if outer is None else gradient + outer


class SVDFactors(NamedTuple):
    """The results of `svd`."""

    U: Tensor
    S: Tensor
    Vh: Tensor


@of_stacks
def svd(x: Any, *, full_matrices: bool = True) -> SVDFactors:
    """U[..., m, m], s[..., k] and V^H[..., n, n] of x[..., m, n], k = min(m, n).

    Without `full_matrices` U[..., m, k] and V^H[..., k, n]: x = U diag(s) V^H with
    orthonormal columns, s >= 0 falling. Gradient by Townsend, Differentiating the
    singular value decomposition, 2016; of vectors it is defined where singular values
    differ and are not 0, and else not finite.

    >>> u, s, vh = td.linalg.svd([[0.0, 2.0], [3.0, 0.0]])
    >>> [round(v, 4) for v in s.tolist()]
    [3.0, 2.0]
    """
    u, s, vh = outputs_of(SVD()(as_float(x)))
    if full_matrices:
        u, vh = completed(u), adjoint(completed(adjoint(vh)))
    return SVDFactors(u, s, vh)


@of_stacks
def svdvals(x: Any) -> Tensor:
    """The singular values of matrices x[..., m, n], falling.

    >>> [round(v, 4) for v in td.linalg.svdvals([[0.0, 2.0], [3.0, 0.0]]).tolist()]
    [3.0, 2.0]
    """
    return svd(x, full_matrices=False)[1]


@op()
class Eig(OfMatrices):
    """Eigenvalues, and eigenvectors of length 1, of square matrices: complex."""

    arity = 1

    def infer_matrices(self, t: Type) -> Any:
        square(t)
        wide = t.with_dtype(complex_of(t.dtype))
        return TupleType((wide.with_shape(t.shape[:-1]), wide))

    def numpy(self, *arrays: Any) -> Any:
        w, v = solved(np.linalg.eig, *arrays)
        dtype = complex_of(arrays[0].dtype)  # NumPy's are real where all values are
        return w.astype(dtype), v.astype(dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        w, v = outputs_of(y)
        gw, gv = g
        inner: Any = None
        if gw is not None:
            inner = on_diagonal(gw)
        if gv is not None:
            # What changes the lengths of vectors, which stay 1, is taken away.
            along = matmul(adjoint(v), gv)
            lengths = astype(functions.real(functions.diagonal(along)), v.type.dtype)
            along = along - matmul(adjoint(v), v) * as_row(lengths)
            rotation = over_gaps(along, conj(as_row(w) - as_column(w)))
            inner = rotation if inner is None else inner + rotation
        if inner is None:
            return (None,)
        back = adjoint(v)
        gradient = solve(back, matmul(inner, back))
        real = kind(xs[0].type.dtype) != "complex"
        return (functions.real(gradient) if real else gradient,)


class EigFactors(NamedTuple):
    """The results of `eig`."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@of_stacks
def eig(x: Any) -> EigFactors:
    """The eigenvalues w[..., n] and vectors v[..., n, n] of matrices x[..., n, n].

    x v[..., k] = w[..., k] v[..., k] with vectors of length 1; both are complex, in no
    order. Gradient by Boeddeker et al., On the computation of complex-valued gradients,
    2017; it is defined where eigenvalues differ, and of vectors for what their phases
    do not change.

    >>> w, v = td.linalg.eig([[0.0, 1.0], [-1.0, 0.0]])
    >>> sorted(round(x.imag, 4) for x in w.tolist())
    [-1.0, 1.0]
    """
    return EigFactors(*outputs_of(Eig()(as_float(x))))


@of_stacks
def eigvals(x: Any) -> Tensor:
    """The eigenvalues of matrices x[..., n, n]: complex, in no order.

    >>> w = td.linalg.eigvals([[2.0, 1.0], [0.0, 1.0]]).tolist()
    >>> sorted(round(x.real, 4) for x in w)
    [1.0, 2.0]
    """
    return eig(x)[0]
