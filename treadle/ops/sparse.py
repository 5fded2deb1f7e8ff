"""Products with matrices of which only some elements are stored: rows compressed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.base.dtypes import kind
from treadle.base.errors import ArgumentError, DTypeError, RunError, ShapeError
from treadle.base.types import Type, as_shape
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, Cotangents, Input, Mistake, Sample, op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, operands
from treadle.ops.elementwise import conj
from treadle.ops.families import Composite, same_dtype, some
from treadle.ops.gather import Index, Unindex, add_rows, in_range
from treadle.ops.pick import positions
from treadle.ops.rearrange import expand_dims

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

    def infer(self, *types: Type) -> Type:
        data, indices, starts, x = types
        same_dtype((data, x))
        for t in (indices, starts):
            if kind(t.dtype) != "integer":
                raise DTypeError(f"columns and starts are integers, not {t.dtype.name}")
        if data.ndim != 1 or indices.shape != data.shape or starts.ndim != 1:
            raise ShapeError(
                f"elements {data}, columns {indices} and starts {starts}",
                hint="a matrix is data[k], indices[k] and indptr[rows + 1]",
            )
        if not starts.size:
            raise ShapeError("starts of rows end with the number of elements")
        taken, made = self.columns, starts.size - 1
        if self.transposed:
            taken, made = made, taken
        if x.ndim not in (1, 2) or x.shape[0] != taken:
            raise ShapeError(f"a matrix of {taken} columns does not meet {x}")
        names = x.axes and some((None, *x.axes[1:]))
        return x.with_shape((made, *x.shape[1:]), names)

    def numpy(self, *arrays: Any) -> Array:
        data, indices, starts, x = arrays
        columns = in_range(indices, self.columns, "column")
        count = len(starts) - 1
        rows = np.searchsorted(starts, np.arange(data.size), "right") - 1
        rows = in_range(rows, count, "row")
        made, source, target = count, columns, rows
        if self.transposed:
            made, source, target = self.columns, rows, columns
        wide = x.reshape(len(x), -1)
        found = add_rows(made, target, data[:, None] * wide[source])
        return found.reshape(made, *x.shape[1:])

    def expand(self, *xs: Tensor) -> Tensor:
        data, indices, starts, x = xs
        rows = _rows(data, starts)
        made, source, target = starts.type.size - 1, indices, rows
        if self.transposed:
            made, source, target = self.columns, rows, indices
        parts = Index((0,))(x, source) * _beside(data, x)
        return Unindex((made, *x.type.shape[1:]), (0,))(parts, target)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        data, indices, starts, x = xs
        source, target = indices, _rows(data, starts)
        if self.transposed:
            source, target = target, source
        own = Index((0,))(g, target) * conj(Index((0,))(x, source))
        if x.type.ndim == 2:
            own = own.sum(1)
        turned = replace(self, transposed=not self.transposed)
        return own, None, None, turned(conj(data), indices, starts, g)

    @classmethod
    def samples(cls) -> list[Sample]:
        columns, starts = np.array([0, 2, 1, 2, 0]), np.array([0, 2, 2, 5])
        none = np.zeros((0,), np.int64)
        return [
            Sample(cls(3), (Input((5,)), columns, starts, Input((3, 2)))),
            Sample(cls(4, True), (Input((5,)), columns, starts, Input((3, 2)))),
            Sample(cls(3), (Input((5,)), columns, starts, Input((3,)))),
            Sample(cls(2), (Input((0,)), none, np.zeros(4, np.int64), Input((2, 1)))),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x, k, starts = as_tensor([1.0]), as_tensor([0]), as_tensor([0, 1])
        far = as_tensor([7])
        made = cls(1)
        return [
            *super().mistakes(),
            Mistake(lambda: made(x, x, starts, x), DTypeError, "are integers"),
            Mistake(lambda: made(x, starts, starts, x), ShapeError, "hint: a matrix"),
            Mistake(lambda: cls(2)(x, k, starts, x), ShapeError, "of 2 columns"),
            Mistake(lambda: made(x, far, starts, x).numpy(), RunError, "7 is out"),
        ]


def _rows(data: Tensor, starts: Tensor) -> Tensor:
    """The row of each stored element."""
    numbers = constant_node(np.arange(data.type.size, dtype=starts.type.dtype))
    found: Tensor = functions.searchsorted(starts, numbers, side="right") - 1
    return found


def _beside(data: Tensor, x: Tensor) -> Tensor:
    """Elements in a shape that meets rows of x."""
    return expand_dims(data, 1) if x.type.ndim == 2 else data


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
    needed only where a is transposed. Gradients flow to data and to x.

    >>> import treadle as td
    >>> td.csr_matmul([2.0, 3.0], [0, 1], [0, 1, 2], [[1.0], [10.0]]).tolist()
    [[2.0], [30.0]]
    """
    own, right = operands(as_float(data), as_float(x))
    if columns is None:
        if transposed:
            raise ArgumentError(
                "a transposed product needs the number of columns",
                hint="pass columns=, the rows of the result",
            ).located("csr_matmul")
        columns = right.type.shape[0] if right.type.shape else 0
    where = positions(indices), positions(indptr)
    return CSRMatMul(columns, transposed)(own, *where, right)


@dataclass(frozen=True, eq=False)
class CSR:
    """A sparse matrix in compressed rows: `a @ x` and `a.T @ x` are graphs.

    `data` may be a Variable or any Tensor: gradients reach it. See td.csr_matmul.

    >>> import treadle as td
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
            own = np.asarray(self.indices)
            if own.size and not 0 <= own.min() <= own.max() < columns:
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

        >>> import treadle as td
        >>> td.CSR([5.0], [1], [0, 0, 1], (2, 2)).dense().tolist()
        [[0.0, 0.0], [0.0, 5.0]]
        """
        own = as_float(self.data)
        return self @ constant_node(np.eye(self.shape[1], dtype=own.type.dtype))
