"""The problem of a convolution: as users state it, and in the form kernels know.

The gradient of the data is a convolution too. Where windows slide by s, the positions
of the image fall into s classes by their remainder, and each sees taps of its own, at
even distances: s convolutions with stride 1, no zero in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from treadle.program.convolution import Convolution


@dataclass(frozen=True)
class Along:
    """One of the two dimensions of an image.

    The window at t sees positions stride t + dilation k - before of `extent`, zeros
    outside; x, w and y are the strides of the operands, in elements.
    """

    extent: int
    taps: int
    count: int
    stride: int
    dilation: int
    before: int
    x: int
    w: int
    y: int

    @property
    def span(self) -> int:
        """The number of positions that a window reaches over."""
        return self.dilation * (self.taps - 1) + 1

    @property
    def inside(self) -> bool:
        """Whether no window reaches outside."""
        if not self.count or not self.taps:
            return True
        last = self.stride * (self.count - 1) + self.span - 1 - self.before
        return self.before <= 0 and last < self.extent


@dataclass(frozen=True)
class Dense:
    """A convolution as kernels see it: channels of one group, dimensions one by one.

    Strides in elements: x by (n, group, c), w by (group, o, c), y by (n, group, o);
    `at` is where x, w and y begin. With `lanes` output o is of channel o of x alone:
    then c is 1, and the strides by c are those of the channels of x.
    """

    dtype: str
    n: int
    groups: int
    c: int
    o: int
    h: Along
    w: Along
    of_x: tuple[int, int, int]
    of_w: tuple[int, int, int]
    of_y: tuple[int, int, int]
    at: tuple[int, int, int] = (0, 0, 0)
    lanes: bool = False

    @property
    def channels(self) -> int:
        """The number of channels of x in a group."""
        return self.o if self.lanes else self.c

    @property
    def size(self) -> int:
        return size_of(self.dtype)


def size_of(dtype: str) -> int:
    """Bytes of an element."""
    return 4 if dtype == "float" else 8


def forward(problem: Convolution) -> Dense:
    """The convolution itself."""
    p = problem
    c, o = p.c // p.groups, p.o // p.groups
    h, w = (
        Along(
            p.extents[d],
            p.kernel[d],
            p.counts[d],
            p.stride[d],
            p.dilation[d],
            p.padding[d][0],
            p.x[2 + d],
            p.w[2 + d],
            p.y[2 + d],
        )
        for d in (0, 1)
    )
    return Dense(
        p.dtype,
        p.n,
        p.groups,
        c,
        o,
        h,
        w,
        (p.x[0], c * p.x[1], p.x[1]),
        (o * p.w[0], p.w[0], p.w[1]),
        (p.y[0], o * p.y[1], p.y[1]),
    )


def classes(problem: Convolution) -> Iterator[Dense]:
    """The gradient of the data: y is convolved to x, for each class of positions.

    The results' x and y have changed places: what a class reads is "x".
    """
    conv = forward(problem)
    for h in _classes(conv.h):
        for w in _classes(conv.w):
            yield replace(
                conv,
                c=conv.o,
                o=conv.c,
                h=h[0],
                w=w[0],
                of_x=conv.of_y,
                of_w=(conv.of_w[0], conv.of_w[2], conv.of_w[1]),
                of_y=conv.of_x,
                at=(0, h[1] + w[1], h[2] + w[2]),
            )


def _classes(axis: Along) -> Iterator[tuple[Along, int, int]]:
    """The classes along one dimension, with the shifts into w and the result.

    Position i0 + q s of the image is reached by tap k from window (i0 + q s + before -
    d k) / s where that is whole, which holds for every (s / gcd(s, d))-th k or none.
    """
    s, d = axis.stride, axis.dilation
    step = s // math.gcd(s, d)
    for first in range(min(s, axis.extent)):
        shift = first + axis.before
        start = next(
            (k for k in range(min(step, axis.taps)) if not (shift - d * k) % s), -1
        )
        taps = len(range(start, axis.taps, step)) if start >= 0 else 0
        apart = d * step // s
        before = (taps - 1) * apart - (shift - d * start) // s if taps else 0
        last = start + (taps - 1) * step  # taps are met from the last to the first
        part = Along(
            axis.count,
            taps,
            -(-(axis.extent - first) // s),
            1,
            apart,
            before,
            axis.y,
            -step * axis.w,
            s * axis.x,
        )
        yield part, (last * axis.w if taps else 0), first * axis.x


def apart(conv: Dense) -> Dense:
    """Many groups of one channel as lanes, in a few groups if they are very many."""
    if conv.groups == 1 or conv.c != 1 or conv.o != 1:
        return conv
    count = conv.groups
    o = next((k for k in range(128, 31, -16) if count % k == 0), count)
    return replace(
        conv,
        groups=count // o,
        o=o,
        of_x=(conv.of_x[0], o * conv.of_x[1], conv.of_x[1]),
        of_w=(o * conv.of_w[0], conv.of_w[0], 1),
        of_y=(conv.of_y[0], o * conv.of_y[1], conv.of_y[1]),
        lanes=True,
    )


def merged(conv: Dense, across: bool) -> Dense:
    """Rows of pixels as one row, and with `across` images too, where strides allow it.

    It asks for kernels of one tap that see every pixel or, like a view, some of them.
    """
    h, w = conv.h, conv.w
    if not (h.taps == w.taps == 1 and h.inside and w.inside):
        return conv
    if w.stride > 1 and w.x == 1:
        return conv  # whole vectors are read, and what is not seen is left out later
    at = (conv.at[0] - h.before * h.x - w.before * w.x, *conv.at[1:])
    conv = replace(conv, h=_viewed(h), w=_viewed(w), at=at)
    h, w = conv.h, conv.w
    if h.count == 1 or (h.x == w.count * w.x and h.y == w.count * w.y):
        count = h.count * w.count
        conv = replace(
            conv,
            h=replace(h, count=1, extent=1),
            w=replace(w, count=count, extent=count),
        )
        h, w = conv.h, conv.w
    pixels = w.count
    even = conv.of_x[0] == pixels * w.x and conv.of_y[0] == pixels * w.y
    if across and h.count == 1 and even:
        whole = replace(w, count=conv.n * pixels, extent=conv.n * pixels)
        conv = replace(conv, n=1, w=whole)
    return conv


def _viewed(axis: Along) -> Along:
    """One tap inside an image, as a view of the positions it sees."""
    return replace(
        axis, extent=axis.count, stride=1, dilation=1, before=0, x=axis.x * axis.stride
    )
