"""Inverses, determinants and exponentials of matrices; the Moore-Penrose inverse."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from treadle.base.dtypes import kind, real_of
from treadle.base.errors import ShapeError
from treadle.base.types import TupleType, Type
from treadle.graph.leaves import zeros_of
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.tolerance import unit
from treadle.ops.cast import as_float, astype
from treadle.ops.contract import matmul
from treadle.ops.families import outputs_of
from treadle.ops.matrices import (
    SINGULAR,
    OfMatrices,
    adjoint,
    adjoint_of,
    identity,
    matrices,
    of_stacks,
    solved,
    square,
    stacked_names,
)
from treadle.ops.movement import broadcast_to
from treadle.ops.rearrange import matrix_transpose
from treadle.ops.select import where


def per_matrix(g: Tensor) -> Tensor:
    """g[...] as g[..., 1, 1]: it scales matrices."""
    return g.reshape(*g.type.shape, 1, 1)


class OfSquare(OfMatrices):
    """An op on one stack of square matrices."""

    __slots__ = ()
    arity = 1


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


@op()
class PseudoInverse(OfMatrices):
    """The Moore-Penrose inverse of matrices; small singular values count as 0.

    The second input has a number for each matrix: what is at most that times the
    largest is small.
    """

    arity = 2

    def infer(self, *types: Type) -> Type:
        t, bound = types
        matrices(t)
        if bound.shape != t.shape[:-2] or kind(bound.dtype) != "float":
            raise ShapeError(f"bounds are floats of shape {t.shape[:-2]}, not {bound}")
        result = t.with_shape((*t.shape[:-2], *t.shape[:-3:-1]))
        return cast(Type, stacked_names(result, types))

    def numpy(self, x: Any, bound: Any) -> Array:
        if not x.size:
            return np.zeros((*x.shape[:-2], *x.shape[:-3:-1]), x.dtype)
        u, s, vh = solved(lambda a: np.linalg.svd(a, full_matrices=False), x)
        large = s > np.asarray(bound)[..., None] * s.max(-1, keepdims=True)
        inner = np.where(large, 1 / np.where(large, s, 1), 0).astype(s.dtype)
        return adjoint_of(vh) * inner[..., None, :] @ adjoint_of(u)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        x, p, ph, gh = xs[0], y, adjoint(y), adjoint(g)
        m, n = x.type.shape[-2:]
        left = matmul(identity(x, m) - matmul(x, p), gh)
        right = matmul(gh, identity(x, n) - matmul(p, x))
        gradient = matmul(matmul(left, p), ph) + matmul(ph, matmul(p, right))
        return gradient - matmul(matmul(ph, g), ph), None


@of_stacks
def pinv(x: Any, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse of matrices x[..., m, n]: y[..., n, m].

    Singular values up to `rtol` times the largest count as 0, by default max(m, n)
    units of rounding. Its gradient is right where the rank does not change (Golub and
    Pereyra, The differentiation of pseudo-inverses, 1973).

    >>> td.linalg.pinv([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    node = as_float(x)
    t = node.type
    real = real_of(t.dtype)
    if rtol is None:
        rtol = max(t.shape[-2:], default=1) * 2 * unit(real)
    bound = broadcast_to(astype(as_float(rtol), real), t.shape[:-2])
    return PseudoInverse()(node, bound)


# Coefficients of Padé's approximant of order 13, and the norm it is exact up to in
# double precision (Higham, 2005).
_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800,
    129060195264000, 10559470521600, 670442572800, 33522128640, 1323241920, 40840800,
    960960, 16380, 182, 1,
)  # fmt: skip
_NORM = 5.371920351148152


def _exponential(x: Array) -> Array:
    """e**x of one matrix in double precision: Padé of a part, then squared."""
    norm = np.abs(x).sum(0).max(initial=0.0)
    if not np.isfinite(norm):
        return np.full_like(x, np.nan)
    times = max(0, int(np.ceil(np.log2(norm / _NORM)))) if norm > _NORM else 0
    x = x / 2.0**times
    one = np.eye(len(x), dtype=x.dtype)
    b, square = _PADE, x @ x
    fourth = square @ square
    sixth = fourth @ square
    odd = sixth @ (b[13] * sixth + b[11] * fourth + b[9] * square)
    odd = x @ (odd + b[7] * sixth + b[5] * fourth + b[3] * square + b[1] * one)
    even = sixth @ (b[12] * sixth + b[10] * fourth + b[8] * square)
    even = even + b[6] * sixth + b[4] * fourth + b[2] * square + b[0] * one
    y = np.linalg.solve(even - odd, even + odd)
    for _ in range(times):
        y = y @ y
    return y


@op()
class MatrixExp(OfMatrices):
    """e**x = 1 + x + x x / 2 + ... of square matrices x[..., n, n]."""

    arity = 1

    def infer_matrices(self, *types: Type) -> Any:
        square(types[0])
        return types[0]

    def numpy(self, x: Any) -> Array:
        wide = x.astype(np.result_type(x.dtype, np.float64))
        exponentials = np.empty_like(x)
        for place in np.ndindex(x.shape[:-2]):
            if x.shape[-1]:
                exponentials[place] = _exponential(wide[place])
        return exponentials

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        # The derivative along g stands beside the diagonal of e**[[x^H, g], [0, x^H]].
        back, n = adjoint(xs[0]), xs[0].type.shape[-1]
        zero = zeros_of(Type(g.type.shape, g.type.dtype))
        above = functions.concat([back, g], -1)
        below = functions.concat([zero, back], -1)
        whole = MatrixExp()(functions.concat([above, below], -2))
        return (whole[..., :n, n:],)


@of_stacks
def matrix_exp(x: Any) -> Tensor:
    """e**x = 1 + x + x x / 2 + ... of matrices x[..., n, n].

    By scaling and squaring (Higham, The scaling and squaring method for the matrix
    exponential revisited, 2005); its derivative is a block of the exponential of twice
    the order (Najfeld and Havel, 1995).

    >>> turn = td.linalg.matrix_exp([[0.0, -1.5707963], [1.5707963, 0.0]])
    >>> [[round(v, 4) + 0.0 for v in row] for row in turn.tolist()]
    [[0.0, -1.0], [1.0, 0.0]]
    """
    return MatrixExp()(as_float(x))
