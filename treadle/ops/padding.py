"""Tensors made larger by a border, and parts of matrices kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.symbolic import array_of
from treadle.base.types import Type, resolve_axis
from treadle.graph.leaves import as_tensor, constant_node, literal_node
from treadle.graph.op import Array, Cotangents, Traits, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import widened
from treadle.graph.tensor import Tensor
from treadle.ops.cast import operands
from treadle.ops.families import Family

__all__ = ["diag", "pad", "shift", "tril", "triu"]

_BORDERS = ("reflect", "symmetric", "edge", "wrap")  # as NumPy names them
Widths = tuple[tuple[int, int], ...]


@op()
class Pad(Family):
    """x with a border of the second input, `widths` (before, after) a dimension."""

    widths: Widths
    family = "join"
    arity = 2
    traits = Traits(tolerance="E")

    def infer(self, t: Type, value: Type) -> Type:
        if value.shape or value.dtype != t.dtype:
            raise ShapeError(f"the border is a scalar of the same dtype, not {value}")
        if len(self.widths) != t.ndim:
            raise ShapeError(f"{len(self.widths)} widths for {t.ndim} dimensions")
        if any(w < 0 for pair in self.widths for w in pair):
            raise ArgumentError(f"a border has no negative width: {self.widths}")
        pairs = zip(t.shape, self.widths, strict=True)
        return Type(tuple(n + a + b for n, (a, b) in pairs), t.dtype, t.axes)

    def numpy(self, x: Any, value: Any) -> Array:
        return np.pad(x, self.widths, constant_values=value) if x.ndim else x

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        shape = xs[0].type.shape
        key = tuple(
            slice(a, a + n) for n, (a, _) in zip(shape, self.widths, strict=True)
        )
        inner = g[key] if key else g
        return inner, (g - pad(inner, self.widths)).sum()

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        (x, value), (many, value_rows) = xs, has_rows
        widths = ((0, 0), *self.widths) if many else self.widths
        if not value_rows:
            return Pad(widths)(x, value)
        inside = np.ones(x.type.shape[many:], bool)
        mask = as_tensor(np.pad(inside, self.widths) if self.widths else inside)
        zero = constant_node(np.zeros((), x.type.dtype))
        border = widened(value, len(self.widths))
        return functions.where(mask, Pad(widths)(x, zero), border)


@provide
def pad(x: Any, widths: Any, mode: str = "constant", value: Any = None) -> Tensor:
    """`x` with a border: `widths` a number, (before, after), or a pair a dimension.

    `mode` is "constant" (of `value`, or 0), "reflect", "symmetric", "edge" ("replicate"
    for torch) or "wrap" ("circular").

    >>> td.pad([1.0, 2.0], 1).tolist()
    [0.0, 1.0, 2.0, 0.0]
    """
    node = as_tensor(x)
    pairs = _widths(widths, node.type.ndim)
    if mode == "constant":
        node, border = operands(node, False if value is None else value)
        return Pad(pairs)(node, functions.astype(border, node.type.dtype))
    mode = {"replicate": "edge", "circular": "wrap"}.get(mode, mode)
    if mode not in _BORDERS:
        known = ", ".join(("constant", *_BORDERS))
        raise ArgumentError(f"mode is one of {known}, not {mode!r}").located("pad")
    for axis, pair in enumerate(pairs):
        if pair == (0, 0):
            continue
        n = node.type.shape[axis]
        if n == 0 or min(pair) < 0:
            raise ArgumentError(
                f"axis {axis} of {node.type} has no border of {pair} by {mode}"
            ).located("pad")
        places = array_of(_places, (n + sum(pair),), n, *pair, mode)
        wide = functions.take(functions.unname(node), constant_node(places), axis)
        node = functions.reshape(wide, wide.type.shape, axes=node.type.axes)
    return node


def _places(n: int, before: int, after: int, mode: Any) -> Array:
    """Which element of n stands at each place, the border's among them."""
    return np.pad(np.arange(n), (before, after), mode=mode)


def _widths(widths: Any, ndim: int) -> Widths:
    if hasattr(widths, "__index__"):
        return ((int(widths), int(widths)),) * ndim
    items = tuple(widths)
    if len(items) == 2 and all(hasattr(w, "__index__") for w in items):
        return ((int(items[0]), int(items[1])),) * ndim
    try:
        pairs = tuple((int(a), int(b)) for a, b in items)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"widths are a number, (before, after), or a pair a dimension: {widths}"
        ).located("pad") from None
    if len(pairs) != ndim:
        raise ShapeError(f"{len(pairs)} widths for {ndim} dimensions").located("pad")
    return pairs


@provide
def shift(x: Any, count: int, axis: Any = -1, value: Any = None) -> Tensor:
    """The elements moved `count` places up along `axis`, `value` (or 0) coming in.

    >>> td.shift([1.0, 2.0, 3.0], 1).tolist()
    [0.0, 1.0, 2.0]
    """
    node = as_tensor(x)
    k = resolve_axis(axis, node.type)
    n = node.type.shape[k]
    steps = max(-n, min(n, count))
    key = [slice(None)] * node.type.ndim
    key[k] = slice(0, n - steps) if steps > 0 else slice(-steps, n)
    widths = [(0, 0)] * node.type.ndim
    widths[k] = (max(steps, 0), max(-steps, 0))
    return pad(node[tuple(key)], widths, value=value)


def _triangle(x: Any, k: int, lower: bool) -> Tensor:
    node = as_tensor(x)
    name = "tril" if lower else "triu"
    if node.type.ndim < 2:
        raise ShapeError(f"{node.type} is no matrix").located(name)
    rows, columns = node.type.shape[-2:]
    sizes = rows, columns
    mask = constant_node(array_of(_below if lower else _above, sizes, *sizes, k))
    kept = functions.where(
        mask, functions.unname(node), literal_node(0, node.type.dtype)
    )
    return functions.reshape(kept, node.type.shape, axes=node.type.axes)


def _below(rows: int, columns: int, k: int) -> Any:
    """The mask of what is not above the k-th diagonal."""
    return np.tri(rows, columns, k, dtype=bool)


def _above(rows: int, columns: int, k: int) -> Any:
    """The mask of what is not below the k-th diagonal."""
    return ~np.tri(rows, columns, k - 1, dtype=bool)


@provide
def tril(x: Any, k: int = 0) -> Tensor:
    """The matrix with zeros above its k-th diagonal.

    >>> td.tril(td.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _triangle(x, k, True)


@provide
def triu(x: Any, k: int = 0) -> Tensor:
    """The matrix with zeros below its k-th diagonal.

    >>> td.triu(td.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _triangle(x, k, False)


def diag(x: Any) -> Tensor:
    """A matrix with this diagonal; of a matrix, its diagonal.

    >>> td.diag([1.0, 2.0]).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    node = as_tensor(x)
    if node.type.ndim == 2:
        return functions.diagonal(node)
    if node.type.ndim != 1:
        raise ShapeError(f"{node.type} is neither vector nor matrix").located("diag")
    n = node.type.size
    mask = constant_node(array_of(np.eye, (n, n), n, None, 0, bool))
    return functions.where(mask, node, literal_node(0, node.type.dtype))
