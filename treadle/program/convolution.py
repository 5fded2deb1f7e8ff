"""Convolutions and their gradients on strided memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from treadle.base.types import Shape
from treadle.graph.tensor import Tensor
from treadle.loops.lower import At, unflatten
from treadle.ops.convolution import Conv, ConvInputGradient, ConvWeightGradient
from treadle.program.contract import Layout

Pair = tuple[int, int]
Quadruple = tuple[int, int, int, int]

# What each op computes of x, w and y, and which of them it reads.
CONVOLUTIONS: dict[type, tuple[str, str, str]] = {
    Conv: ("y", "x", "w"),
    ConvInputGradient: ("x", "y", "w"),
    ConvWeightGradient: ("w", "x", "y"),
}


@dataclass(frozen=True)
class Convolution:
    """y[n, o, t] = sum over c, k of w[o, c, k] x[n, c, s t + d k - padding], 2-D.

    One dimension is height 1. Strides are in elements: x by (n, c, h, w), w by (o, c,
    kernel h, kernel w), y by (n, o, h, w). `c` and `o` count all groups; `dtype` is
    "float" or "double"; `computes` names which of x, w and y is the sum of products of
    the other two.
    """

    n: int
    c: int
    o: int
    groups: int
    extents: Pair
    kernel: Pair
    counts: Pair
    stride: Pair
    padding: tuple[Pair, Pair]
    dilation: Pair
    x: Quadruple
    w: Quadruple
    y: Quadruple
    dtype: str = "float"
    computes: str = "y"

    @property
    def along(self) -> str:
        """The direction of vectors of y: "outputs" if adjacent, else "pixels".

        With outputs, pixels are the rows of y as a matrix and outputs its columns.
        """
        return "outputs" if self.y[1] == 1 and self.y[3] != 1 else "pixels"

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Images, rows and columns of y, and terms of a sum."""
        pixels = self.counts[0] * self.counts[1]
        taps = self.kernel[0] * self.kernel[1] * self.c // self.groups
        sides = (pixels, self.o) if self.along == "outputs" else (self.o, pixels)
        return self.n, *sides, taps

    @property
    def finishes(self) -> bool:
        """Whether an element-wise unit can be done on vectors of the result."""
        return self.computes == "y" and self.sizes[2] > 1

    def element(self, at: At, shape: Shape) -> At:
        """The indices in a y of `shape` of what stands at an image, row and column."""
        image, row, column = at
        outputs = self.along == "outputs"
        channel, pixel = (column, row) if outputs else (row, column)
        return image, channel, *unflatten(pixel, shape[2:])


def as_product(conv: Convolution) -> Layout | None:
    """A convolution of single pixels as a product; None where images do not line up.

    Of its weights it is y x, whose operands stand in the other order.
    """
    plain = conv.kernel == conv.stride == (1, 1) and conv.groups == 1
    if not plain or any(map(any, conv.padding)):
        return None
    x, y = _pixels(conv, conv.x), _pixels(conv, conv.y)
    if x is None or y is None:
        return None
    count = conv.n * conv.counts[0] * conv.counts[1]
    w = (0, conv.w[1], conv.w[0])
    if conv.computes == "w":
        sizes = (1, conv.o, conv.c, count)
        return Layout(sizes, (0, conv.y[1], y), (0, x, conv.x[1]), (0, *conv.w[:2]))
    if conv.computes == "y":
        sizes = (1, count, conv.o, conv.c)
        ends = (0, x, conv.x[1]), w, (0, y, conv.y[1])
    else:
        sizes = (1, count, conv.c, conv.o)
        ends = (0, y, conv.y[1]), (0, conv.w[0], conv.w[1]), (0, x, conv.x[1])
    return Layout(sizes, *ends, image=True) if ends[2][2] == 1 else None


def _pixels(conv: Convolution, strides: Quadruple) -> int | None:
    """The one stride of the pixels of all images in a row; None where there is none."""
    stride, width = None, 1
    sizes = conv.counts[1], conv.counts[0], conv.n
    for size, step in zip(sizes, (strides[3], strides[2], strides[0]), strict=True):
        if size == 1:
            continue
        if stride is None:
            stride = step
        elif step != stride * width:
            return None
        width *= size
    return stride or 0


def is_direct(node: Tensor) -> bool:
    """Whether a node is a convolution of one or two dimensions, with work to do."""
    if type(node.op) not in CONVOLUTIONS or node.type.ndim > 4:
        return False
    return all(t.size for t in (node.type, *(x.type for x in node.inputs)))


def convolution_of(
    node: Tensor, a: Sequence[int], b: Sequence[int], result: Sequence[int]
) -> Convolution | None:
    """A convolution whose operands and result have these strides; None if unfit."""
    op: Any = node.op
    names = CONVOLUTIONS[type(op)]
    types = dict(zip(names, (node.type, *(x.type for x in node.inputs)), strict=True))
    strides = dict(zip(names, (result, a, b), strict=True))
    for name, steps in strides.items():
        sizes = types[name].shape
        if any(s <= 0 < n - 1 for s, n in zip(steps, sizes, strict=True)):
            return None
    shapes = {name: _plane(t.shape, 1) for name, t in types.items()}
    planes = {name: _plane(s, 0) for name, s in strides.items()}
    plane = Convolution(
        shapes["x"][0],
        shapes["x"][1],
        shapes["y"][1],
        op.groups,
        shapes["x"][2:],
        shapes["w"][2:],
        shapes["y"][2:],
        _pair(op.stride, 1),
        _pair(op.padding, (0, 0)),
        _pair(op.dilation, 1),
        planes["x"],
        planes["w"],
        planes["y"],
        "double" if node.type.dtype.itemsize == 8 else "float",
        names[0],
    )
    return _lying(plane) if _is_column(plane) else plane


def _is_column(conv: Convolution) -> bool:
    """Whether images are one pixel wide, and higher than that."""
    wide = conv.extents[1], conv.kernel[1], conv.counts[1]
    return wide == (1, 1, 1) and conv.padding[1] == (0, 0) and conv.extents[0] != 1


def _lying(conv: Convolution) -> Convolution:
    """The same with height and width exchanged: kernels go along rows of pixels.

    Pixels that stand in one column have the same numbers in a row.
    """
    fields = ("extents", "kernel", "counts", "stride", "padding", "dilation")
    pairs: dict[str, Any] = {name: getattr(conv, name)[::-1] for name in fields}
    for name in ("x", "w", "y"):
        n, c, h, w = getattr(conv, name)
        pairs[name] = (n, c, w, h)
    return replace(conv, **pairs)


def _plane(values: Sequence[int], missing: int) -> Any:
    """Sizes or strides of an operand with two dimensions of space."""
    first, second, *space = values
    return (first, second, *[missing] * (2 - len(space)), *space)


def _pair(values: Sequence[Any], missing: Any) -> Any:
    return (*[missing] * (2 - len(values)), *values)
