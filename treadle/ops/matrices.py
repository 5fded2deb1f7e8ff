"""Common parts of matrix ops: types, rows, failures of LAPACK, the adjoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from treadle.base import trees
from treadle.base.errors import RunError, ShapeError, TreadleError
from treadle.base.symbolic import array_of
from treadle.base.types import TupleType, Type, broadcast_shapes
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, leading, matched
from treadle.graph.operators import Operand, functions
from treadle.graph.origin import capture, describe
from treadle.graph.rows import spread
from treadle.graph.tensor import Tensor
from treadle.ops.elementwise import conj
from treadle.ops.families import Opaque, same_dtype, some
from treadle.ops.movement import broadcast_to
from treadle.ops.rearrange import matrix_transpose

SINGULAR = "td.linalg.pinv and td.linalg.lstsq take matrices without an inverse"


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of the matrices in the last two dimensions."""
    return conj(matrix_transpose(x))


def adjoint_of(x: Array) -> Array:
    """The conjugate transpose of NumPy's matrices."""
    return np.conj(np.swapaxes(x, -1, -2))


def hermitian_part(x: Array) -> Array:
    """(x + x^H) / 2: exactly Hermitian."""
    return (x + adjoint_of(x)) * x.dtype.type(0.5)


def mirrored(x: Tensor) -> Tensor:
    """(x + x^H) / 2, as a graph."""
    return (x + adjoint(x)) * 0.5


def identity(x: Tensor, n: int) -> Tensor:
    """The n by n identity in the dtype of x."""
    return constant_node(array_of(_eye, (n, n), n, x.type.dtype))


def _eye(n: int, dtype: Any) -> Any:
    return np.eye(n, dtype=dtype)


def on_diagonal(v: Tensor) -> Tensor:
    """Diagonal matrices with the vectors v[..., n] on the diagonal."""
    n = v.type.shape[-1]
    return v.reshape(*v.type.shape, 1) * identity(v, n)


def as_column(v: Tensor) -> Tensor:
    """v[..., n] as v[..., n, 1]: it scales rows."""
    return v.reshape(*v.type.shape, 1)


def as_row(v: Tensor) -> Tensor:
    """v[..., n] as v[..., 1, n]: it scales columns."""
    return v.reshape(*v.type.shape[:-1], 1, v.type.shape[-1])


def matrices(*types: Type) -> None:
    """Refuse operands that are no stacks of matrices of equal count."""
    for t in types:
        if t.ndim < 2:
            raise ShapeError(
                f"{t} is no matrix", hint="matrices are the last two dimensions"
            )
        if t.shape[:-2] != types[0].shape[:-2]:
            raise ShapeError(
                f"stacks of matrices {types[0].shape[:-2]} and {t.shape[:-2]} differ"
            )


def square(t: Type, what: str = "the matrix", hint: str = "") -> int:
    """The order of square matrices."""
    m, n = t.shape[-2:]
    if m != n:
        raise ShapeError(f"{what} is {m} by {n}, not square", hint=hint)
    return n


def stacked(*nodes: Tensor) -> list[Tensor]:
    """Operands that are matrices, their leading dimensions broadcast."""
    if any(x.type.ndim < 2 for x in nodes):
        return list(nodes)
    try:
        lead = broadcast_shapes(*[x.type.shape[:-2] for x in nodes])
    except ShapeError as error:
        raise error.located("", ", ".join(repr(x.type) for x in nodes)) from None
    return [broadcast_to(x, (*lead, *x.type.shape[-2:])) for x in nodes]


def stacked_names(result: Any, types: Sequence[Type]) -> Any:
    """The type (or types) with the names that stacks have; those of rows and columns
    drop, for what is made of a matrix has rows and columns of its own.
    """
    lead = leading(types[0].ndim - 2)
    parts = [(t, lead) for t in types]

    def of(t: Type) -> Type:
        names = (*lead, *["own"] * (t.ndim - len(lead)))
        return Type(t.shape, t.dtype, matched(parts, names))

    if isinstance(result, TupleType):
        return TupleType(map(of, result))
    return of(result)


F = TypeVar("F", bound=Callable[..., Any])


def of_stacks(f: F) -> F:
    """A function of matrices as one of stacks whose leading dimensions have names.

    It works by position: the operands' names are checked to agree and come back on what
    it returns. Names of rows and columns drop.
    """

    @wraps(f)
    def wrapper(*args: Any, **settings: Any) -> Any:
        named = [x for x in args if isinstance(x, Operand) and x.axes is not None]
        if not named:
            return f(*args, **settings)
        types = [x.node().type for x in args if isinstance(x, Operand)]
        most = max(max(t.ndim - 2, 0) for t in types)
        parts = [(t, leading(max(t.ndim - 2, 0))) for t in types]
        try:
            names = matched(parts, leading(most)) or ()
        except TreadleError as error:
            operands = ", ".join(map(repr, types))
            raise error.located(f.__name__, operands, describe(capture())) from None
        plain = [functions.unname(x) if isinstance(x, Operand) else x for x in args]
        leaves, structure = trees.flatten(f(*plain, **settings))
        return trees.unflatten(structure, [_led(y, names) for y in leaves])

    return cast(F, wrapper)


def _led(y: Any, names: Sequence[str | None]) -> Tensor:
    """y with the names of its leading dimensions."""
    node = as_tensor(y)
    lead = tuple(names)[: node.type.ndim]
    named = some((*lead, *(None,) * (node.type.ndim - len(lead))))
    return cast(Tensor, functions.reshape(node, node.type.shape, axes=named))


def solved(rule: Callable[..., Any], *arrays: Array, hint: str = "") -> Any:
    """The result of a routine of LAPACK; its failure as an error with a remedy."""
    try:
        return rule(*arrays)
    except np.linalg.LinAlgError as error:
        raise RunError(str(error).rstrip("."), hint=hint) from None


class OfMatrices(Opaque):
    """An op on the matrices in the last two dimensions, each by itself."""

    __slots__ = ()
    takes = "inexact"

    def infer(self, *types: Type) -> Any:
        matrices(*types)
        same_dtype(types)
        return stacked_names(self.infer_matrices(*types), types)

    def infer_matrices(self, *types: Any, **_: Any) -> Any:
        """The type of the result, of operands that are matrices of one dtype."""
        raise NotImplementedError

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*spread(has_rows, xs))
