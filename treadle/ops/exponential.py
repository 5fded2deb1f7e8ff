"""The exponential of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import complex64
from treadle.base.types import Type
from treadle.graph.leaves import zeros_of
from treadle.graph.op import Array, Cotangents, Input, Mistake, Sample, op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float
from treadle.ops.matrices import (
    OfMatrices,
    adjoint,
    of_square,
    of_stacks,
    square,
    well,
)

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

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls(), (Input((3, 3)),)),
            Sample(cls(), (Input((2, 1, 2, 2)),), None, False),
            Sample(cls(), (Input((0, 0)),), ()),
            Sample(cls(), (well(2, 3, 3, dtype=complex64),), ()),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        return [of_square(cls)]


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
