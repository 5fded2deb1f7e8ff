"""Layers of matrix products and look-ups: Linear, Bilinear, Embedding."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import as_integer
from treadle.graph.leaves import as_tensor
from treadle.graph.recorded import recorded
from treadle.graph.scope import initial_array, param
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.bags import embedding
from treadle.nn.module import Module
from treadle.ops.cast import addend
from treadle.ops.contract import matmul, matmul_transposed
from treadle.ops.movement import reshape
from treadle.ops.naming import by_role

__all__ = [
    "Bilinear",
    "Embedding",
    "EmbeddingBag",
    "Identity",
    "Linear",
]

Init = Any


def weight_like_torch(
    shape: Sequence[int], dtype: Any, initial: Init = None
) -> Parameter:
    """A weight drawn as torch does by default: within 1 / sqrt(fan-in).

    That is kaiming_uniform with a = sqrt(5).
    """
    chosen = init.kaiming_uniform(a=math.sqrt(5.0)) if initial is None else initial
    return param(shape=tuple(shape), init=chosen, dtype=dtype)


def bias_like_torch(
    count: int, fan_in: int, dtype: Any, initial: Init = None
) -> Parameter:
    """A bias drawn as torch does by default: within 1 / sqrt(fan-in) of its weight."""
    limit = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
    chosen = init.uniform(low=-limit, high=limit) if initial is None else initial
    return param(shape=(count,), init=chosen, dtype=dtype)


@recorded
@by_role()
def affine(x: Any, weight: Any, bias: Any) -> Tensor:
    """x Wᵀ + b, or without b if it is None."""
    y = matmul_transposed(x, weight)
    return y if bias is None else y + addend(bias, y)


def above_zero(**extents: Any) -> None:
    """Refuse extents, or several of them, that are no whole numbers from 1 up."""
    _from(1, extents)


def from_zero(**extents: Any) -> None:
    """Refuse what is added at borders, if it is no whole number from 0 up; words as
    convolutions take them pass."""
    _from(0, {k: v for k, v in extents.items() if not isinstance(v, str)})


def _from(least: int, extents: dict[str, Any]) -> None:
    for name, value in extents.items():
        several = isinstance(value, (tuple, list))
        for n in value if several else (value,):
            if isinstance(n, (tuple, list)):
                _from(least, {name: n})
            elif (number := as_integer(n)) is None or number < least:
                kind = "are whole numbers" if several else "is a whole number"
                raise ArgumentError(f"{name} {kind} from {least} up, got {value!r}")


class Identity(Module):
    """The input itself; any arguments are taken and ignored.

    >>> x = td.ones(2)
    >>> td.nn.Identity()(x) is x
    True
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def forward(self, x: Any) -> Any:
        return x


class Linear(Module):
    """y = x Wᵀ + b with W of shape (out_features, in_features), over the last axis.

    Default initialization as torch's: W and b uniform within 1 / sqrt(in_features).

    >>> td.nn.Linear(3, 2)(td.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        dtype: Any = None,
        *,
        weight_init: Init = None,
        bias_init: Init = None,
    ) -> None:
        above_zero(in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        self.weight = weight_like_torch((out_features, in_features), dtype, weight_init)
        self.bias = (
            bias_like_torch(out_features, in_features, dtype, bias_init)
            if bias
            else None
        )

    def forward(self, x: Any) -> Tensor:
        try:
            return affine(x, self.weight, self.bias)
        except ShapeError:
            type_ = as_tensor(x).type
            if type_.shape[-1:] == (self.in_features,):
                raise
            raise ShapeError(
                f"got {type_.shape[-1] if type_.shape else 'no'} columns, "
                f"takes {self.in_features}"
            ).located("Linear", repr(type_)) from None

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """y_k = x1 W_k x2ᵀ + b_k with W of shape (out, in1, in2).

    >>> td.nn.Bilinear(3, 4, 2)(td.ones((5, 3)), td.ones((5, 4))).shape
    (5, 2)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        above_zero(in1=in1_features, in2=in2_features, out=out_features)
        self.in1_features, self.in2_features = in1_features, in2_features
        self.out_features = out_features
        limit = 1.0 / math.sqrt(in1_features)
        self.weight = param(
            shape=(out_features, in1_features, in2_features),
            init=init.uniform(low=-limit, high=limit),
            dtype=dtype,
        )
        self.bias = bias_like_torch(out_features, in1_features, dtype) if bias else None

    @by_role(1)
    def forward(self, x1: Any, x2: Any) -> Tensor:
        a, b = as_tensor(x1), as_tensor(x2)
        n, m, k = self.in1_features, self.in2_features, self.out_features
        weight = reshape(self.weight.transpose(1, 0, 2), (n, k * m))
        left = reshape(matmul(a, weight), (*a.shape[:-1], k, m))
        y = (left * reshape(b, (*b.shape[:-1], 1, m))).sum(-1)
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Embedding(Module):
    """Rows of a (rows, width) table at integer ids.

    Normal(0, 1) at first, zero in the row of `padding_index`, which gets no gradient.
    Optimizers change all rows, as momentum and running means have it; with `sparse`
    only those that a step reads, as they do with a td.lookup.
    Optimizers leave the rows at `frozen` as they are: ids, or a bool for each row.
    Rows of more than `max_norm` are scaled down when they are read, and the gradient of
    a row is divided by how often it is if `scale_grad_by_freq`, as in F.embedding.

    >>> td.nn.Embedding(10, 3)([[1, 2, 4]]).shape
    (1, 3, 3)
    """

    def __init__(
        self,
        rows: int,
        width: int,
        padding_index: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        dtype: Any = None,
        *,
        weight_init: Init = None,
        frozen: Any = None,
    ) -> None:
        above_zero(rows=rows, width=width)
        self.rows, self.width, self.padding_index = rows, width, padding_index
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        chosen = init.normal if weight_init is None else weight_init
        array = initial_array(chosen, (rows, width), dtype)
        if padding_index is not None:
            if not -rows <= padding_index < rows:
                raise ArgumentError(f"padding_index {padding_index} of {rows} rows")
            array = array.copy()
            array[padding_index] = 0
        self.weight = Parameter(array, sparse=sparse, copy=False)
        if frozen is not None:
            self.weight.freeze_rows(frozen)

    @classmethod
    def from_array(cls, array: Any, **settings: Any) -> Embedding:
        """A table with these first rows, such as word vectors from a file.

        >>> table = td.nn.Embedding.from_array([[1.0, 2.0], [3.0, 4.0]], frozen=[0])
        >>> table([1]).tolist()
        [[3.0, 4.0]]
        """
        rows = np.asarray(whole(array))
        if rows.ndim != 2:
            raise ArgumentError(f"a table is (rows, width), not {rows.shape}")
        return cls(*rows.shape, weight_init=rows, **settings)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Any,
        freeze: bool = True,
        padding_idx: int | None = None,
        **settings: Any,
    ) -> Embedding:
        """`from_array` as torch has it: not trained if `freeze`, all rows as they are.

        >>> td.nn.Embedding.from_pretrained([[1.0], [2.0]])([1]).tolist()
        [[2.0]]
        """
        table = cls.from_array(embeddings, **settings)
        table.padding_index, table.weight.trainable = padding_idx, not freeze
        return table

    def forward(self, ids: Any) -> Tensor:
        return embedding(
            ids,
            self.weight,
            self.padding_index,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
        )

    def extra_repr(self) -> str:
        text = f"{self.rows}, {self.width}"
        if self.padding_index is not None:
            text += f", padding_index={self.padding_index}"
        return text


class EmbeddingBag(Module):
    """The sum, mean or max of the rows of a table at each bag of ids.

    Bags are the rows of ids (n, many), or parts of one row that begin at `offsets`.
    `max_norm`, `scale_grad_by_freq` and `sparse` are those of `Embedding`; ids of
    `padding_idx` are in no bag, and with `include_last_offset` the last of the offsets
    is where the last bag ends.

    >>> td.nn.EmbeddingBag(10, 3)([[1, 2], [4, 4]]).shape
    (2, 3)
    """

    def __init__(
        self,
        rows: int,
        width: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        *,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        dtype: Any = None,
        weight_init: Init = None,
    ) -> None:
        above_zero(rows=rows, width=width)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        chosen = init.normal if weight_init is None else weight_init
        table = initial_array(chosen, (rows, width), dtype)
        self.weight = Parameter(table, sparse=sparse, copy=False)
        self.mode, self.include_last_offset = mode, include_last_offset
        self.padding_idx = padding_idx

    def forward(
        self, ids: Any, offsets: Any = None, per_sample_weights: Any = None
    ) -> Tensor:
        return F.embedding_bag(
            ids,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )

    def extra_repr(self) -> str:
        rows, width = self.weight.shape
        return f"{rows}, {width}, mode={self.mode!r}"
