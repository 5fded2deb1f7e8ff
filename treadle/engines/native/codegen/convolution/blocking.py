"""Blocking of a convolution: strips, runs of the sum, blocks of windows.

The limits were measured on a core with 48 KB and 1 MB of cache and 64-byte vectors.
None depends on the number of threads.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from treadle.base.symbolic import least, most
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.tile import FLAT, TALL, rows_of_tile
from treadle.engines.native.codegen.convolution.problem import Dense
from treadle.engines.native.codegen.convolution.tile import heights

_SHORT = 48  # elements of a run below which the rows of a kernel are folded into one
_RUN = 512  # elements of the longest run


@dataclass(frozen=True)
class Tiles:
    """The register tiles in use: the most rows, and the vectors of a panel."""

    flat: bool
    rows: int
    vectors: int


def tiles_for(machine: Machine, rows: int) -> Tiles:
    """The tiles for so many rows at least."""
    flat = rows < heights(machine, TALL).start
    widths = FLAT if flat else TALL
    return Tiles(flat, rows_of_tile(machine, widths[-1]), widths[-1])


@dataclass(frozen=True)
class Strip:
    """The layout of the part of an image that a block of windows reads; steps in bytes.

    terms: the list of runs without places in panels: (where it begins, which row of
    weights, elements). Rows of weights are in the order of `taps`, then channels.
    """

    in_place: bool
    folded: bool
    row_step: int  # rows from a row of windows to the next
    span: int  # rows that one row of windows sees
    row_h: int  # rows of the image from one row to the next
    folds: int
    pixel_pitch: int
    row_pitch: int
    a_p: int
    a_q: int

    def rows(self, windows: int) -> int:
        """The number of rows for so many rows of windows."""
        return (windows - 1) * self.row_step + self.span


def strip_of(
    conv: Dense, channels: int, columns: int, lanes: int, across: bool = False
) -> Strip:
    """The strip for some channels of a group and so many columns of windows.

    lanes: how many channels are read together, of which all must be there. across: a
    pixel is summed with others, so that channels of one tap may lie at any distance.
    """
    h, w, size = conv.h, conv.w, conv.size
    near = across and not conv.lanes and h.taps * w.taps == 1
    near = near and conv.of_x[2] * size % 4096 != 0  # these fall on the same few lines
    suits = h.inside and w.inside and (near or 1 in (conv.of_x[2], conv.channels))
    suits = suits and channels % lanes == 0
    run = channels
    if w.dilation == 1 and conv.c == channels == w.x:
        run *= w.taps
    long = conv.lanes or run >= _SHORT or h.taps * w.taps == 1
    if (suits and long) or h.taps * w.taps == 0:
        a_p, a_q = h.stride * h.x * size, w.stride * w.x * size
        return Strip(True, False, 0, 0, 0, 1, w.x * size, h.x * size, a_p, a_q)
    run = w.taps * channels if w.dilation == 1 else channels
    folded = run < _SHORT and h.taps > 1 and not conv.lanes
    folds = h.taps if folded else 1
    pixel = folds * -(-channels // lanes) * lanes * size
    if w.stride * pixel % 4096 == 0:
        pixel += 64  # rows of a tile shall not all fall on the same lines of a cache
    row = ((columns - 1) * w.stride + w.span) * pixel
    single = folded or h.taps == 1
    step = 1 if single else h.stride
    return Strip(
        False,
        folded,
        step,
        1 if single else h.span,
        h.stride if single else 1,
        folds,
        pixel,
        row,
        step * row,
        w.stride * pixel,
    )


def taps_of(conv: Dense, strip: Strip) -> list[tuple[int, int, int]]:
    """Each tap as a run of one: where it begins in a strip, its row of weights."""
    h, w = conv.h, conv.w
    return [
        (
            i * h.dilation * strip.row_pitch + j * w.dilation * strip.pixel_pitch,
            i * w.taps + j,
            1,
        )
        for i in range(h.taps)
        for j in range(w.taps)
    ]


def pieces(conv: Dense, strip: Strip, channels: int) -> list[tuple[int, int, int]]:
    """The sum as runs: where each begins in a strip, its row of weights, its length.

    Rows of weights are in the order kernel rows, kernel columns, channels; in folded
    strips kernel columns come first.
    """
    h, w = conv.h, conv.w
    width = strip.folds * channels
    whole = w.dilation == 1 and strip.pixel_pitch == width * conv.size
    down = h.dilation * strip.row_pitch
    across = w.dilation * strip.pixel_pitch
    runs = []
    for i in range(1 if strip.folded else h.taps):
        for j in range(min(w.taps, 1) if whole else w.taps):
            row = (i * w.taps + j) * width
            length = w.taps * width if whole else width
            runs.append((i * down + j * across, row, length))
    return [p for p in runs if p[2]]


def split(runs: list[tuple[int, int, int]], size: int) -> list[tuple[int, int, int]]:
    """Runs cut into even pieces that are not too long."""
    result = []
    for place, row, length in runs:
        parts = -(-length // _RUN)
        edges = [length * i // parts for i in range(parts + 1)]
        for start, stop in itertools.pairwise(edges):
            result.append((place + start * size, row + start, stop - start))
    return result


def nanoseconds(conv: Dense) -> int:
    """About how long a convolution takes on one thread: 400 GB of products and 20 of
    images a second.
    """
    lanes = 16 if conv.dtype == "float" else 8
    o = -(-conv.o // lanes) * lanes
    windows = conv.n * conv.groups * conv.h.count * conv.w.count
    work = windows * conv.h.taps * conv.w.taps * conv.c * o * conv.size // 400
    return work + windows * (conv.c + conv.o) * conv.size // 20


def grain(conv: Dense, total: int) -> int:
    """Work items that are worth a part for a thread: some microseconds."""
    return most(1, total * 4000 // most(1, nanoseconds(conv)))


@dataclass(frozen=True)
class Blocks:
    """Even cuts of the rows and columns of windows, and of outputs."""

    p: int
    q: int
    o: int  # outputs of a block, a multiple of a panel

    def sizes(self, conv: Dense) -> tuple[int, int]:
        """The most rows and columns of windows in a block."""
        return -(-conv.h.count // self.p), -(-conv.w.count // self.q)


def blocks_of(conv: Dense, panel: int) -> Blocks:
    """Blocks of some hundred windows; enough of them for several threads."""
    h, w = conv.h, conv.w
    limit = 384 << 10  # bytes of a strip
    taps_h, taps_w = max(h.taps, 1), max(w.taps, 1)
    pixel = max(conv.channels, 1) * conv.size * (1 if taps_h == 1 else 2)
    wide = max(64, min(256, limit // (pixel * max(1, min(w.stride, taps_w)))))
    q = most(1, (2 * w.count + wide) // (2 * wide))
    columns = max(1, -(-w.count // q))
    tall = max(1, 256 // columns)
    across = (columns - 1) * w.stride + w.span
    reach = max(1, conv.channels) * conv.size * across * (h.stride if taps_h > 1 else 1)
    tall = max(1, min(tall, limit // max(reach, 1)))
    p = max(1, -(-h.count // tall))
    panels = max(1, -(-conv.o // panel))
    parts = least(16, nanoseconds(conv) // 20_000)
    blocks = most(1, conv.n * conv.groups * p * q)
    even = (2 * parts + blocks) // (2 * blocks)
    cuts = most(1, least(panels, even))  # each brings its strip anew
    return Blocks(p, q, -(-panels // cuts) * panel)


@dataclass(frozen=True)
class PixelBlocks:
    """Even cuts of images, rows and columns of windows, and of channels."""

    n: int
    p: int
    q: int
    c: int


def pixel_blocks(conv: Dense) -> PixelBlocks:
    """Blocks for the gradient of weights: some hundred windows, few channels."""
    h, w = conv.h, conv.w
    q = -(-w.count // 256) if w.count > 384 else 1
    columns = max(1, -(-w.count // q))
    p = -(-h.count // max(1, 256 // columns))
    rows = max(1, -(-h.count // p))
    images = 1 if p * q > 1 else max(1, 256 // (rows * columns))
    n = most(1, -(-conv.n // images))
    c = -(-conv.c // (256 if h.taps == w.taps == 1 else 128)) or 1
    while conv.c % c:
        c += 1
    if conv.c // c < 32:
        c = 1
    return PixelBlocks(n, max(p, 1), q, c)


@dataclass(frozen=True)
class Cuts:
    """Cuts of a sum: chunks of windows with sums of their own; outputs of an item."""

    chunks: int
    block_o: int


def cuts_of(conv: Dense, blocks: PixelBlocks, panel: int) -> Cuts:
    """Enough work items for several threads."""
    panels = max(1, -(-conv.o // panel))
    block_o = min(panels, max(1, 256 // panel)) * panel
    items = max(1, conv.groups * blocks.c * -(-conv.o // block_o))
    all_blocks = blocks.n * blocks.p * blocks.q
    parts = most(1, least(16, nanoseconds(conv) // 20_000))
    chunks = most(1, least(-(-parts // items), all_blocks // 2))
    return Cuts(chunks, block_o)
