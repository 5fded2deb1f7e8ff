"""Rows of tables chosen by ids, with gradients that stay sparse."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.caches import cached
from treadle.base.errors import ShapeError
from treadle.base.symbolic import arange
from treadle.base.types import Type, as_shape, equal_shapes, normalize_axis
from treadle.graph.leaves import (
    CONSTANT,
    INTEGER,
    as_tensor,
    constant_node,
    integer_array,
    integer_node,
)
from treadle.graph.op import Array, Cotangents, Op, op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.recorded import recorded_with_rows
from treadle.graph.rows import spread
from treadle.graph.tensor import Tensor, node_at, site
from treadle.ops.cast import Cast
from treadle.ops.elementwise import Add, Divide, Multiply, Negative
from treadle.ops.families import Composite, Family, some
from treadle.ops.flow import stop_gradient
from treadle.ops.gather import Unindex, add_rows, in_range, integers_only
from treadle.ops.movement import broadcast_to, reshape
from treadle.ops.pick import TakeAlong, positions
from treadle.ops.scatter import IndexSet

__all__ = ["combine_rows", "embedding", "rows", "sparse_rows"]

COMPARED = 4096  # ids that are compared each with each; more of them are sorted
FEW = 1 << 14  # rows of which all may have a number, however few ids there are


@op(tolerance="E")
class Embedding(Family):
    """Rows of a table at ids: table[ids]; its gradient is the touched rows."""

    family = "gather"
    arity = 2

    def infer(self, *types: Type) -> Type:
        return _rows_of(*types)

    def numpy(self, table: Any, ids: Any) -> Array:
        known = in_range(ids, len(table), "id", negative=False)
        return np.take(table, known, 0, mode="clip")

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        if g.type.axes is not None:
            g = reshape(g, g.type.shape)
        return RowsToDense(xs[0].type.shape[0])(xs[1], g), None

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        (table, ids), (many, _) = xs, has_rows
        if not many:
            return self(table, ids)
        # A table for each row: its rows stand along dimension 1.
        table, ids = spread(has_rows, xs)
        n, _, *width = table.type.shape
        flat = reshape(ids, (n, ids.type.size // max(n, 1), *[1] * len(width)))
        places = broadcast_to(flat, (*flat.type.shape[:2], *width))
        entries = TakeAlong(1, True)(table, places)
        return reshape(entries, (*ids.type.shape, *width))


@cached(1024)
def _rows_of(table: Type, ids: Type) -> Type:
    """The type of the rows of a table at ids."""
    integers_only([ids])
    if not table.ndim:
        raise ShapeError("a scalar has no rows")
    names = None
    if table.axes or ids.axes:
        id_names = ids.axes or (None,) * ids.ndim
        names = some(id_names + (table.axes or (None,) * table.ndim)[1:])
    return Type(ids.shape + table.shape[1:], table.dtype, names)


EMBEDDING = Embedding()


def _row(table: Tensor, k: int) -> tuple[Op, tuple[Tensor, ...], Type]:
    """The op, the inputs and the type of one row of a table."""
    where = integer_node(k)
    return EMBEDDING, (table, where), _rows_of(table.type, INTEGER)


def _row_node(table: Tensor, k: int) -> Tensor:
    """One row of a table: both nodes have one site."""
    here = site(3)
    where = node_at(here, CONSTANT, (), INTEGER, integer_array(k))
    return node_at(here, EMBEDDING, (table, where), _rows_of(table.type, INTEGER))


@provide
def row_step(table: Tensor, k: int) -> tuple[Op, tuple[Tensor, ...], Type] | None:
    """`_row` for an index, which may count from the end; None where there is none."""
    count = table.type.shape[0] if table.type.shape else 0
    return _row(table, k % count) if -count <= k < count else None


@provide
@recorded_with_rows
def embedding(table: Any, ids: Any, padding_index: int | None = None) -> Tensor:
    """The rows of `table` at `ids`; the row of `padding_index` gets no gradient.

    >>> td.embedding([[1.0, 2.0], [3.0, 4.0]], [1, 0]).tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """
    node = table.node() if isinstance(table, Operand) else as_tensor(table)
    if type(ids) is int and padding_index is None and node.type.shape:
        return _row_node(node, ids)
    where = positions(ids)
    entries = EMBEDDING(node, where)
    if padding_index is None:
        return entries
    k = normalize_axis(padding_index, node.type.shape[0])
    padded = functions.equal(where, k)
    wide = reshape(padded, where.type.shape + (1,) * (node.type.ndim - 1))
    return functions.where(wide, stop_gradient(entries), entries)


@provide
def rows(x: Any, ids: Any) -> Tensor:
    """The rows of `x` at `ids`, as `embedding`.

    >>> td.rows([[1.0], [2.0]], [1]).tolist()
    [[2.0]]
    """
    return embedding(x, ids)


@op(tolerance="R")
class RowsToDense(Family):
    """A table of `count` rows, zero but for values added at ids: inputs ids, values.

    What gradients of Embedding are: see `sparse_rows`.
    """

    count: int
    family = "scatter"
    arity = 2

    def infer(self, ids: Type, values: Type) -> Type:
        _rows_fit(ids, values)
        return Type((self.count, *values.shape[ids.ndim :]), values.dtype)

    def numpy(self, ids: Any, values: Any) -> Array:
        known = in_range(ids.reshape(-1), self.count, "id", negative=False)
        tail = values.shape[ids.ndim :]
        flat = values.reshape(ids.size, math.prod(tail))
        return add_rows(self.count, known, flat).reshape(self.count, *tail)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return None, Embedding()(g, xs[0])

    def rows(
        self, has_rows: Sequence[bool], ids: Tensor, values: Tensor
    ) -> Tensor | None:
        rank = ids.type.ndim - has_rows[0]
        width = values.type.shape[rank + has_rows[1] :]
        put = Unindex((self.count, *width), (0,))
        return put.rows((has_rows[1], has_rows[0]), values, ids)


def shares(total: Tensor, ids: Tensor) -> Tensor:
    """Values that, added at ids, make a table of which all other rows are zeros."""
    places = np.asarray(ids.array)
    each = 1.0 / np.bincount(places.reshape(-1))[places]
    each = each.reshape(places.shape + (1,) * (total.type.ndim - 1))
    return Embedding()(total, ids) * each.astype(total.type.dtype)


def _rows_fit(ids: Type, values: Type) -> None:
    integers_only([ids])
    if values.shape[: ids.ndim] != ids.shape:
        raise ShapeError(
            f"ids {ids.shape} with values {values.shape}: not one row for each id"
        )


def sparse_rows(g: Tensor) -> tuple[Tensor, Tensor] | None:
    """(ids [n], values [n, ...]) of a gradient whose other rows are 0; None if dense.

    Recognizes RowsToDense, sums of them, and their multiples by scalars. An id may
    occur several times; `combine_rows` gives each occurrence the sum of its rows.

    >>> table = td.param("table", init=[[1.0], [2.0], [3.0]])
    >>> g = td.grad(td.rows(table, [2, 2]).sum(), [table])[0]
    >>> [part.tolist() for part in td.sparse_rows(g)]
    [[2, 2], [[1.0], [1.0]]]
    """
    ids: list[Tensor] = []
    values: list[Tensor] = []
    # A sum has a term for each look-up, thousands where a graph is built word by word.
    open_: list[tuple[Tensor, tuple[Any, ...]]] = [(g, ())]
    while open_:
        x, around = open_.pop()
        if isinstance(x.op, RowsToDense):
            where, value = x.inputs
            n = where.type.size
            value = reshape(value, (n, *g.type.shape[1:]))
            for wrap in reversed(around):
                value = wrap(value)
            ids.append(reshape(where, (n,)))
            values.append(value)
        elif isinstance(x.op, Add):
            if any(
                not equal_shapes(term.type.shape, x.type.shape) for term in x.inputs
            ):
                return None
            open_ += [(term, around) for term in reversed(x.inputs)]
        else:
            inner, wrap = _multiple(x)
            if inner is None:
                return None
            open_.append((inner, (*around, wrap)))
    if len(ids) == 1:
        return ids[0], values[0]
    return functions.concat(ids), functions.concat(values)


def _multiple(x: Tensor) -> tuple[Tensor | None, Any]:
    """The tensor that `x` is a scalar multiple of, and the factor; or None."""
    op_ = x.op
    if isinstance(op_, (Negative, Cast)):
        return x.inputs[0], op_
    if isinstance(op_, (Multiply, Divide)) and not x.inputs[1].type.shape:
        factor = x.inputs[1]
        return x.inputs[0], lambda value: op_(value, factor)
    if isinstance(op_, Multiply) and not x.inputs[0].type.shape:
        factor = x.inputs[0]
        return x.inputs[1], lambda value: op_(factor, value)
    return None, None


@op(tolerance="R")
class CombineRows(Composite):
    """Each row replaced by the sum of all rows with its id: inputs ids, values.

    y[i] = sum of values[j] over the j with ids[j] = ids[i]. A `count` promises that
    ids are less: the time it takes is in proportion to their number and `count` then.
    """

    count: int | None = None
    arity = 2

    def infer(self, ids: Type, values: Type) -> Type:
        _rows_fit(ids, values)
        if ids.ndim != 1:
            raise ShapeError(f"ids have one dimension, not {ids.ndim}")
        return values

    def numpy(self, ids: Any, values: Any) -> Array:
        if self.count is not None:
            in_range(ids, self.count, "id", negative=False)
        unique, where = np.unique(ids, return_inverse=True)
        flat = values.reshape(len(ids), math.prod(values.shape[1:]))
        total = add_rows(len(unique), where, flat)
        return total[where].reshape(values.shape)

    def expand(self, ids: Tensor, values: Tensor) -> Tensor:
        n = ids.type.shape[0]
        if not n:
            return values
        # All rows of one id are summed up where one of them stands.
        if self.count is not None and self.count <= max(FEW, n * n):
            empty = broadcast_to(constant_node(np.zeros((), np.int32)), (self.count,))
            number = constant_node(arange(n, np.int32))
            one = Embedding()(IndexSet((0,))(empty, number, ids), ids)
        elif n <= COMPARED:
            number = constant_node(arange(n))
            same = functions.equal(reshape(ids, (n, 1)), reshape(ids, (1, n)))
            one = functions.min(functions.where(same, number, n), 1)
        else:
            one = functions.searchsorted(functions.sort(ids), ids)
        one = functions.clip(one, 0, n - 1)  # which says that it is a position
        return Embedding()(RowsToDense(n)(one, values), one)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return None, self(xs[0], g)


@provide
def combine_rows(ids: Any, values: Any, count: int | None = None) -> Tensor:
    """Each row of `values` replaced by the sum of all rows that have its id.

    A `count` promises that ids are less, which saves comparing or sorting them: the
    time it takes is in proportion to their number and `count` then. RunError where it
    turns out not to hold.

    >>> td.combine_rows([7, 3, 7], [1.0, 2.0, 3.0]).tolist()
    [4.0, 2.0, 4.0]
    """
    rows = None if count is None else as_shape((count,))[0]
    return CombineRows(rows)(positions(ids), as_tensor(values))
