"""The steps of a convolution in the form of kernels: weights into panels, then sums."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.engines.native.codegen.contraction.epilogue import Epilogue
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.convolution import blocking
from treadle.engines.native.codegen.convolution.blocking import Strip
from treadle.engines.native.codegen.convolution.fill import fill_function
from treadle.engines.native.codegen.convolution.forward import (
    FIELDS,
    WindowStructure,
    forward_kernel,
)
from treadle.engines.native.codegen.convolution.pack import PACK, pack_kernel
from treadle.engines.native.codegen.convolution.problem import Dense
from treadle.engines.native.codegen.convolution.steps import Pointer, Step, step
from treadle.engines.native.codegen.convolution.strip import STRIP
from treadle.engines.native.codegen.convolution.tile import RUN, tile_function


def along(conv: Dense) -> str:
    """The direction of finished vectors: "outputs" or "pixels"."""
    return "outputs" if conv.of_y[2] == 1 and conv.w.y != 1 else "pixels"


@dataclass(frozen=True)
class Dimension:
    """One dimension of the weights in a copy: source and target steps in elements."""

    count: int
    source: int
    target: int

    def forth(self) -> tuple[Dimension, int, int]:
        """Walked so that the source step is positive; shifts of source and target."""
        if self.source >= 0:
            return self, 0, 0
        last = self.count - 1
        turned = Dimension(self.count, -self.source, -self.target)
        return turned, last * self.source, last * self.target


class Sums:
    """A convolution in the form of kernels, with all that is decided about it."""

    def __init__(
        self,
        conv: Dense,
        names: tuple[str, str, str],
        epilogue: Epilogue | None,
        target: Machine,
        place: int,
    ) -> None:
        self.conv = conv
        self.names = names  # of what is x, w and y here
        self.epilogue = epilogue
        self.machine = target
        self.place = place  # of the packed weights in the workspace
        self.lanes = target.lanes(conv.dtype)
        self.tiles = blocking.tiles_for(target, conv.w.count)
        self.panel = self.tiles.vectors * self.lanes
        self.k_b = self.tiles.vectors * target.vector
        self.blocks = blocking.blocks_of(conv, self.panel)
        self.rows, self.columns = self.blocks.sizes(conv)
        lanes = self.lanes if conv.lanes else 1
        self.strip = blocking.strip_of(conv, conv.channels, self.columns, lanes)
        self.runs = self._runs()
        self.panels = -(-conv.o // self.panel)
        self.k = conv.h.taps * conv.w.taps * conv.c
        self.packed = -(-conv.groups * self.panels * self.k * self.k_b // 64) * 64
        cuts = self.blocks.p * self.blocks.q * -(-conv.o // self.blocks.o)
        empty = not conv.o * conv.h.count * conv.w.count
        self.total = 0 if empty else conv.n * conv.groups * cuts

    def _runs(self) -> list[tuple[int, int, int]]:
        conv = self.conv
        if conv.lanes:
            return blocking.taps_of(conv, self.strip)
        return blocking.split(blocking.pieces(conv, self.strip, conv.c), conv.size)

    def _row_runs(self) -> int:
        """The runs of each row of the kernel; 0 where none ever lies outside."""
        if self.conv.h.inside or self.strip.folded:
            return 0
        return len(self.runs) // self.conv.h.taps

    def steps(self) -> list[Step]:
        """The steps of a convolution, in order."""
        if not self.total:
            return []
        return [*([self.pack()] if self.packed else []), self.sum()]

    def pack(self) -> Step:
        """The step that copies the weights into panels."""
        conv, size = self.conv, self.conv.size
        dims, source, target = ordered_taps(conv, self.strip.folded)
        inner = dims.pop(0)
        w_panel = self.panel * conv.of_w[1] * size
        values = {
            "w_group": conv.of_w[0] * size,
            "w_panel": w_panel,
            "w_o": conv.of_w[1] * size,
            "panel_bytes": self.k * self.k_b,
            "panels": self.panels,
            "panel": self.panel,
            "outputs": conv.o,
            "inner": inner.count,
            "source": inner.source * size,
            "k_b": inner.target * self.k_b,
            "scratch": 64 * -(-8 * self.panel // 64),
        }
        for i, one in enumerate(reversed(dims), 1):
            values[f"count_{i}"] = one.count
            values[f"source_{i}"] = one.source * size
            values[f"target_{i}"] = one.target * self.k_b
        last = values["source_2"]
        line = (
            (64, -(-w_panel // 64)) if w_panel <= last else (values["w_o"], self.panel)
        )
        values |= {"ahead": 8 * last, "line": line[0]}
        values["lines"] = line[1] if dims[0].count > 8 and last > 0 else 0
        bytes_ = conv.groups * conv.o * self.k * size
        return step(
            pack_kernel(),
            [fill_function(self.machine, conv.dtype, conv.of_w[1], inner.source)],
            [
                Pointer(self.names[1], (conv.at[1] + source) * size),
                Pointer("workspace", self.place + target * self.k_b),
                Pointer("scratch"),
            ],
            [values[name] for name in PACK],
            (conv.groups * self.panels * values["count_1"], bytes_ // 5),
            values["scratch"],
            constant=True,
        )

    def sum(self) -> Step:
        """The step that computes y."""
        conv, size = self.conv, self.conv.size
        kind = along(conv)
        extra = self.epilogue or Epilogue("", lambda b, x, site: None)
        adjacent = conv.of_y[2] == 1 if kind == "outputs" else conv.w.y == 1
        structure = WindowStructure(
            conv.dtype,
            kind,
            adjacent,
            extra.key or None,
            extra.pointers,
            extra.integers,
        )
        values = self._fields(kind)
        table = [x for place, row, k in self.runs for x in (place, row * self.k_b, k)]
        return step(
            forward_kernel(self.machine, structure, self.epilogue),
            [
                tile_function(self.machine, conv.dtype, self.tiles.flat, conv.lanes),
                fill_function(self.machine, conv.dtype, *steps_of(conv)),
            ],
            [
                Pointer(self.names[0], x_shift(conv, self.strip)),
                Pointer("workspace", self.place),
                Pointer(self.names[2], conv.at[2] * size),
                Pointer("scratch"),
            ],
            [*(values[name] for name in FIELDS), *table],
            (self.total, blocking.nanoseconds(conv)),
            values["scratch"],
            finishes=self.epilogue is not None,
        )

    def _fields(self, kind: str) -> dict[str, int]:
        """The integers of the kernel by name."""
        conv, size, blocks = self.conv, self.conv.size, self.blocks
        strip = strip_bytes(self.strip, self.rows)
        sums = (self.rows * self.columns + self.lanes) * self.k_b
        square = self.lanes * self.machine.vector
        spare = 8 * max(self.strip.folds * conv.channels, 1)
        total = strip + sums + square + spare
        values = {
            "x_n": conv.of_x[0] * size,
            "x_group": conv.of_x[1] * size,
            "y_n": conv.of_y[0] * size,
            "y_group": conv.of_y[1] * size,
            "y_o": conv.of_y[2] * size,
            "y_p": conv.h.y * size,
            "y_q": conv.w.y * size,
            "groups": conv.groups,
            "counts_p": conv.h.count,
            "counts_q": conv.w.count,
            "channels": conv.channels,
            "outputs": conv.o,
            "size": size,
            "a_o": size if conv.lanes else 0,
            "blocks_p": blocks.p,
            "blocks_q": blocks.q,
            "blocks_o": -(-conv.o // blocks.o),
            "block_o": blocks.o,
            "in_place": int(self.strip.in_place),
            "a_p": self.strip.a_p,
            "a_q": self.strip.a_q,
            "tile_m": self.tiles.rows,
            "panels": self.panels,
            "panel": self.panel,
            "panel_bytes": self.k * self.k_b,
            "k_b": self.k_b,
            "runs": len(self.runs),
            "chunk": max(1, 512 // max((k for _, _, k in self.runs), default=1)),
            "table": RUN * len(self.runs),
            "taps_h": conv.h.taps,
            "dilation_h": max(conv.h.dilation, 1),
            "row_runs": self._row_runs(),
            "direct": int(self.epilogue is None and kind == "outputs"),
            "merged": int(blocks.q == 1 and conv.h.y == conv.w.count * conv.w.y),
            "at_sums": strip,
            "at_square": strip + sums,
            "at_spare": strip + sums + square,
            "scratch": -(-total // 64) * 64,
        }
        return values | strip_fields(conv, self.strip)


def steps_of(conv: Dense) -> tuple[int, int]:
    """The steps of x by channel and column, as a copy is chosen by them."""
    channel = 1 if conv.channels == 1 and conv.w.x != 1 else conv.of_x[2]
    return channel, conv.w.x


def ordered_taps(
    conv: Dense, folded: bool, forth: bool = True
) -> tuple[list[Dimension], int, int]:
    """The dimensions of a sum over weights, that of the smallest source step first.

    Target steps are rows of a panel. Three dimensions, of which one may be trivial; and
    the shifts of source and target that walking forth in the source asks for.
    """
    h, w, c = conv.h, conv.w, conv.c
    rows = (c, h.taps * c) if folded else (w.taps * c, c)
    dimensions = [
        Dimension(h.taps, h.w, rows[0]),
        Dimension(w.taps, w.w, rows[1]),
        Dimension(c, conv.of_w[2], 1),
    ]
    source = target = 0
    turned = []
    for one in dimensions:
        walked, s, t = one.forth() if forth else (one, 0, 0)
        source, target = source + s, target + t
        turned.append(walked)
    down, across, channels = turned
    if (
        down.source == across.count * across.source
        and down.target == across.count * across.target
    ):
        across = Dimension(down.count * across.count, across.source, across.target)
        down = Dimension(1, 0, 0)
    order = [down, across, channels]
    order.sort(key=lambda one: (one.count == 1, one.source))
    return order, source, target


def strip_bytes(strip: Strip, rows: int) -> int:
    """The memory of a strip for so many rows of windows."""
    size = 0 if strip.in_place else strip.rows(rows) * strip.row_pitch + 64
    return -(-size // 64) * 64


def strip_fields(conv: Dense, strip: Strip) -> dict[str, int]:
    """The integers by which a strip is filled."""
    h, w, size = conv.h, conv.w, conv.size
    values = (
        *(h.x * size, w.x * size, conv.of_x[2] * size, h.extent, w.extent),
        *(h.stride, w.stride, h.before, w.before),
        *(strip.row_step, strip.span, strip.row_h, w.span),
        *(strip.folds, h.dilation, conv.channels * size),
        *(strip.row_pitch, strip.pixel_pitch),
    )
    return dict(zip(STRIP, values, strict=True))


def x_shift(conv: Dense, strip: Strip) -> int:
    """The begin of x, in bytes; in place, that of its first window."""
    first = conv.h.before * conv.h.x + conv.w.before * conv.w.x
    return (conv.at[0] - (first if strip.in_place else 0)) * conv.size
