"""Products with names of their own: affine, bilinear, Kronecker and circular."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import ShapeError
from treadle.graph.leaves import constant_node
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import carried_wide, operands
from treadle.ops.contract import matmul
from treadle.ops.einsum import einsum
from treadle.ops.elementwise import add, multiply
from treadle.ops.gather import Index
from treadle.ops.movement import reshape

__all__ = [
    "affine",
    "bilinear",
    "circular_convolution",
    "circular_correlation",
    "contract3d",
    "kron",
    "trace_of_product",
]


@provide
def affine(x: Any, w: Any, b: Any = None) -> Tensor:
    """x w + b.

    >>> td.affine([[1.0, 2.0]], [[1.0], [1.0]], [0.5]).tolist()
    [[3.5]]
    """
    product = matmul(x, w)
    return product if b is None else add(product, b)


@provide
def bilinear(x1: Any, x2: Any, weight: Any, bias: Any = None) -> Tensor:
    """y[.., k] = sum over i, j of x1[.., i] weight[k, i, j] x2[.., j], with a bias for
    each k.

    >>> td.bilinear([1.0, 2.0], [3.0], [[[1.0], [1.0]]]).tolist()
    [9.0]
    """
    y = einsum("...i,kij,...j->...k", x1, weight, x2)
    return y if bias is None else add(y, bias)


@provide
def contract3d(x: Any, y: Any, z: Any = None, b: Any = None) -> Tensor:
    """The sum over k of x[.., i, j, k] y[.., k], and over j with z[.., j] if given.

    Then b is added. Leading dimensions broadcast.

    >>> td.contract3d([[[1.0, 2.0], [3.0, 4.0]]], [1.0, 1.0]).tolist()
    [[3.0, 7.0]]
    """
    if z is None:
        result = einsum("...ijk,...k->...ij", x, y)
    else:
        result = einsum("...ijk,...k,...j->...i", x, y, z)
    return result if b is None else add(result, b)


@provide
def kron(x: Any, y: Any) -> Tensor:
    """The Kronecker product: each element of x as a multiple of y.

    >>> td.kron([1.0, 10.0], [1.0, 2.0]).tolist()
    [1.0, 2.0, 10.0, 20.0]
    """
    a, b = operands(x, y)
    ndim = max(a.type.ndim, b.type.ndim)
    m = (1,) * (ndim - a.type.ndim) + a.type.shape
    n = (1,) * (ndim - b.type.ndim) + b.type.shape
    left = [k for extent in m for k in (extent, 1)]
    right = [k for extent in n for k in (1, extent)]
    product = multiply(reshape(a, left), reshape(b, right))
    return reshape(product, tuple(p * q for p, q in zip(m, n, strict=True)))


@provide
def trace_of_product(x: Any, y: Any) -> Tensor:
    """The trace of x y^T: the sum of x[i, j] y[i, j].

    >>> float(td.trace_of_product([[1.0, 2.0]], [[3.0, 4.0]]))
    11.0
    """
    return einsum("...ij,...ij->...", x, y)


def _circular(x: Any, y: Any, sign: int) -> Tensor:
    a, b = operands(x, y)
    shapes = a.type.shape[-1:], b.type.shape[-1:]
    if shapes[0] != shapes[1] or not shapes[0]:
        raise ShapeError(
            f"a circular product takes rows of one length, not {shapes[0]} and "
            f"{shapes[1]}"
        ).located("circular product", f"{a.type}, {b.type}")
    n = a.type.shape[-1]
    i, j = np.indices((n, n))
    last = b.type.ndim - 1
    turned = Index((last,), last)(b, constant_node((i + sign * j) % max(n, 1)))
    return einsum("...j,...ij->...i", a, turned)


@provide
@carried_wide
def circular_convolution(x: Any, y: Any) -> Tensor:
    """z[.., i] = sum over j of x[.., j] y[.., (i - j) mod n].

    >>> td.circular_convolution([0.0, 1.0, 0.0], [1.0, 2.0, 3.0]).tolist()
    [3.0, 1.0, 2.0]
    """
    return _circular(x, y, -1)


@provide
@carried_wide
def circular_correlation(x: Any, y: Any) -> Tensor:
    """z[.., i] = sum over j of x[.., j] y[.., (i + j) mod n].

    >>> td.circular_correlation([0.0, 1.0, 0.0], [1.0, 2.0, 3.0]).tolist()
    [2.0, 3.0, 1.0]
    """
    return _circular(x, y, 1)
