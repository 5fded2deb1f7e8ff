"""Elements at positions that are data: read, added into zeros, set and folded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import kind
from treadle.base.errors import ArgumentError, DTypeError, RunError, ShapeError
from treadle.base.types import Shape, Type, broadcast_shapes, normalize_axis
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Array, Cotangents, Input, Mistake, Sample, common_axes, op
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.elementwise import conj
from treadle.ops.families import Family, same_dtype, some

__all__: list[str] = []

Integers = tuple[int, ...]
FOLDS = {"multiply": np.multiply, "max": np.maximum, "min": np.minimum}


def in_range(ids: Array, n: int, what: str = "index", negative: bool = True) -> Array:
    """Positions counted from the front; one outside the extent is a RunError."""
    low = -n if negative else 0
    bad = (ids < low) | (ids >= n)
    if bad.any():
        raise RunError(f"{what} {ids[bad].flat[0]} is out of range for extent {n}")
    found: Array = np.where(ids < 0, ids + n, ids) if negative else ids
    return found.astype(np.intp)


def add_rows(count: int, ids: Array, values: Array) -> Array:
    """Zeros [count, k] with row j of values [n, k] added at row ids[j]."""
    out = np.zeros((count, values.shape[1]), values.dtype)
    if values.size:
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        out[ordered[first]] = np.add.reduceat(values[order], first, axis=0)
    return out


def integers_only(types: Sequence[Type]) -> None:
    """Refuse positions that are no integers."""
    for t in types:
        if kind(t.dtype) != "integer":
            raise DTypeError(
                f"positions are integers, not {t.dtype.name}",
                hint="a mask is a bool tensor: x[mask]; or convert with .astype",
            )


def rows_of(x: Array, axes: Integers) -> Array:
    """x as [indexed extents flattened, all others flattened], a copy."""
    moved = np.moveaxis(x, axes, range(len(axes)))
    count = math.prod(x.shape[k] for k in axes)
    width = math.prod(moved.shape[len(axes) :])
    return np.array(moved.reshape(count, width))


def from_rows(rows: Array, shape: Shape, axes: Integers) -> Array:
    """The inverse of `rows_of`."""
    rest = [n for k, n in enumerate(shape) if k not in axes]
    moved = rows.reshape([shape[k] for k in axes] + rest)
    return np.moveaxis(moved, range(len(axes)), axes)


def flat_ids(shape: Shape, axes: Integers, ids: Sequence[Array]) -> Array:
    """One row number for each position."""
    flat: Any = 0
    for k, i in zip(axes, ids, strict=True):
        flat = flat * shape[k] + in_range(i, shape[k])
    return np.asarray(flat).reshape(-1)


def value_rows(e: Array, place: int, ids: Sequence[Array]) -> Array:
    """Values laid out like an Index result, as [positions, all others]."""
    n = max(i.ndim for i in ids)
    moved = np.moveaxis(e, range(place, place + n), range(n))
    return moved.reshape(math.prod(moved.shape[:n]), math.prod(moved.shape[n:]))


def indexed(x: Type, axes: Integers, place: int, ids: Sequence[Type]) -> Type:
    """The type of x with the dimensions `axes` replaced by the positions' shape."""
    integers_only(ids)
    if len(axes) != len(ids):
        raise ShapeError(f"{len(ids)} index arrays given for axes {axes}")
    for k in axes:
        normalize_axis(k, x.ndim)
    shape = broadcast_shapes(*[t.shape for t in ids])
    rest = [k for k in range(x.ndim) if k not in axes]
    extents = tuple(x.shape[k] for k in rest)
    names = None
    if x.axes is not None or any(t.axes for t in ids):
        own = common_axes(ids, len(shape)) or (None,) * len(shape)
        kept = tuple(x.axes[k] if x.axes else None for k in rest)
        names = some(kept[:place] + own + kept[place:])
    return Type(extents[:place] + shape + extents[place:], x.dtype, names)


def _wide(ids: Sequence[Array]) -> list[Array]:
    return list(np.broadcast_arrays(*ids))


@op(tolerance="E")
class Index(Family):
    """Elements of x at integer arrays, one for each of the dimensions `axes`.

    Inputs x and the positions; the positions' dimensions stand at `place` among the
    others in the result. Negative positions count from the end.
    """

    axes: Integers
    place: int = 0
    family = "gather"

    def infer(self, *types: Type) -> Type:
        return indexed(types[0], self.axes, self.place, types[1:])

    def numpy(self, *arrays: Any) -> Array:
        x, ids = arrays[0], _wide(arrays[1:])
        known = [in_range(i, x.shape[k]) for k, i in zip(self.axes, ids, strict=True)]
        if self.axes == (self.place,):
            return np.take(x, known[0], self.place, mode="clip")
        found = np.moveaxis(x, self.axes, range(len(self.axes)))[tuple(known)]
        n = ids[0].ndim
        return np.moveaxis(found, range(n), range(self.place, self.place + n))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        put = Unindex(xs[0].type.shape, self.axes, self.place)
        return put(g, *xs[1:]), *[None] * (len(xs) - 1)

    @classmethod
    def samples(cls) -> list[Sample]:
        i, j = np.array([2, 0, -1, 2]), np.array([[1], [0]])
        return [
            Sample(cls((0,)), (Input((3, 2)), i)),
            Sample(cls((1,), 1), (Input((7, 5)), np.array([[4, 4, 0]]))),
            Sample(cls((0, 2)), (Input((3, 2, 4)), i, j)),
            Sample(cls((1, 2), 1), (Input((2, 3, 4)), i, i)),
            Sample(cls((0,)), (Input((3,)), np.array(1))),
            Sample(cls((0,)), (Input((3, 2)), np.zeros((0,), np.int64))),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x = as_tensor([1.0, 2.0])
        far = as_tensor(np.array([5]))
        return [
            Mistake(lambda: cls((0,))(x, x), DTypeError, "are integers"),
            Mistake(lambda: cls((0, 1))(x, far), ShapeError, "1 index arrays"),
            Mistake(lambda: cls((0,))(x, far).numpy(), RunError, "index 5 is out"),
        ]


@op(tolerance="R")
class Unindex(Family):
    """Zeros of `shape` with x added at integer arrays: the transpose of Index."""

    shape: Shape
    axes: Integers
    place: int = 0
    family = "scatter"

    def infer(self, *types: Type) -> Type:
        t = types[0]
        fit(Type(self.shape, t.dtype), self.axes, self.place, types)
        return Type(self.shape, t.dtype)

    def numpy(self, *arrays: Any) -> Array:
        ids = _wide(arrays[1:])
        count = math.prod(self.shape[k] for k in self.axes)
        flat = flat_ids(self.shape, self.axes, ids)
        values = value_rows(arrays[0], self.place, ids)
        return from_rows(add_rows(count, flat, values), self.shape, self.axes)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        take = Index(self.axes, self.place)
        return take(g, *xs[1:]), *[None] * (len(xs) - 1)

    @classmethod
    def samples(cls) -> list[Sample]:
        i, j = np.array([2, 0, -1, 2]), np.array([[1], [0]])
        return [
            Sample(cls((3, 2), (0,)), (Input((4, 2)), i)),
            Sample(cls((3, 2, 4), (0, 2)), (Input((2, 4, 2)), i, j)),
            Sample(cls((2, 3, 4), (1, 2), 1), (Input((2, 4)), i, i)),
            Sample(cls((3, 2), (0,)), (Input((0, 2)), np.zeros((0,), np.int64))),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x, far = as_tensor([1.0]), as_tensor(np.array([5]))
        put = cls((3,), (0,))
        return [
            Mistake(lambda: put(x, x), DTypeError, "are integers"),
            Mistake(lambda: put(as_tensor(1.0), far), ShapeError, "do not fit"),
            Mistake(lambda: put(x, far).numpy(), RunError, "index 5 is out"),
        ]


def fit(x: Type, axes: Integers, place: int, types: Sequence[Type]) -> None:
    """Check that values (first) have the shape of x at positions (the others)."""
    want = indexed(x, axes, place, types[1:]).shape
    if types[0].shape != want:
        raise ShapeError(f"values of shape {types[0].shape} do not fit, need {want}")


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
        x, e, ids = arrays[0], arrays[1], _wide(arrays[2:])
        rows = rows_of(x, self.axes)
        flat = flat_ids(x.shape, self.axes, ids)
        rows[flat] = value_rows(e, self.place, ids)
        return from_rows(rows, x.shape, self.axes)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        ids = xs[2:]
        zero = constant_node(np.zeros(xs[1].type.shape, g.type.dtype))
        number = constant_node(np.arange(zero.type.size).reshape(zero.type.shape))
        # Which value holds each element in the end: the others have no gradient.
        empty = constant_node(np.zeros(xs[0].type.shape, np.int64))
        owner = Index(self.axes, self.place)(self(empty, number, *ids), *ids)
        ge = Index(self.axes, self.place)(g, *ids)
        ge = functions.where(functions.equal(owner, number), ge, zero)
        return self(g, zero, *ids), ge, *[None] * len(ids)

    @classmethod
    def samples(cls) -> list[Sample]:
        i, j = np.array([2, 0, -1, 2]), np.array([[1], [0]])
        return [
            Sample(cls((0,)), (Input((3, 2)), Input((4, 2)), i)),
            Sample(cls((0, 2)), (Input((3, 2, 4)), Input((2, 4, 2)), i, j)),
            Sample(cls((1, 2), 1), (Input((2, 3, 4)), Input((2, 4)), i, i)),
            Sample(cls((0,)), (Input((3,)), Input(()), np.array(1))),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x, far = as_tensor([1.0]), as_tensor(np.array([5]))
        put = cls((0,))
        return [
            Mistake(lambda: put(x, far, far), DTypeError, "dtypes"),
            Mistake(lambda: put(x, as_tensor(1.0), far), ShapeError, "do not fit"),
            Mistake(lambda: put(x, x, far).numpy(), RunError, "index 5 is out"),
        ]


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
        x, e, ids = arrays[0], arrays[1], _wide(arrays[2:])
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

    def _of_product(
        self, g: Tensor, y: Tensor, x: Tensor, e: Tensor, ids: Any, take: Index
    ) -> tuple[Tensor, Tensor]:
        dtype, where = x.type.dtype, functions.where
        one = constant_node(np.ones((), dtype))
        ones = constant_node(np.ones(x.type.shape, dtype))
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

    @classmethod
    def samples(cls) -> list[Sample]:
        i, j = np.array([2, 0, -1, 2]), np.array([[1], [0]])
        far = Input((4, 2), apart=0.05)
        near = Input((3, 2), low=-1.9, high=2.1, apart=0.05)
        zeros = np.array([[0.0, 1.5], [2.0, 0.5], [1.0, -2.0], [3.0, 2.0]], np.float32)
        return [
            Sample(cls((0,), 0, "multiply"), (Input((3, 2)), far, i)),
            Sample(
                cls((0,), 0, "multiply"),
                (Input((3, 2)), zeros, i),
                second_order=False,
            ),
            Sample(
                cls((0, 2), 0, "multiply"),
                (Input((3, 2, 4)), Input((2, 4, 2), apart=0.05), i, j),
            ),
            Sample(cls((0,), 0, "max"), (near, far, i)),
            Sample(cls((0,), 0, "min"), (near, far, i)),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x, far = as_tensor([1.0]), as_tensor(np.array([5]))
        put = cls((0,), 0, "max")
        return [
            Mistake(lambda: cls((0,), 0, "or")(x, x, far), ArgumentError, "none of"),
            Mistake(lambda: put(x, as_tensor(1.0), far), ShapeError, "do not fit"),
            Mistake(lambda: put(x, x, far).numpy(), RunError, "index 5 is out"),
        ]
