"""Importers of sequences and optional values, which are tuples and None at a call."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td
from treadle.graph.leaves import as_tensor
from treadle.graph.tensor import Tensor
from treadle.io.onnx.build import Value, value_of
from treadle.io.onnx.table import OnnxNode, axis_of, integers, row

Sequence = tuple[Any, ...]


def _sequence(x: Value) -> Sequence:
    if not isinstance(x, tuple):
        raise ValueError("it takes a sequence")
    return x


def _place(x: Value, size: int, k: int) -> int:
    """A position in a sequence, counted from the front."""
    place = integers(value_of(x, k), "the position")[0]
    if not -size <= place < size:
        raise ValueError(f"position {place} in a sequence of {size}")
    return place % size


@row("SequenceInsert", raw=True, sequence=True)
def _insert(node: OnnxNode, xs: Value, x: Value, place: Value = None) -> Sequence:
    items = list(_sequence(xs))
    size = len(items)
    k = size if place is None else _place(place, size + 1, 2)
    if place is not None and integers(value_of(place, 2), "the position")[0] < 0:
        k = (k - 1) % (size + 1)  # counted from the end of the sequence as it was
    items.insert(k, x)
    return tuple(items)


@row("SequenceErase", raw=True, sequence=True)
def _erase(node: OnnxNode, xs: Value, place: Value = None) -> Sequence:
    items = list(_sequence(xs))
    del items[-1 if place is None else _place(place, len(items), 1)]
    return tuple(items)


@row("SequenceAt", raw=True)
def _at(node: OnnxNode, xs: Value, place: Value) -> tuple[Any]:
    items = _sequence(xs)
    return (items[_place(place, len(items), 1)],)


@row("SplitToSequence", reads="axis keepdims", raw=True, sequence=True)
def _split(node: OnnxNode, x: Value, sizes: Value = None) -> Sequence:
    data: Tensor = as_tensor(x)
    axis = axis_of(node.get("axis", 0), data)
    extent = data.shape[axis]
    if sizes is None:
        parts = td.split(data, extent, axis) if extent else []
        keep = node.get("keepdims", 1)
        return tuple(y if keep else td.squeeze(y, axis) for y in parts)
    array = value_of(sizes, 1)
    lengths = integers(array, "the sizes")
    if not array.ndim:
        (size,) = lengths
        if size < 1:
            raise ValueError(f"parts of {size}")
        lengths = tuple(min(size, extent - k) for k in range(0, extent, size))
    if sum(lengths) != extent or min(lengths, default=0) < 0:
        raise ValueError(f"parts {lengths} of {extent}")
    return tuple(td.split(data, list(lengths), axis))


@row("ConcatFromSequence", reads="axis new_axis", raw=True)
def _concat(node: OnnxNode, xs: Value) -> tuple[Any]:
    items = [as_tensor(x) for x in _sequence(xs)]
    axis = node.get("axis")
    if axis is None or not items:
        raise ValueError("it has no axis, or nothing to join")
    join = td.stack if node.get("new_axis", 0) else td.concat
    return (join(items, axis),)


@row("OptionalGetElement", raw=True)
def _get(node: OnnxNode, x: Value) -> tuple[Any]:
    if x is None:
        raise ValueError("the optional value is left out")
    return (x,)


row("SequenceEmpty", reads="dtype", raw=True, sequence=True)(lambda node: ())
row("SequenceConstruct", raw=True, sequence=True)(lambda node, *xs: xs)
row("SequenceLength", raw=True)(
    lambda node, xs: (np.array(len(_sequence(xs)), np.int64),)
)
row("Optional", reads="type", raw=True)(lambda node, x=None: (x,))
row("OptionalHasElement", raw=True)(lambda node, x=None: (np.array(x is not None),))
