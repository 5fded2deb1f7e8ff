"""Systems of linear equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import RunError, ShapeError
from treadle.base.types import Type
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, operands
from treadle.ops.contract import matmul
from treadle.ops.matrices import (
    SINGULAR,
    OfMatrices,
    adjoint,
    of_stacks,
    solved,
    square,
    stacked,
)
from treadle.ops.padding import tril, triu

BLOCK = 16  # rows of a triangular system that are solved at once
WELL = 1e3  # condition of a block whose inverse is as good as a solution


class System(OfMatrices):
    """a x = b for square a[..., n, n] and b[..., n, k]."""

    __slots__ = ()
    arity = 2

    def infer_matrices(self, a: Type, b: Type) -> Any:
        n = square(a, hint=SINGULAR)
        if b.shape[-2] != n:
            raise ShapeError(
                f"{n} equations with {b.shape[-2]} right-hand values",
                hint="a right-hand side is b[..., n, k], or a vector b[n]",
            )
        return b


@op()
class Solve(System):
    """The x of a x = b, for square a[..., n, n] and b[..., n, k]."""

    def numpy(self, *arrays: Any) -> Array:
        return solved(np.linalg.solve, *arrays, hint=SINGULAR)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        back = Solve()(adjoint(xs[0]), g)
        return -matmul(back, adjoint(y)), back


def _system(op: System, a: Any, b: Any) -> Tensor:
    """`op` on operands of one dtype, whose leading dimensions broadcast."""
    x, y = operands(as_float(a), as_float(b))
    if y.type.ndim == 1:
        column = op(*stacked(x, y.reshape(*y.type.shape, 1)))
        return column.reshape(column.type.shape[:-1])
    return op(*stacked(x, y))


@of_stacks
def solve(a: Any, b: Any) -> Tensor:
    """The x of a x = b: a[..., n, n], b[..., n, k] or one vector b[n].

    Gradients of b: z = solve(a^H, g); of a: -z x^H (Giles 2008).

    >>> td.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    return _system(Solve(), a, b)


def _substituted(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """The solution of a x = b for a triangular a, of which one side is read.

    What a block of rows takes from those that are known is one product, and so is what
    its own inverse makes of that: once more of what is left where blocks are not well
    conditioned, so that it is as exact as rows one by one (Higham, Accuracy and
    Stability of Numerical Algorithms, 2002, 8 and 14.2).
    """
    n = a.shape[-1]
    places = [slice(k, min(k + BLOCK, n)) for k in range(0, n, BLOCK)]
    blocks = np.empty((*a.shape[:-2], len(places), BLOCK, BLOCK), a.dtype)
    blocks[...] = np.eye(BLOCK, dtype=a.dtype)
    for k, rows in enumerate(places):
        size = rows.stop - rows.start
        blocks[..., k, :size, :size] = a[..., rows, rows]
    blocks = np.triu(blocks) if upper else np.tril(blocks)
    if unit:
        blocks[..., range(BLOCK), range(BLOCK)] = 1
    turned = _inverse(np.swapaxes(blocks, -1, -2) if upper else blocks)
    inverses = np.swapaxes(turned, -1, -2) if upper else turned
    inaccurate = (_largest_sum(blocks) * _largest_sum(inverses) > WELL).any()
    x = b.copy()
    for k, rows in reversed([*enumerate(places)]) if upper else enumerate(places):
        known = slice(rows.stop, n) if upper else slice(0, rows.start)
        left = x[..., rows, :]
        if known.start < known.stop:
            left = left - a[..., rows, known] @ x[..., known, :]
        size = rows.stop - rows.start
        inverse = inverses[..., k, :size, :size]
        solution = inverse @ left
        if inaccurate:
            solution += inverse @ (left - blocks[..., k, :size, :size] @ solution)
        x[..., rows, :] = solution
    return x


def _largest_sum(a: Array) -> Array:
    """The norms of matrices, by the sums of magnitudes in their rows."""
    return np.abs(a).sum(-1).max(-1)


def _inverse(a: Array) -> Array:
    """The inverses of lower triangular matrices of a power of two rows, from those of
    halves: [[p, 0], [c, q]] has [[1/p, 0], [-1/q c 1/p, 1/q]]."""
    n = a.shape[-1]
    halves = (1 / np.diagonal(a, axis1=-2, axis2=-1))[..., None, None]
    while halves.shape[-1] < n:
        size = halves.shape[-1]
        each = np.arange(n // (2 * size))
        parts = a.reshape(*a.shape[:-2], len(each), 2, size, len(each), 2, size)
        corners = np.moveaxis(parts[..., each, 1, :, each, 0, :], 0, -3)
        p, q = halves[..., 0::2, :, :], halves[..., 1::2, :, :]
        inverses = np.zeros((*p.shape[:-2], 2 * size, 2 * size), a.dtype)
        inverses[..., :size, :size], inverses[..., size:, size:] = p, q
        inverses[..., size:, :size] = -(q @ corners @ p)
        halves = inverses
    return halves[..., 0, :, :]


@op()
class TriangularSolve(System):
    """The x of a x = b, where only the triangle of a on one side is read.

    With `unit` its diagonal is not read either: it is 1.
    """

    upper: bool = False
    unit: bool = False

    def numpy(self, a: Any, b: Any) -> Array:
        if not self.unit and (np.diagonal(a, axis1=-2, axis2=-1) == 0).any():
            raise RunError("a diagonal element is 0: Singular matrix", hint=SINGULAR)
        return _substituted(a, b, self.upper, self.unit)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        back = TriangularSolve(not self.upper, self.unit)(adjoint(xs[0]), g)
        kept, inner = (triu, int(self.unit)) if self.upper else (tril, -int(self.unit))
        return -kept(matmul(back, adjoint(y)), inner), back


@of_stacks
def triangular_solve(a: Any, b: Any, *, upper: bool = False, unit: bool = False) -> Any:
    """The x of a x = b for a triangular a[..., n, n], whose other side is not read.

    With `unit` the diagonal is taken as 1. Gradients as of `solve`, on the triangle.

    >>> td.linalg.triangular_solve([[2.0, 9.0], [1.0, 1.0]], [2.0, 2.0]).tolist()
    [1.0, 1.0]
    """
    return _system(TriangularSolve(upper, unit), a, b)
