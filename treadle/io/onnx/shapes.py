"""Importers of ops that make, move, join and pick."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td
from treadle.base.arrays import Array
from treadle.base.types import broadcast_shapes
from treadle.graph.tensor import Tensor
from treadle.io.files import check_shape
from treadle.io.onnx.file import DTYPES
from treadle.io.onnx.table import OnnxNode, axis_of, integers, row

MOST = 1 << 20  # elements of what a node makes out of nothing


_VALUES = "value value_float value_int value_floats value_ints"


@row("Constant", reads=_VALUES)
def _constant(node: OnnxNode) -> Any:
    for name in _VALUES.split():
        value = node.get(name)
        if value is not None:
            if isinstance(value, np.ndarray):
                return value
            wanted = np.float32 if "float" in name else np.int64
            return np.array(value, wanted)
    raise ValueError("it has no value that is read")


def _size(shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    check_shape(shape, np.dtype(dtype))
    return shape


@row("ConstantOfShape", reads="value", static=(0,))
def _filled(node: OnnxNode, shape: Array) -> Tensor:
    value = node.get("value")
    value = np.zeros(1, np.float32) if value is None else value
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise ValueError("its value is not one number")
    extents = _size(integers(shape, "the shape"), value.dtype)
    return td.broadcast_to(td.asarray(value.reshape(())), extents)


@row("Shape", reads="start end")
def _shape(node: OnnxNode, x: Tensor) -> Array:
    shape = x.type.shape
    start, end = node.get("start", 0), node.get("end", len(shape))
    return np.array(shape[start:end], np.int64)


@row("Range", reads="stash_type", static=(0, 1, 2))
def _range(node: OnnxNode, start: Array, stop: Array, step: Array) -> Array:
    start, stop, step = start.reshape(()), stop.reshape(()), step.reshape(())
    count = float((stop - start) / step) if step else np.inf
    if not count <= MOST:
        raise ValueError(f"a range from {start} to {stop} by {step}")
    places = np.arange(max(int(np.ceil(count)), 0))
    return np.asarray(start + step * places, start.dtype)


@row("EyeLike", reads="dtype k")
def _eye(node: OnnxNode, x: Tensor) -> Tensor:
    if x.type.ndim != 2 or x.type.size > MOST:
        raise ValueError(f"an identity like {x.type}")
    rows, columns = x.type.shape
    code = node.get("dtype", 0)
    dtype = DTYPES[code] if code else x.type.dtype
    return td.asarray(np.eye(rows, columns, node.get("k", 0), dtype=dtype))


@row("Reshape", reads="allowzero", static=(1,))
def _reshape(node: OnnxNode, x: Tensor, shape: Array) -> Tensor:
    wanted = integers(shape, "the shape")
    extents = x.type.shape
    if not node.get("allowzero", 0):
        wanted = tuple(extents[k] if n == 0 else n for k, n in enumerate(wanted))
    if -1 in wanted and 0 in extents:
        rest = int(np.prod([n for n in wanted if n != -1]))
        wanted = tuple(0 if n == -1 and rest else n for n in wanted)
    return td.reshape(x, wanted)


@row("Flatten", reads="axis")
def _flatten(node: OnnxNode, x: Tensor) -> Tensor:
    axis, shape = node.get("axis", 1), x.type.shape
    if not -len(shape) <= axis <= len(shape):
        raise ValueError(f"axis {axis} is none of {x.type}")
    axis = axis if axis >= 0 else axis + len(shape)
    return td.reshape(x, (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))))


@row("Transpose", reads="perm")
def _transpose(node: OnnxNode, x: Tensor) -> Tensor:
    order = tuple(node.get("perm") or reversed(range(x.type.ndim)))
    return td.permute_dims(x, order)


@row("Squeeze", reads="axes", static=(1,))
def _squeeze(node: OnnxNode, x: Tensor, axes: Any = None) -> Tensor:
    wanted = node.get("axes") if axes is None else axes
    if wanted is None:
        return td.squeeze(x)
    return td.squeeze(x, tuple(axis_of(a, x) for a in integers(wanted, "axes")))


@row("Unsqueeze", reads="axes", static=(1,))
def _unsqueeze(node: OnnxNode, x: Tensor, axes: Any = None) -> Tensor:
    places = integers(node.get("axes") if axes is None else axes, "axes")
    ndim = x.type.ndim + len(places)
    if not all(-ndim <= a < ndim for a in places) or len(
        {a % ndim for a in places}
    ) < len(places):
        raise ValueError(f"axes {places} of a result of {ndim} dimensions")
    shape = list(x.type.shape)
    for a in sorted(a % ndim for a in places):
        shape.insert(a, 1)
    return td.reshape(x, tuple(shape))


@row("Expand", static=(1,))
def _expand(node: OnnxNode, x: Tensor, shape: Array) -> Tensor:
    wanted = _size(integers(shape, "the shape"), x.type.dtype)
    return td.broadcast_to(x, broadcast_shapes(x.type.shape, wanted))


@row("Tile", static=(1,))
def _tile(node: OnnxNode, x: Tensor, counts: Array) -> Tensor:
    repeats = integers(counts, "repeats")
    pairs = zip(x.type.shape, repeats, strict=True)
    _size(tuple(n * k for n, k in pairs), x.type.dtype)
    return td.tile(x, repeats)


@row("Split", reads="axis split num_outputs", static=(1,))
def _split(node: OnnxNode, x: Tensor, sizes: Any = None) -> Any:
    axis, count = axis_of(node.get("axis", 0), x), len(node.outputs)
    lengths = node.get("split") if sizes is None else sizes
    if lengths is not None:
        parts = integers(lengths, "sizes")
    else:
        each = -(-x.type.shape[axis] // count)
        parts = (*[each] * (count - 1), x.type.shape[axis] - each * (count - 1))
    if len(parts) != count or sum(parts) != x.type.shape[axis] or min(parts) < 0:
        raise ValueError(f"{parts} do not split {x.type}")
    pieces, start = [], 0
    for n in parts:
        key = [slice(None)] * axis + [slice(start, start + n)]
        pieces.append(x[tuple(key)])
        start += n
    return tuple(pieces)


@row("Slice", reads="starts ends axes", static=(1, 2, 3, 4))
def _slice(
    node: OnnxNode,
    x: Tensor,
    starts: Any = None,
    ends: Any = None,
    axes: Any = None,
    steps: Any = None,
) -> Tensor:
    begins = starts if starts is not None else node.get("starts")
    first = integers(begins, "starts")
    last = integers(ends if ends is not None else node.get("ends"), "ends")
    axes = axes if axes is not None else node.get("axes")
    places = range(len(first)) if axes is None else integers(axes, "axes")
    by = [1] * len(first) if steps is None else integers(steps, "steps")
    key = [slice(None)] * x.type.ndim
    for a, b, axis, step in zip(first, last, places, by, strict=True):
        k = axis_of(axis, x)
        # An end below all places, with a step back, means through the first.
        end = None if step < 0 and b < -x.type.shape[k] else b
        key[k] = slice(a, end, step)
    return x[tuple(key)]


@row("GatherElements", reads="axis")
def _gather_elements(node: OnnxNode, x: Tensor, ids: Tensor) -> Tensor:
    axis = axis_of(node.get("axis", 0), x)
    if ids.type.ndim != x.type.ndim:
        raise ValueError(f"positions {ids.type} in {x.type}")
    key = [slice(0, n) for n in ids.type.shape]
    key[axis] = slice(None)
    return td.take_along_axis(x[tuple(key)], ids, axis)


@row("OneHot", reads="axis", static=(1,))
def _one_hot(node: OnnxNode, ids: Tensor, depth: Array, values: Tensor) -> Tensor:
    count, axis = int(depth.reshape(())), node.get("axis", -1)
    if not 0 <= count <= MOST:
        raise ValueError(f"{count} classes")
    _size((*ids.type.shape, count), values.type.dtype)
    whole = td.astype(ids, td.int64)
    hot = td.expand_dims(td.where(whole < 0, whole + count, whole), -1)
    chosen = td.equal(hot, td.asarray(np.arange(count)))
    y = td.where(chosen, values[1], values[0])
    return td.moveaxis(y, -1, axis)


@row("Pad", reads="mode pads value", static=(1, 3))
def _pad(
    node: OnnxNode, x: Tensor, pads: Any = None, value: Any = None, axes: Any = None
) -> Tensor:
    mode = node.get("mode", "constant")
    amounts = integers(pads if pads is not None else node.get("pads"), "pads")
    if value is None:
        value = np.array(node.get("value", 0.0), x.type.dtype)
    places = range(x.type.ndim) if axes is None else integers(axes, "axes")
    if len(amounts) != 2 * len(places):
        raise ValueError(f"{len(amounts)} widths for {len(places)} dimensions")
    widths, half = [(0, 0)] * x.type.ndim, len(amounts) // 2
    for k, axis in enumerate(places):
        widths[axis_of(axis, x)] = amounts[k], amounts[half + k]
    cut = [
        slice(max(-a, 0), n + min(b, 0))
        for n, (a, b) in zip(x.type.shape, widths, strict=True)
    ]
    if any(a < 0 or b < 0 for a, b in widths):
        x = x[tuple(cut)]
        widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    pairs = zip(x.type.shape, widths, strict=True)
    _size(tuple(n + a + b for n, (a, b) in pairs), x.type.dtype)
    if mode == "constant":
        return td.pad(x, widths, value=np.asarray(value).reshape(()))
    if mode == "wrap":
        for axis, (a, b) in enumerate(widths):
            if a or b:
                n = x.type.shape[axis]
                x = td.take(x, np.arange(-a, n + b) % max(n, 1), axis)
        return x
    if mode not in ("reflect", "edge"):
        raise ValueError(f"a border of mode {mode[:20]!r} of {x.type}")
    return td.pad(x, widths, mode)


@row("Trilu", reads="upper", static=(1,))
def _triangle(node: OnnxNode, x: Tensor, k: Any = None) -> Tensor:
    diagonal = 0 if k is None else integers(k, "k")[0]
    return td.triu(x, diagonal) if node.get("upper", 1) else td.tril(x, diagonal)


def _blocks(node: OnnxNode) -> tuple[int, bool]:
    """The extent of the blocks, and whether depth comes before columns and rows."""
    mode = node.get("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise ValueError(f"mode is {mode[:20]!r}")
    return node.get("blocksize", 1), mode == "DCR"


@row("DepthToSpace", reads="blocksize mode")
def _to_space(node: OnnxNode, x: Tensor) -> Tensor:
    n, c, h, w = x.type.shape
    b, depth_first = _blocks(node)
    if depth_first:
        order, parts = (0, 3, 4, 1, 5, 2), (n, b, b, c // b**2, h, w)
    else:
        order, parts = (0, 1, 4, 2, 5, 3), (n, c // b**2, b, b, h, w)
    y = td.permute_dims(td.reshape(x, parts), order)
    return td.reshape(y, (n, c // b**2, h * b, w * b))


@row("SpaceToDepth", reads="blocksize mode")
def _to_depth(node: OnnxNode, x: Tensor) -> Tensor:
    n, c, h, w = x.type.shape
    b, depth_first = _blocks(node)
    y = td.reshape(x, (n, c, h // b, b, w // b, b))
    order = (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4)
    return td.reshape(td.permute_dims(y, order), (n, -1, h // b, w // b))


row("Size")(lambda node, x: np.array(x.type.size, np.int64))
row("Concat", reads="axis")(
    lambda node, *xs: td.concat(list(xs), axis_of(node.get("axis", 1), xs[0]))
)
row("Gather", reads="axis")(
    lambda node, x, ids: td.take(x, ids, axis_of(node.get("axis", 0), x))
)
