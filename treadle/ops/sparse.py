"""Products with matrices of which only some elements are stored: rows compressed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator, kind
from treadle.base.errors import ArgumentError, DTypeError, ShapeError
from treadle.base.types import Shape, Type, as_shape
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype, operands
from treadle.ops.create import full
from treadle.ops.elementwise import conj
from treadle.ops.families import Composite, same_dtype, some
from treadle.ops.gather import add_rows, in_range
from treadle.ops.lookup import Embedding, RowsToDense
from treadle.ops.pick import positions
from treadle.ops.rearrange import expand_dims
from treadle.ops.segments import begins_of, segment_of

__all__ = ["CSR", "csr_matmul"]


@op()
class CSRMatMul(Composite):
    """a x, or a^T x if `transposed`, for a matrix a of `columns` in compressed rows.

    Inputs: the stored elements, their columns, where each row begins among them (and at
    last their number), and x of one or two dimensions.
    """

    columns: int
    transposed: bool = False
    arity = 4

    def infer(self, data: Type, indices: Type, starts: Type, x: Type) -> Type:
        same_dtype((data, x))
        _compressed(data.shape, indices, starts)
        taken, count = self.columns, starts.size - 1
        if self.transposed:
            taken, count = count, taken
        if x.ndim not in (1, 2) or x.shape[0] != taken:
            raise ShapeError(f"a matrix of {taken} columns does not meet {x}")
        names = x.axes and some((None, *x.axes[1:]))
        return x.with_shape((count, *x.shape[1:]), names)

    def numpy(self, data: Any, indices: Any, starts: Any, x: Any) -> Array:
        places, rows, columns = _elements(indices, starts, self.columns)
        count, source, target = len(starts) - 1, columns, rows
        if self.transposed:
            count, source, target = self.columns, rows, columns
        wide = x.reshape(len(x), math.prod(x.shape[1:]))
        sums = add_rows(count, target, data[places, None] * wide[source])
        return sums.reshape(count, *x.shape[1:])

    def expand(
        self, data: Tensor, indices: Tensor, starts: Tensor, x: Tensor
    ) -> Tensor:
        count, source = starts.type.size - 1, indices
        target, kept = segment_of(data.type.size, starts)
        if self.transposed:
            count, source, target = self.columns, target, source
        if not x.type.shape[0] or not data.type.size:
            return full((count, *x.type.shape[1:]), 0.0, x.type.dtype)
        values = _where(kept, data)
        if x.type.ndim == 2:
            values = expand_dims(values, 1)
        parts = Embedding()(x, source) * values
        return RowsToDense(count)(target, parts)

    def vjp(
        self, g: Any, y: Any, data: Tensor, indices: Tensor, starts: Tensor, x: Tensor
    ) -> Cotangents:
        pair = (conj(x), g) if self.transposed else (g, conj(x))
        turned = replace(self, transposed=not self.transposed)
        gradient = CSRDots()(indices, starts, *pair)
        return gradient, None, None, turned(conj(data), indices, starts, g)


@op()
class CSRDots(Composite):
    """The products of rows of a with rows of b, for each stored element.

    y[k] = sum over n of a[i, n] b[indices[k], n] for the row i that has the element k,
    0 for one in no row: what the elements of a product get as their gradient. Inputs:
    the columns of elements, where rows begin among them, and a, b of one or two
    dimensions.
    """

    arity = 4

    def infer(self, indices: Type, starts: Type, a: Type, b: Type) -> Type:
        _compressed(indices.shape, indices, starts)
        same_dtype((a, b))
        rows = starts.size - 1
        if a.ndim not in (1, 2) or a.shape != (rows, *b.shape[1:]) or not b.ndim:
            raise ShapeError(f"{rows} rows do not meet {a} and {b}")
        return Type(indices.shape, a.dtype)

    def numpy(self, indices: Any, starts: Any, a: Any, b: Any) -> Array:
        places, rows, columns = _elements(indices, starts, len(b))
        parts = a[rows] * b[columns]
        products = np.zeros(indices.shape, a.dtype)
        products[places] = parts.sum(1) if a.ndim == 2 else parts
        return products

    def expand(self, indices: Tensor, starts: Tensor, a: Tensor, b: Tensor) -> Tensor:
        if not a.type.shape[0] or not b.type.shape[0] or not indices.type.size:
            return full(indices.type.shape, 0.0, a.type.dtype)
        rows, kept = segment_of(indices.type.size, starts)
        parts = Embedding()(a, rows) * Embedding()(b, indices)
        return _where(kept, parts.sum(1) if a.type.ndim == 2 else parts)

    def vjp(
        self, g: Any, y: Any, indices: Tensor, starts: Tensor, a: Tensor, b: Tensor
    ) -> Cotangents:
        columns = b.type.shape[0]
        to_a = CSRMatMul(columns)(g, indices, starts, conj(b))
        to_b = CSRMatMul(columns, True)(g, indices, starts, conj(a))
        return None, None, to_a, to_b


def _compressed(shape: Shape, indices: Type, starts: Type) -> None:
    """Refuse what are no rows compressed of elements of a shape."""
    for t in (indices, starts):
        if kind(t.dtype) != "integer":
            raise DTypeError(f"columns and starts are integers, not {t.dtype.name}")
    if len(shape) != 1 or indices.shape != shape or starts.ndim != 1:
        raise ShapeError(
            f"elements of shape {shape}, columns {indices} and starts {starts}",
            hint="a matrix is data[k], indices[k] and indptr[rows + 1]",
        )
    if not starts.size:
        raise ShapeError("starts of rows end with the number of elements")


def _elements(indices: Array, starts: Array, count: int) -> tuple[Array, Array, Array]:
    """The elements that rows have: their places, rows and columns."""
    begins = begins_of(starts, len(indices))
    lengths = np.diff(begins)
    places = np.arange(begins[0], begins[-1])
    columns = in_range(indices[places], count, "column", negative=False)
    return places, np.repeat(np.arange(len(lengths)), lengths), columns


def _where(kept: Tensor, x: Tensor) -> Tensor:
    return functions.where(kept, x, 0.0)


@provide
def csr_matmul(
    data: Any,
    indices: Any,
    indptr: Any,
    x: Any,
    *,
    columns: int | None = None,
    transposed: bool = False,
) -> Tensor:
    """a x for a sparse matrix a in compressed rows, or a^T x if `transposed`.

    Row i of a has the elements data[k] in the columns indices[k], for k from indptr[i]
    to indptr[i + 1]; equal places add up. x[columns, n] or x[columns]; `columns` is
    needed only where a is transposed. Gradients flow to data and to x. Sums of 16-bit
    floats are carried in float32. Starts lie in 0 .. number of elements and do not
    fall, columns within those of a: a RunError tells of others.

    >>> td.csr_matmul([2.0, 3.0], [0, 1], [0, 1, 2], [[1.0], [10.0]]).tolist()
    [[2.0], [30.0]]
    """
    values, right = operands(as_float(data), as_float(x))
    if columns is None:
        if transposed:
            raise ArgumentError(
                "a transposed product needs the number of columns",
                hint="pass columns=, the rows of the result",
            ).located("csr_matmul")
        columns = right.type.shape[0] if right.type.shape else 0
    dtype = values.type.dtype
    values, right = [astype(x, accumulator(dtype)) for x in (values, right)]
    where = positions(indices), positions(indptr)
    return astype(CSRMatMul(columns, transposed)(values, *where, right), dtype)


@dataclass(frozen=True, eq=False)
class CSR:
    """A sparse matrix in compressed rows: `a @ x` and `a.T @ x` are graphs.

    `data` may be a Variable or any Tensor: gradients reach it. See td.csr_matmul.

    >>> a = td.CSR.of([[2.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
    >>> (a @ [1.0, 1.0, 10.0]).tolist(), (a.T @ [1.0, 1.0]).tolist()
    ([2.0, 30.0], [2.0, 0.0, 3.0])
    """

    data: Any
    indices: Any
    indptr: Any
    shape: tuple[int, ...]
    transposed: bool = False

    def __post_init__(self) -> None:
        shape = as_shape(self.shape)
        object.__setattr__(self, "shape", shape)
        if len(shape) != 2:
            raise ShapeError(f"a sparse matrix has two dimensions, not {shape}")
        rows, columns = shape[::-1] if self.transposed else shape
        if not isinstance(self.indptr, Operand):
            starts = np.asarray(self.indptr)
            count = np.shape(self.indices)[0]
            if starts.shape != (rows + 1,) or starts[0] != 0 or starts[-1] != count:
                raise ShapeError(
                    f"{starts.size} starts of rows, {rows} rows and {count} elements",
                    hint="indptr[0] is 0, indptr[rows] the number of elements",
                )
            if (np.diff(starts) < 0).any():
                raise ShapeError("starts of rows do not fall: sort the elements by row")
        if not isinstance(self.indices, Operand):
            indices = np.asarray(self.indices)
            if indices.size and not 0 <= indices.min() <= indices.max() < columns:
                raise ShapeError(f"a column is not among {columns} columns")

    @classmethod
    def of(cls, x: Any) -> CSR:
        """The elements of a dense matrix that are not 0."""
        dense = np.asarray(
            x.numpy() if isinstance(x, Operand) else as_tensor(x).numpy()
        )
        if dense.ndim != 2:
            raise ShapeError(f"a sparse matrix has two dimensions, not {dense.shape}")
        rows, columns = np.nonzero(dense)
        starts = np.searchsorted(rows, np.arange(len(dense) + 1))
        return cls(as_tensor(dense[rows, columns]), columns, starts, dense.shape)

    @property
    def T(self) -> CSR:
        """The transpose, with the same elements."""
        return replace(self, shape=self.shape[::-1], transposed=not self.transposed)

    def __matmul__(self, x: Any) -> Tensor:
        columns = self.shape[0] if self.transposed else self.shape[1]
        return csr_matmul(
            self.data,
            self.indices,
            self.indptr,
            x,
            columns=columns,
            transposed=self.transposed,
        )

    def dense(self) -> Tensor:
        """The matrix with all its elements.

        >>> td.CSR([5.0], [1], [0, 0, 1], (2, 2)).dense().tolist()
        [[0.0, 0.0], [0.0, 5.0]]
        """
        values = as_float(self.data)
        return self @ constant_node(np.eye(self.shape[1], dtype=values.type.dtype))
