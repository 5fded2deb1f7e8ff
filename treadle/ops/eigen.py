"""Eigenvalues of matrices that are not Hermitian, with their vectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from treadle.base.dtypes import complex64, complex_of, kind
from treadle.base.types import TupleType, Type
from treadle.graph.op import Cotangents, Input, Mistake, Sample, op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.contract import matmul
from treadle.ops.elementwise import conj
from treadle.ops.families import outputs_of
from treadle.ops.matrices import (
    OfMatrices,
    adjoint,
    as_column,
    as_row,
    of_square,
    of_stacks,
    on_diagonal,
    solved,
    square,
    well,
)
from treadle.ops.solve import solve
from treadle.ops.spectral import over_gaps


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

    @classmethod
    def samples(cls) -> list[Sample]:
        # Derivatives of complex results are checked by tests/ops/test_linalg.py.
        return [
            Sample(cls(), (well(3, 3),), ()),
            Sample(cls(), (well(2, 1, 2, 2),), ()),
            Sample(cls(), (Input((2, 1, 1), low=0.5, high=2.0),), ()),
            Sample(cls(), (Input((0, 0)),), ()),
            Sample(cls(), (well(2, 3, 3, dtype=complex64),), ()),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        return [of_square(cls)]


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
