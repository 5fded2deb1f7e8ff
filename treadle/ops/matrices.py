"""What ops on matrices share: types, rows, failures of LAPACK, the adjoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.errors import RunError, ShapeError
from treadle.base.types import Type, broadcast_shapes
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, Mistake, refuse_axes
from treadle.graph.rows import spread
from treadle.graph.tensor import Tensor
from treadle.ops.elementwise import conj
from treadle.ops.families import Opaque, same_dtype
from treadle.ops.movement import broadcast_to
from treadle.ops.rearrange import matrix_transpose

__all__: list[str] = []

SINGULAR = "td.linalg.pinv and td.linalg.lstsq take matrices without an inverse"


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of the matrices in the last two dimensions."""
    return conj(matrix_transpose(x))


def adjoint_of(x: Array) -> Array:
    """The conjugate transpose of NumPy's matrices."""
    return np.conj(np.swapaxes(x, -1, -2))


def hermitian_part(x: Array) -> Array:
    """(x + x^H) / 2: exactly Hermitian."""
    return (x + adjoint_of(x)) / x.dtype.type(2)


def mirrored(x: Tensor) -> Tensor:
    """(x + x^H) / 2, as a graph."""
    return (x + adjoint(x)) * 0.5


def identity(x: Tensor, n: int) -> Tensor:
    """The n by n identity in the dtype of x."""
    return constant_node(np.eye(n, dtype=x.type.dtype))


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


def solved(rule: Callable[..., Any], *arrays: Array, hint: str = "") -> Any:
    """What a routine of LAPACK finds; its failure as an error with a remedy."""
    try:
        return rule(*arrays)
    except np.linalg.LinAlgError as error:
        raise RunError(str(error).rstrip("."), hint=hint) from None


class OfMatrices(Opaque):
    """An op on the matrices in the last two dimensions, each by itself."""

    __slots__ = ()
    takes = "inexact"

    def infer(self, *types: Type) -> Any:
        refuse_axes(self, *types)
        matrices(*types)
        same_dtype(types)
        return self.found(*types)

    def found(self, *types: Type) -> Any:
        """The type of the result, of operands that are matrices of one dtype."""
        raise NotImplementedError

    def rows(self, given: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*spread(given, xs))

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        sample = cls.samples()[0]
        flat = [as_tensor([1.0, 2.0]) for _ in sample.inputs]
        return [
            *super().mistakes(),
            Mistake(lambda: sample.op(*flat), ShapeError, "is no matrix"),
        ]


def of_square(cls: type[OfMatrices]) -> Mistake:
    """The mistake of matrices that are not square."""
    sample = cls.samples()[0]
    wide = [as_tensor(np.ones((2, 3), np.float32)) for _ in sample.inputs]
    return Mistake(lambda: sample.op(*wide), ShapeError, "not square")


def well(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    """Matrices for samples: far from singular, with singular values far apart."""
    rng = np.random.default_rng(seed)
    m, n = shape[-2:]
    x: Array = rng.uniform(-0.4, 0.4, shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.uniform(-0.4, 0.4, shape)
    x = x + np.eye(m, n) * np.arange(2.0, 2.0 + n)
    return x.astype(dtype)
