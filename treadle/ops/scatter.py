"""Elements at positions that are data: set, and folded with others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import int64
from treadle.base.errors import ArgumentError
from treadle.base.symbolic import arange
from treadle.base.types import Type
from treadle.graph.leaves import constant_node, zeros_of
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.elementwise import conj
from treadle.ops.families import Family, same_dtype
from treadle.ops.gather import (
    Index,
    Integers,
    Unindex,
    fit,
    flat_ids,
    from_rows,
    put_rows,
    value_rows,
    wide,
)

FOLDS = {"multiply": np.multiply, "max": np.maximum, "min": np.minimum}


def rows_of(x: Array, axes: Integers) -> Array:
    """x as [indexed extents flattened, all others flattened], a copy."""
    in_front = np.moveaxis(x, axes, range(len(axes)))
    count = math.prod(x.shape[k] for k in axes)
    width = math.prod(in_front.shape[len(axes) :])
    return np.array(in_front.reshape(count, width))


@op(tolerance="E")
class IndexSet(Family):
    """x with its elements at integer arrays replaced; of duplicates the last wins.

    Inputs: x, the values laid out as Index would give them, and the positions.
    """

    axes: Integers
    place: int = 0
    family = "scatter"

    def infer(self, *types: Type) -> Type:
        same_dtype(types[:2])
        fit(types[0], self.axes, self.place, types[1:])
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        x, e, ids = arrays[0], arrays[1], wide(arrays[2:])
        rows = rows_of(x, self.axes)
        flat = flat_ids(x.shape, self.axes, ids)
        rows[flat] = value_rows(e, self.place, ids)
        return from_rows(rows, x.shape, self.axes)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        ids = xs[2:]
        zero = zeros_of(Type(xs[1].type.shape, g.type.dtype))
        if not any(i.type.ndim for i in ids):  # one place, which no other value holds
            ge = Index(self.axes, self.place)(g, *ids)
            return self(g, zero, *ids), ge, *[None] * len(ids)
        flat = constant_node(arange(zero.type.size))
        number = functions.reshape(flat, zero.type.shape)
        # Which value holds each element in the end: the others have no gradient.
        empty = zeros_of(Type(xs[0].type.shape, int64))
        owner = Index(self.axes, self.place)(self(empty, number, *ids), *ids)
        ge = Index(self.axes, self.place)(g, *ids)
        ge = functions.where(functions.equal(owner, number), ge, zero)
        return self(g, zero, *ids), ge, *[None] * len(ids)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return put_rows(self, 2, has_rows, xs)


@op(tolerance="R")
class IndexFold(Family):
    """x with values multiplied into it, or its maximum or minimum with them taken.

    Inputs as of IndexSet; `mode` is "multiply", "max" or "min". Duplicates all count.
    """

    axes: Integers
    place: int
    mode: str
    family = "scatter"

    def infer(self, *types: Type) -> Type:
        if self.mode not in FOLDS:
            raise ArgumentError(f"mode {self.mode!r} is none of {', '.join(FOLDS)}")
        same_dtype(types[:2])
        fit(types[0], self.axes, self.place, types[1:])
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        x, e, ids = arrays[0], arrays[1], wide(arrays[2:])
        rows = rows_of(x, self.axes)
        flat = flat_ids(x.shape, self.axes, ids)
        FOLDS[self.mode].at(rows, flat, value_rows(e, self.place, ids))
        return from_rows(rows, x.shape, self.axes)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        x, e, ids = xs[0], xs[1], xs[2:]
        take = Index(self.axes, self.place)
        rule = self._of_product if self.mode == "multiply" else self._of_extreme
        gx, ge = rule(g, y, x, e, ids, take)
        return gx, ge, *[None] * len(ids)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return put_rows(self, 2, has_rows, xs)

    def _of_product(
        self, g: Tensor, y: Tensor, x: Tensor, e: Tensor, ids: Any, take: Index
    ) -> tuple[Tensor, Tensor]:
        dtype, where = x.type.dtype, functions.where
        one = constant_node(np.ones((), dtype))
        ones = functions.broadcast_to(one, x.type.shape)
        # The product of the other values, without dividing by one that is 0; the
        # second derivative by a 0 among duplicates is not in it.
        zero = functions.equal(e, one - one)
        safe = where(zero, one, e)
        zeros = functions.astype(zero, dtype)
        put = Unindex(x.type.shape, self.axes, self.place)
        others = take(put(zeros, *ids), *ids) - zeros
        product = take(self(x, safe, *ids), *ids) / safe
        alone = functions.equal(others, one - one)
        ge = take(g, *ids) * conj(where(alone, product, 0.0))
        return g * conj(self(ones, e, *ids)), ge

    def _of_extreme(
        self, g: Tensor, y: Tensor, x: Tensor, e: Tensor, ids: Any, take: Index
    ) -> tuple[Tensor, Tensor]:
        both = functions.logical_and
        kept = functions.equal(y, x)
        here = take(functions.astype(kept, np.int64), *ids)
        hit = both(functions.equal(e, take(y, *ids)), functions.equal(here, 0))
        # Of several values that attain the extreme, the last one has the gradient.
        number = constant_node(np.arange(e.type.size).reshape(e.type.shape))
        none = constant_node(np.full(x.type.shape, -1))
        claim = functions.where(hit, number, -1)
        owner = IndexFold(self.axes, self.place, "max")(none, claim, *ids)
        won = both(functions.equal(take(owner, *ids), claim), hit)
        gx = functions.where(kept, g, 0.0)
        return gx, functions.where(won, take(g, *ids), 0.0)
