"""Forms of ops on positions of pictures that are one node in ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.tensor import Tensor
from treadle.io.onnx.writer import Writer

_RESIZED = ("float16", "float32")  # what runtimes resize
_BORDERS: tuple[Any, ...] = ("reflect", "edge", "wrap")  # NumPy and ONNX call them so


def as_repeats(w: Writer, node: Tensor) -> str | None:
    """Each element repeated along some axes as a Resize to the nearest one."""
    (wide,) = node.inputs
    if wide.op.name != "BroadcastTo" or wide.inputs[0].op.name != "Reshape":
        return None
    split = wide.inputs[0]
    (x,) = split.inputs
    if x.type.dtype.name not in _RESIZED or x.type.ndim != node.type.ndim:
        return None
    counts = _repeats(x.type.shape, split.type.shape, wide.type.shape)
    if counts is None or set(counts[:2]) != {1}:  # runtimes resize pictures alone
        return None
    if node.type.shape != tuple(
        n * m for n, m in zip(x.type.shape, counts, strict=True)
    ):
        return None
    return _nearest(w, x, w.array(counts, np.float32))


def _nearest(w: Writer, x: Tensor, *sizes: str) -> str:
    """Pixels of another size, each the one at its place rounded down."""
    return w.add(
        "Resize",
        w.name_of(x),
        "",
        *sizes,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def _repeats(
    shape: tuple[int, ...], split: tuple[int, ...], wide: tuple[int, ...]
) -> list[int] | None:
    """How often the elements along each axis come; None if that is not the form."""
    if len(split) != len(wide):
        return None
    counts, k = [], 0
    for n in shape:
        if k == len(wide) or split[k] != n or wide[k] != n:
            return None
        k += 1
        is_repeated = k < len(wide) and split[k] == 1 and wide[k] > 1
        counts.append(wide[k] if is_repeated else 1)
        k += is_repeated
    return counts if k == len(wide) else None


def as_blocks(w: Writer, node: Tensor) -> str | None:
    """Channels laid out as blocks of pixels: DepthToSpace."""
    (turned,) = node.inputs
    op: Any = turned.op
    if op.name != "PermuteDims" or op.order != (0, 1, 4, 2, 5, 3):
        return None
    (split,) = turned.inputs
    if split.op.name != "Reshape" or split.inputs[0].type.ndim != 4:
        return None
    (x,) = split.inputs
    n, channels, r, r_, height, width = split.type.shape
    before = (n, channels * r * r_, height, width)
    after = (n, channels, height * r, width * r)
    if r != r_ or x.type.shape != before or node.type.shape != after:
        return None
    return w.add("DepthToSpace", w.name_of(x), blocksize=r, mode="CRD")


def as_border(w: Writer, node: Tensor) -> str | None:
    """Rows of an axis with some before and after them as a Pad, of several as one."""
    pads: dict[int, tuple[int, int]] = {}
    modes: set[str] = set()
    x = node
    while x.op.name == "Index" and (x is node or w.used_once(x)):
        border = _border(x)
        if border is None or len(modes | {border[0]}) > 1 or border[1] in pads:
            break
        mode, axis, widths = border
        modes.add(mode)
        pads[axis] = widths
        x = x.inputs[0]
    if not pads or len(pads) < len(_even_axes(w, node)[1]):  # one more row may be both
        return None
    each = [pads.get(k, (0, 0)) for k in range(x.type.ndim)]
    ends = w.integers([before for before, _ in each] + [after for _, after in each])
    return w.add("Pad", w.name_of(x), ends, mode=modes.pop())


def _border(node: Tensor) -> tuple[str, int, tuple[int, int]] | None:
    """The mode, axis and widths of the border that constant places make."""
    op: Any = node.op
    x, ids = node.inputs[0], node.inputs[-1]
    if op.axes != (op.place,) or ids.stored is None or ids.inputs or ids.type.ndim != 1:
        return None
    (axis,) = op.axes
    n, places = x.type.shape[axis], np.asarray(ids.array)
    if x.type.dtype.kind != "f" or not isinstance(n, int) or len(places) <= n or n < 2:
        return None
    for mode in _BORDERS:
        before = int(places[0])
        if mode == "edge":
            before = int(np.argmax(places > 0)) - 1
        elif mode == "wrap":
            before = -before % n
        after = len(places) - n - before
        if before < 0 or after < 0 or (mode == "reflect" and max(before, after) >= n):
            continue
        if np.array_equal(np.pad(np.arange(n), (before, after), mode=mode), places):
            return mode, axis, (before, after)
    return None


def _even_axes(w: Writer, node: Tensor) -> tuple[Tensor, set[int]]:
    """The axes of pictures whose rows have places that grow evenly, and of what."""
    axes: set[int] = set()
    x = node
    while x.op.name == "Index" and (x is node or w.used_once(x)):
        op: Any = x.op
        ids = x.inputs[-1]
        if op.axes != (op.place,) or op.place in axes or op.place < 2:
            break
        if ids.stored is None or ids.inputs or ids.type.ndim != 1:
            break
        n, m = x.inputs[0].type.shape[op.place], ids.type.size
        if n in (0, m) or not _grows_evenly(np.asarray(ids.array), n, w.varies):
            break
        axes.add(op.place)
        x = x.inputs[0]
    return x, axes


def as_nearest(w: Writer, node: Tensor) -> str | None:
    """Rows of places that grow evenly, along axes of pictures, as a Resize."""
    x, axes = _even_axes(w, node)
    if not axes or x.type.dtype.name not in _RESIZED or not 3 <= x.type.ndim <= 5:
        return None
    sizes: list[str] = ["", w.integers(node.type.shape)]
    if w.varies:  # as many times as large, whatever the extent
        pairs = zip(node.type.shape, x.type.shape, strict=True)
        sizes = [w.array([m / n for m, n in pairs], np.float32)]
    return _nearest(w, x, *sizes)


def _grows_evenly(places: Any, n: int, scaled: bool) -> bool:
    """Whether k n / m rounded down is place k of m, in single precision, too.

    Where the file is `scaled`, m is also what n times the factor is rounded down to.
    """
    m = len(places)
    k, scale = np.arange(m), np.float32(m / n)
    single = np.floor(k.astype(np.float32) / scale)
    if scaled and int(np.floor(np.float32(n) * scale)) != m:
        return False
    return all((each == places).all() for each in (k * n // m, single))


def as_interpolation(w: Writer, node: Tensor) -> str | None:
    """Means of two neighbors along some axes of pictures as a linear Resize."""
    x, modes, axes = node, set[str](), set[int]()
    while (line := _interpolated(x)) is not None:
        mode, axis, inner = line
        if len(modes | {mode}) > 1 or axis in axes:
            break
        modes.add(mode)
        axes.add(axis)
        x = inner
    if not axes or min(axes) < 2 or not 3 <= x.type.ndim <= 5:
        return None
    if x.type.dtype.name not in _RESIZED:
        return None
    name, sizes = w.name_of(x), list(node.type.shape)
    is_line = x.type.ndim == 3  # faster as a picture of one row
    if is_line:
        name = w.add("Unsqueeze", name, w.integers([2]))
        sizes.insert(2, 1)
    y = w.add(
        "Resize",
        name,
        "",
        "",
        w.integers(sizes),
        mode="linear",
        coordinate_transformation_mode=modes.pop(),
    )
    return w.add("Squeeze", y, w.integers([2])) if is_line else y


def _interpolated(node: Tensor) -> tuple[str, int, Tensor] | None:
    """How positions are read, the axis and the values of a mean of two neighbors."""
    if node.op.name != "Add":
        return None
    low, high = map(_weighted, node.inputs)
    if low is None or high is None:
        return None
    (x, axis, first, less), (other, axis_, second, more) = low, high
    if x is not other or axis != axis_:
        return None
    steps = second - first
    if abs(less + more - 1).max() > 1e-6 or not {*steps.tolist()} <= {0, 1}:
        return None
    n, m = x.type.shape[axis], len(first)
    places, k = first + steps * more, np.arange(m)
    ways = {
        "half_pixel": np.clip((k + 0.5) * n / m - 0.5, 0, n - 1),
        "align_corners": k * (n - 1) / max(m - 1, 1),
    }
    for mode, expected in ways.items():
        if abs(places - expected).max() < 1e-5:
            return mode, axis, x
    return None


def _weighted(node: Tensor) -> tuple[Tensor, int, Any, Any] | None:
    """The values, axis, places and weights of rows of an axis times constants."""
    if node.op.name != "Multiply":
        return None
    rows, factors = node.inputs
    op: Any = rows.op
    if op.name != "Index" or op.axes != (op.place,):
        return None
    ids = rows.inputs[-1]
    shape = [1] * rows.type.ndim
    shape[op.place] = rows.type.shape[op.place]
    for constant in (ids, factors):
        if constant.stored is None or constant.inputs:
            return None
    if ids.type.ndim != 1 or factors.type.shape != tuple(shape) or not ids.type.size:
        return None
    weights = np.asarray(factors.array, np.float64).reshape(-1)
    return rows.inputs[0], op.place, np.asarray(ids.array), weights
