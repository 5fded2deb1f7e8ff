"""Linear algebra: `td.linalg`. Matrices are the last two dimensions of any tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.torch import missing
from treadle.base.types import resolve_axis
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.tolerance import unit
from treadle.ops.cast import as_float, carried_wide, operands
from treadle.ops.contract import matmul
from treadle.ops.einsum import diagonal, outer, tensordot, trace, vecdot
from treadle.ops.factor import cholesky, lq, qr
from treadle.ops.inverse import cofactors, det, inv, logdet, matrix_exp, pinv, slogdet
from treadle.ops.matrices import adjoint, identity, of_stacks
from treadle.ops.movement import broadcast_to
from treadle.ops.norms import greatest
from treadle.ops.norms import norm as vector_norm
from treadle.ops.products import kron, trace_of_product
from treadle.ops.rearrange import matrix_transpose
from treadle.ops.solve import solve, triangular_solve
from treadle.ops.spectral import eig, eigh, eigvals, eigvalsh, svd, svdvals
from treadle.ops.sylvester import care, dare, discrete_lyapunov, lyapunov, sylvester

__all__ = [
    "care",
    "cholesky",
    "cofactors",
    "cond",
    "cross",
    "dare",
    "det",
    "diagonal",
    "discrete_lyapunov",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "kron",
    "logdet",
    "lq",
    "lstsq",
    "lyapunov",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "sylvester",
    "tensordot",
    "trace",
    "trace_of_product",
    "triangular_solve",
    "vecdot",
    "vector_norm",
]


def matrix_of(x: Any, name: str) -> Tensor:
    """The operand as a tensor of floats with at least two dimensions."""
    node = as_float(x)
    if node.type.ndim < 2:
        raise ShapeError(
            f"{node.type} is no matrix", hint="matrices are the last two dimensions"
        ).located(name)
    return node


@of_stacks
@carried_wide
def lstsq(a: Any, b: Any) -> Tensor:
    """The x that makes |a x - b| least, for a[..., m, n] of full rank and b[..., m, k].

    Where many do (m < n), the shortest. b may be one vector b[m]. By QR factors, from
    which the gradient follows; td.linalg.pinv(a) @ b takes any rank.

    >>> x = td.linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0])
    >>> [round(v, 4) for v in x.tolist()]
    [1.0, 2.0]
    """
    x, y = operands(matrix_of(a, "lstsq"), as_float(b))
    if not y.type.shape:
        raise ShapeError(f"{y.type} is no right-hand side").located("lstsq")
    if y.type.ndim == 1:
        column = lstsq(x, y.reshape(*y.type.shape, 1))
        return column.reshape(column.type.shape[:-1])
    m, n = x.type.shape[-2:]
    if y.type.shape[-2] != m:
        raise ShapeError(
            f"{m} equations with {y.type.shape[-2]} right-hand values"
        ).located("lstsq", f"{x.type}, {y.type}")
    if m >= n:
        q, r = qr(x)
        return triangular_solve(r, matmul(adjoint(q), y), upper=True)
    left, q = lq(x)
    return matmul(adjoint(q), triangular_solve(left, y))


def cross(x: Any, y: Any, axis: Any = -1) -> Tensor:
    """The vector product of vectors of 3 along `axis`; other dimensions broadcast.

    >>> td.linalg.cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, 1.0]
    """
    a, b = operands(x, y)
    for node in (a, b):
        if node.type.shape[resolve_axis(axis, node.type)] != 3:
            raise ShapeError(f"{node.type} has no vectors of 3 along {axis}").located(
                "cross"
            )

    def turned(node: Tensor, count: int) -> Tensor:
        return functions.roll(node, count, axis)

    return turned(a, -1) * turned(b, 1) - turned(a, 1) * turned(b, -1)


@of_stacks
@carried_wide
def matrix_power(x: Any, n: int) -> Tensor:
    """x multiplied by itself n times; the inverse's power where n is negative.

    >>> td.linalg.matrix_power([[1.0, 1.0], [0.0, 1.0]], 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    if not hasattr(n, "__index__"):
        raise ArgumentError(f"a power of matrices is an integer, not {n!r}").located(
            "matrix_power"
        )
    node = as_tensor(x)
    t = node.type
    if t.ndim < 2 or t.shape[-1] != t.shape[-2]:
        raise ShapeError(f"{t} is no square matrix").located("matrix_power")
    if n < 0:
        node, n = inv(node), -n
    if n == 0:
        return broadcast_to(identity(node, t.shape[-1]), t.shape)
    power: Tensor | None = None
    while True:
        if n & 1:
            power = node if power is None else matmul(power, node)
        n >>= 1
        if not n:
            assert power is not None
            return power
        node = matmul(node, node)


@of_stacks
@carried_wide
def matrix_norm(x: Any, ord: Any = "fro", *, keepdims: bool = False) -> Tensor:
    """A norm of each matrix x[..., m, n].

    "fro": the root of the sum of squares; "nuc": the sum of the singular values; 2 and
    -2: the largest and the least of them; 1 and -1: of sums of absolute values of
    columns; inf and -inf: of rows.

    >>> [float(td.linalg.matrix_norm([[3.0, 0.0], [0.0, -4.0]], k)) for k in ("fro", 1)]
    [5.0, 4.0]
    """
    node = matrix_of(x, "matrix_norm")
    if ord == "fro":
        return vector_norm(node, 2, (-2, -1), keepdims=keepdims)
    if ord == "nuc" or ord in (2, -2):
        values, axis = svdvals(node), -1
    elif ord in (1, -1, np.inf, -np.inf):
        sums = -2 if ord in (1, -1) else -1
        values, axis = functions.abs(node).sum(sums), -1
    else:
        known = '"fro", "nuc", 1, -1, 2, -2, inf, -inf'
        raise ArgumentError(f"order {ord!r} of a norm is none of {known}").located(
            "matrix_norm"
        )
    if ord == "nuc":
        norms = values.sum(axis)
    else:
        norms = greatest(values, axis) if ord > 0 else values.min(axis)
    return norms.reshape(*norms.type.shape, 1, 1) if keepdims else norms


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`vector_norm` along one axis, `matrix_norm` over two; the root of the sum of all
    squares without an order. With an order and no axis x itself is a vector or matrix.

    >>> float(td.linalg.norm([[3.0, 0.0], [0.0, 4.0]]))
    5.0
    >>> td.linalg.norm([[3.0, -4.0]], 1, 1).tolist()
    [7.0]
    """
    node = as_tensor(x)
    if ord is None:
        return vector_norm(node, 2, axis, keepdims=keepdims)
    axis = tuple(range(node.type.ndim)) if axis is None else axis
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if len(axes) == 1:
        return vector_norm(node, ord, axes, keepdims=keepdims)
    if len(axes) != 2:
        raise ShapeError(f"a norm {ord!r} is of a vector or a matrix").located(
            "norm", repr(node.type), node.line
        )
    y = matrix_norm(functions.moveaxis(node, axes, (-2, -1)), ord)
    places = sorted(resolve_axis(k, node.type) for k in axes)
    return functions.expand_dims(y, tuple(places)) if keepdims else y


@of_stacks
def matrix_rank(x: Any, rtol: Any = None) -> Tensor:
    """The rank of matrices: how many singular values exceed `rtol` times the largest.

    `rtol` is one number, or one for each matrix of a stack; by default max(m, n) units
    of rounding.

    >>> int(td.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
    1
    """
    node = matrix_of(x, "matrix_rank")
    values = svdvals(node)
    if rtol is None:
        rtol = max(node.type.shape[-2:]) * 2 * unit(node.type.dtype)
    bound = functions.expand_dims(greatest(values, -1) * rtol, -1)
    large = values > bound
    return large.astype("int64").sum(-1)


@of_stacks
@carried_wide
def cond(x: Any) -> Tensor:
    """The largest singular value over the least: how much errors may grow.

    >>> float(td.linalg.cond([[4.0, 0.0], [0.0, 2.0]]))
    2.0
    """
    values = svdvals(matrix_of(x, "cond"))
    return values.max(-1) / values.min(-1)


if not TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> Any:
        raise missing("treadle.linalg", name)
