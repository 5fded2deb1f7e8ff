"""Inverses of matrices that have none: the Moore-Penrose inverse."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from treadle.base.dtypes import complex64, kind, real_of
from treadle.base.errors import ShapeError
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Input, Mistake, Sample, op
from treadle.graph.tensor import Tensor
from treadle.graph.tolerance import unit
from treadle.ops.cast import as_float, astype
from treadle.ops.contract import matmul
from treadle.ops.matrices import (
    OfMatrices,
    adjoint,
    adjoint_of,
    identity,
    matrices,
    of_stacks,
    solved,
    stacked_names,
    well,
)
from treadle.ops.movement import broadcast_to


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

    @classmethod
    def samples(cls) -> list[Sample]:
        low = np.array([[1.0, 2.0], [2.0, 4.0], [0.0, 0.0]], np.float32)
        bound, several = np.float32(1e-3), np.full((2,), 1e-3, np.float32)
        return [
            Sample(cls(), (well(4, 2), bound), (0,)),
            Sample(cls(), (well(2, 3, 5), several), (0,), False),
            Sample(cls(), (low, bound), ()),
            Sample(cls(), (Input((0, 3)), bound), ()),
            Sample(cls(), (well(2, 3, 2, dtype=complex64), several), ()),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x = as_tensor(np.ones((2, 2), np.float32))
        far = as_tensor([1.0, 2.0])
        return [Mistake(lambda: cls()(x, far), ShapeError, "bounds are floats")]


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
