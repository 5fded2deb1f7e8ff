"""Codes of bits, and which of many differ from one in the fewest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import int64, uint64
from treadle.base.errors import ArgumentError, DTypeError, ShapeError
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Traits, op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype, operands
from treadle.ops.families import Family, same_dtype
from treadle.ops.loop import map as mapped
from treadle.ops.movement import reshape

__all__ = ["nearest_codes", "sign_codes"]

WORD = 64  # bits


@op(differentiable=False)
class NearestCodes(Family):
    """The `k` columns of codes that differ from a query in the fewest bits, rising."""

    k: int
    family = "order"
    arity = 2
    takes = "integer"
    traits = Traits(tolerance="E")

    def infer(self, *types: Type) -> Type:
        codes, queries = types
        same_dtype(types)
        if codes.dtype.kind != "u":
            raise DTypeError(f"codes are of unsigned integers, not {codes.dtype.name}")
        if codes.ndim != 2 or not queries.ndim or queries.shape[-1] != codes.shape[0]:
            raise ShapeError(
                f"codes {codes.shape} and queries {queries.shape} do not meet",
                hint="codes are (words, n), queries [..., words], as td.sign_codes",
            )
        if not 0 <= self.k <= codes.shape[1]:
            raise ArgumentError(f"k is {self.k}, of {codes.shape[1]} codes")
        names = (*(queries.axes or ())[:-1], None)
        shape = (*queries.shape[:-1], self.k)
        return Type(shape, int64, names if any(names) else None)

    def numpy(self, codes: Any, queries: Any) -> Array:
        count = math.prod(queries.shape[:-1])
        nearest = np.empty((count, self.k), np.int64)
        # Word by word over all codes: sums along the long axis, no table of all bits.
        for row, query in zip(nearest, queries.reshape(count, len(codes)), strict=True):
            apart = np.zeros(codes.shape[1], np.uint16)
            for word, bits in zip(codes, query, strict=True):
                apart += np.bitwise_count(word ^ bits)
            row[:] = _least(apart, self.k)
        return nearest.reshape(*queries.shape[:-1], self.k)

    def rows(
        self, has_rows: Sequence[bool], codes: Tensor, queries: Tensor
    ) -> Tensor | None:
        if not has_rows[0]:
            return self(codes, queries)
        if not has_rows[1]:
            return mapped(lambda each: self(each, queries), codes)
        return mapped(lambda pair: self(*pair), (codes, queries))


def _least(values: Array, k: int) -> Array:
    """The places of the k least values, in rising order; of equals, the first."""
    if not k:
        return np.empty(0, np.int64)
    bound = np.partition(values, k - 1)[k - 1]
    less, equal = np.flatnonzero(values < bound), np.flatnonzero(values == bound)
    return np.sort(np.concatenate([less, equal[: k - len(less)]]))


def nearest_codes(codes: Any, queries: Any, k: int) -> Tensor:
    """The nearest `k` of the codes (words, n) to each query [..., words]: those that
    differ in the fewest bits, in rising order: int64[..., k].

    Of codes at one distance the first are taken.

    >>> codes = td.asarray([[0b000, 0b110, 0b111]], dtype="uint8")
    >>> td.nearest_codes(codes, td.asarray([0b101], dtype="uint8"), 2).tolist()
    [0, 2]
    """
    return NearestCodes(int(k))(*operands(codes, queries))


def sign_codes(x: Any) -> Tensor:
    """The signs of vectors [..., bits] as words of 64 bits, uint64[..., words].

    Bit j of word i is 1 where element 64 i + j is not negative; what is over is 0. Of
    vectors turned at random, codes differ in a part of the bits that grows with the
    angle between them (Charikar, Similarity estimation techniques from rounding
    algorithms, 2002).

    >>> td.sign_codes([[1.0, -1.0, 2.0], [-1.0, 0.0, -3.0]]).tolist()
    [[5], [2]]
    """
    node = as_float(x)
    if not node.type.ndim:
        raise ShapeError("takes vectors, got a scalar").located(
            "sign_codes", repr(node.type), node.line
        )
    *lead, bits = node.type.shape
    words = -(-bits // WORD)
    ones = astype(functions.greater_equal(node, 0.0), uint64)
    if bits < words * WORD:
        ones = functions.pad(ones, [(0, 0)] * len(lead) + [(0, words * WORD - bits)])
    each = reshape(ones, (*lead, words, WORD))
    places = as_tensor(np.arange(WORD, dtype=np.uint64))
    return functions.sum(functions.bitwise_left_shift(each, places), -1)
