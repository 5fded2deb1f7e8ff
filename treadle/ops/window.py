"""Windows that slide over 1, 2 or 3 dimensions: unfolded and folded back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, ShapeError
from treadle.base.types import Shape, Type, as_integer, as_integers
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Op, family, op
from treadle.graph.operators import provide
from treadle.graph.rows import spread
from treadle.graph.tensor import Tensor
from treadle.ops.families import Family, some
from treadle.ops.movement import reshape
from treadle.ops.rearrange import expand_dims, squeeze

__all__ = ["fold", "unfold"]

Integers = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def windows_along(
    extents: Shape, kernel: Shape, stride: Integers, padding: Pairs, dilation: Integers
) -> Shape:
    """The number of windows of `kernel` along each dimension."""
    if not len(extents) == len(kernel) == len(stride) == len(padding) == len(dilation):
        raise ShapeError(f"a kernel {kernel} does not slide over shape {extents}")
    counts = []
    for n, k, s, (low, high), d in zip(
        extents, kernel, stride, padding, dilation, strict=True
    ):
        if min(k, s, d) < 1 or min(low, high) < 0:
            raise ArgumentError(
                "kernel, stride and dilation are positive, padding >= 0"
            )
        if any(type(v) is int and v >= 1 << 63 for v in (k, s, d, low, high)):
            raise ArgumentError(f"no window is {k} by steps of {s}, {d} apart")
        slack = n + low + high - d * (k - 1) - 1
        if slack < 0:
            raise ShapeError(f"a window of {d * (k - 1) + 1} is wider than {n} padded")
        counts.append(slack // s + 1)
    return tuple(counts)


def padded(x: Array, padding: Pairs, value: Any = 0) -> Array:
    """x with `value` around its spatial dimensions."""
    if not any(map(any, padding)):
        return x
    return np.pad(x, [(0, 0), (0, 0), *padding], constant_values=value)


def offsets(
    kernel: Shape, stride: Integers, dilation: Integers, counts: Shape
) -> list[tuple[Integers, tuple[Any, ...]]]:
    """The padded elements that windows see at each kernel position."""
    places = []
    for place in np.ndindex(*kernel):
        parts = [
            slice(p * d, p * d + s * (n - 1) + 1 if n else p * d, s)
            for p, s, d, n in zip(place, stride, dilation, counts, strict=True)
        ]
        places.append((place, (Ellipsis, *parts)))
    return places


def columns(
    x: Array, kernel: Shape, stride: Integers, padding: Pairs, dilation: Integers
) -> Array:
    """Windows of x[n, c, *spatial] as [n, c, *kernel, *counts], a copy."""
    counts = windows_along(x.shape[2:], kernel, stride, padding, dilation)
    x = padded(x, padding)
    y = np.empty(x.shape[:2] + kernel + counts, x.dtype)
    for place, part in offsets(kernel, stride, dilation, counts):
        spot: Any = (slice(None), slice(None), *place)
        y[spot] = x[part]
    return y


def folded(
    y: Array, extents: Shape, stride: Integers, padding: Pairs, dilation: Integers
) -> Array:
    """Windows [n, c, *kernel, *counts] added into zeros [n, c, *extents]."""
    rank = len(extents)
    kernel, counts = y.shape[2 : 2 + rank], y.shape[2 + rank :]
    wide = tuple(n + sum(p) for n, p in zip(extents, padding, strict=True))
    x = np.zeros(y.shape[:2] + wide, y.dtype)
    for place, part in offsets(kernel, stride, dilation, counts):
        spot: Any = (slice(None), slice(None), *place)
        x[part] += y[spot]
    inner = [slice(a, a + n) for n, (a, _) in zip(extents, padding, strict=True)]
    whole: Any = (Ellipsis, *inner)
    return x[whole]


def merged(x: Tensor) -> Tensor:
    """Rows [n, b, ..] side by side along the next dimension: [n b, ..]."""
    n, b, *rest = x.type.shape
    return reshape(x, (n * b, *rest))


def in_one_batch(op: Op, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
    """The rule `rows` of ops on batches of images: those of all rows are one batch."""
    wide = spread(has_rows, xs)
    y = op(*map(merged, wide))
    return reshape(y, (*wide[0].type.shape[:2], *y.type.shape[1:]))


class Window(Family):
    """A sliding window: fields stride, padding (before and after) and dilation."""

    __slots__ = ()
    family = "window"
    takes = "numeric"
    stride: Integers
    padding: Pairs
    dilation: Integers

    @property
    def sliding(self) -> tuple[Integers, Pairs, Integers]:
        """The fields in the order that the functions above take them."""
        return self.stride, self.padding, self.dilation

    rows = in_one_batch


@family
class KernelWindow(Window):
    """A window of a kernel over one operand."""

    __slots__ = ()
    arity = 1
    kernel: Shape
    stride: Integers
    padding: Pairs
    dilation: Integers


def spatial(value: Any, rank: int, what: str) -> Integers:
    """An integer for each spatial dimension, from one for all or one each."""
    items = as_integers(value)
    if items is not None and as_integer(value) is not None:
        items *= rank
    if items is None or len(items) != rank:
        raise ArgumentError(f"{what} is an integer or {rank} of them, not {value!r}")
    return items


def even_bins(n: int, bins: int) -> tuple[int, int] | None:
    """The kernel and stride of windows that are `bins` bins of n elements, which is so
    where n is a multiple or one more; None elsewhere.

    Bin i spans elements floor(i n / bins) before ceil((i + 1) n / bins).
    """
    step = n // bins if bins else 0
    return (n - step * (bins - 1), step) if step and n % bins <= 1 else None


def pairs(
    padding: Any, extents: Shape, kernel: Shape, dilation: Integers, stride: Integers
) -> Pairs:
    """Padding before and after, from an integer, one or a pair each, or a word.

    "same" gives ceil(n / stride) windows along an extent n, with the odd one of an odd
    number of borders behind.
    """
    rank = len(kernel)
    if padding == "valid":
        padding = 0
    if padding == "same":
        if len(extents) != rank:
            raise ShapeError(f"a kernel {kernel} does not slide over shape {extents}")
        total = [
            max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
            for n, k, d, s in zip(extents, kernel, dilation, stride, strict=True)
        ]
        return tuple((n // 2, n - n // 2) for n in total)
    if isinstance(padding, str):
        raise ArgumentError(f"padding is 'same', 'valid' or integers, not {padding!r}")
    items = (padding,) * rank if hasattr(padding, "__index__") else tuple(padding)
    if len(items) != rank:
        raise ArgumentError(f"padding {padding!r} is not for {rank} dimensions")
    return tuple(
        (int(n), int(n)) if hasattr(n, "__index__") else (int(n[0]), int(n[1]))
        for n in items
    )


def image(t: Type, rank: int) -> None:
    """Check for a shape [n, c, *spatial] with `rank` spatial dimensions."""
    if t.ndim != rank + 2:
        raise ShapeError(f"takes x[n, c, *spatial] of {rank} dimensions, not {t.shape}")


def batched(x: Tensor, rank: int, f: Callable[[Tensor], Any]) -> Any:
    """f of images x[n, c, *spatial], or of one image [c, *spatial] alone, as torch."""
    if x.type.ndim != rank + 1:
        return f(x)
    y = f(expand_dims(x, 0))
    return tuple(squeeze(part, 0) for part in y) if type(y) is tuple else squeeze(y, 0)


@op(tolerance="E", linear=True)
class Unfold(KernelWindow):
    """Windows as columns: x[n, c, *spatial] to [n, c * kernel, windows]."""

    def infer(self, x: Type) -> Type:
        image(x, len(self.kernel))
        counts = windows_along(x.shape[2:], self.kernel, *self.sliding)
        width = x.shape[1] * math.prod(self.kernel)
        names = x.axes and some((x.axes[0], None, None))
        return Type((x.shape[0], width, math.prod(counts)), x.dtype, names)

    def numpy(self, *arrays: Any) -> Array:
        x = arrays[0]
        y = columns(x, self.kernel, *self.sliding)
        return y.reshape(
            len(x),
            x.shape[1] * math.prod(self.kernel),
            math.prod(y.shape[2 + len(self.kernel) :]),
        )

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (Fold(xs[0].type.shape[2:], self.kernel, *self.sliding)(g),)


@provide
def unfold(
    x: Any, kernel: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The windows of x[n, c, *spatial] as columns [n, c * kernel, windows] (img2col).

    >>> td.unfold([[[1.0, 2.0, 3.0]]], 2).tolist()
    [[[1.0, 2.0], [2.0, 3.0]]]
    """
    node = as_tensor(x)
    rank = max(node.type.ndim - 2, 1)
    sizes = spatial(kernel, rank, "kernel")
    steps, apart = spatial(stride, rank, "stride"), spatial(dilation, rank, "dilation")
    cover = pairs(padding, node.type.shape[2:], sizes, apart, steps)
    return Unfold(sizes, steps, cover, apart)(node)


@op(tolerance="R", linear=True)
class Fold(Window):
    """Columns [n, c * kernel, windows] added into x[n, c, *extents]."""

    extents: Shape
    kernel: Shape
    stride: Integers
    padding: Pairs
    dilation: Integers
    arity = 1

    def infer(self, t: Type) -> Type:
        counts = windows_along(self.extents, self.kernel, *self.sliding)
        size = math.prod(self.kernel)
        if t.ndim != 3 or t.shape[1] % size or t.shape[2] != math.prod(counts):
            raise ShapeError(
                f"{t.shape} is not [n, c * {size}, {math.prod(counts)}] columns"
            )
        shape = (t.shape[0], t.shape[1] // size, *self.extents)
        names = t.axes and some((t.axes[0], *(None,) * (len(shape) - 1)))
        return Type(shape, t.dtype, names)

    def numpy(self, *arrays: Any) -> Array:
        x = arrays[0]
        counts = windows_along(self.extents, self.kernel, *self.sliding)
        channels = x.shape[1] // math.prod(self.kernel)
        y = x.reshape(len(x), channels, *self.kernel, *counts)
        return folded(y, self.extents, *self.sliding)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (Unfold(self.kernel, *self.sliding)(g),)


@provide
def fold(
    x: Any,
    extents: Any,
    kernel: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Tensor:
    """Columns as `unfold` gives them, added into an image of `extents`.

    >>> td.fold(td.unfold([[[1.0, 2.0, 3.0]]], 2), (3,), 2).tolist()
    [[[1.0, 4.0, 3.0]]]
    """
    wide = (int(extents),) if hasattr(extents, "__index__") else tuple(extents)
    rank = len(wide)
    sizes = spatial(kernel, rank, "kernel")
    steps, apart = spatial(stride, rank, "stride"), spatial(dilation, rank, "dilation")
    cover = pairs(padding, wide, sizes, apart, steps)
    return Fold(wide, sizes, steps, cover, apart)(as_tensor(x))
