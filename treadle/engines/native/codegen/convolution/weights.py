"""The plan of the gradient of weights: sums of chunks, then the sum of those."""

from __future__ import annotations

from dataclasses import replace

from treadle.engines.native.codegen.contraction.machine import Machine, machine
from treadle.engines.native.codegen.convolution import blocking
from treadle.engines.native.codegen.convolution.dense import (
    Dimension,
    ordered_taps,
    steps_of,
    strip_bytes,
    strip_fields,
    x_shift,
)
from treadle.engines.native.codegen.convolution.fill import fill_function
from treadle.engines.native.codegen.convolution.gradient import FIELDS, gradient_kernel
from treadle.engines.native.codegen.convolution.pack import SUM, cleared, sum_kernel
from treadle.engines.native.codegen.convolution.problem import (
    Dense,
    apart,
    forward,
    merged,
)
from treadle.engines.native.codegen.convolution.steps import (
    ConvPlan,
    Pointer,
    Step,
    step,
)
from treadle.engines.native.codegen.convolution.tile import RUN, tile_function
from treadle.program.convolution import Convolution


def plan_weights(problem: Convolution, target: Machine | None = None) -> ConvPlan:
    """w = the gradient of weights, from x and the gradient y of the result."""
    conv = merged(apart(forward(problem)), True)
    names = ("x", "y")
    if not conv.o * conv.c * conv.h.taps * conv.w.taps:
        return ConvPlan((), 0)
    if not conv.n * conv.h.count * conv.w.count:  # there is nothing to sum up
        sizes = (problem.o, problem.c // problem.groups, *problem.kernel)
        return ConvPlan((*cleared("w", problem.w, sizes, conv.size),), 0)
    if _is_product(conv) and _is_better_turned(conv):
        conv, names = _turned(conv), ("y", "x")
    weights = _Weights(conv, names, target or machine())
    last = [] if weights.direct else [weights.total()]
    return ConvPlan((weights.sums(), *last), weights.workspace)


def _is_product(conv: Dense) -> bool:
    """Whether x and y are alike: a row of pixels of some channels."""
    if conv.lanes:
        return False
    alone = conv.h.taps == conv.w.taps == conv.h.count == conv.w.stride == 1
    return alone and conv.w.inside and conv.h.inside


def _is_better_turned(conv: Dense) -> bool:
    """Few outputs to copy are best; for few pixels, outputs side by side in w."""
    if conv.n * conv.w.count > 2048:
        return conv.o > conv.c
    return conv.of_w[2] == 1 and conv.of_w[1] != 1


def _turned(conv: Dense) -> Dense:
    """The same with x and y in each other's place."""
    return replace(
        conv,
        c=conv.o,
        o=conv.c,
        h=replace(conv.h, x=conv.h.y, y=conv.h.x),
        w=replace(conv.w, x=conv.w.y, y=conv.w.x),
        of_x=conv.of_y,
        of_w=(conv.of_w[0], conv.of_w[2], conv.of_w[1]),
        of_y=conv.of_x,
        at=(conv.at[2], conv.at[1], conv.at[0]),
    )


class _Weights:
    """A gradient of weights, with all that is decided about it."""

    def __init__(self, conv: Dense, names: tuple[str, str], target: Machine) -> None:
        self.conv = conv
        self.names = names
        self.machine = target
        self.lanes = target.lanes(conv.dtype)
        self.blocks = blocks = blocking.pixel_blocks(conv)
        self.channels = conv.channels // blocks.c
        self.rows = -(-conv.h.count // blocks.p)
        self.columns = -(-conv.w.count // blocks.q)
        self.images = -(-conv.n // blocks.n)
        lanes = self.lanes if conv.lanes else 1
        self.strip = blocking.strip_of(conv, self.channels, self.columns, lanes, True)
        self.segments = self._segments()
        shortest = min((k for _, _, k in self.segments), default=1)
        self.tiles = blocking.tiles_for(target, shortest)
        self.panel = self.tiles.vectors * self.lanes
        self.k_b = self.tiles.vectors * target.vector
        self.panels = -(-conv.o // self.panel)
        self.k = conv.h.taps * conv.w.taps * (conv.c // blocks.c)
        self.part = self.k * self.k_b
        self.cuts = blocking.cuts_of(conv, blocks, self.panel)
        self.items = conv.groups * blocks.c * self.panels
        self.direct = self._is_direct()
        self.workspace = self.cuts.chunks * self.items * self.part
        self.workspace *= not self.direct
        adjacent = conv.of_y[2] == 1 and conv.o % self.lanes == 0
        self.y_in_place = adjacent and self.k <= 4 * self.tiles.rows

    def _segments(self) -> list[tuple[int, int, int]]:
        """Rows of sums that lie side by side in a strip, as `pieces` gives them."""
        conv = self.conv
        if not conv.lanes:
            return blocking.pieces(conv, self.strip, self.channels)
        taps = blocking.taps_of(conv, self.strip)
        return [(*taps[i][:2], conv.w.taps) for i in range(0, len(taps), conv.w.taps)]

    def _is_long(self) -> bool:
        """Whether blocks of pixels are read one after the other where they lie."""
        conv = self.conv
        alone = conv.h.count == self.images == self.blocks.c == conv.of_x[2] == 1
        return alone and self.strip.in_place and conv.n == 1

    def _is_direct(self) -> bool:
        """Whether tiles can write w: whole vectors of it, at even steps."""
        conv, w = self.conv, self.conv.w
        whole = conv.of_w[1] == 1 and conv.o % self.lanes == 0
        even = w.w == self.channels * conv.of_w[2]
        even = even or all(k == self.channels for _, _, k in self.segments)
        return (
            not conv.lanes
            and whole
            and even
            and self.cuts.chunks == 1
            and not self.strip.folded
        )

    def sums(self) -> Step:
        """The step that sums over each chunk of windows."""
        conv, size = self.conv, self.conv.size
        values = self._fields()
        table = [x for s in self.segments for x in (s[0], self._row(s[1]), s[2])]
        total = self.cuts.chunks * conv.groups * self.blocks.c * values["blocks_o"]
        x, y = self.names
        return step(
            gradient_kernel(),
            [
                tile_function(self.machine, conv.dtype, self.tiles.flat, conv.lanes),
                fill_function(self.machine, conv.dtype, *steps_of(conv)),
                fill_function(self.machine, conv.dtype, conv.of_y[2], conv.w.y),
            ],
            [
                Pointer(x, x_shift(conv, self.strip)),
                Pointer(y, conv.at[2] * size),
                Pointer("w", conv.at[1] * size)
                if self.direct
                else Pointer("workspace"),
                Pointer("scratch"),
            ],
            [*(values[name] for name in FIELDS), *table],
            (total, blocking.nanoseconds(conv)),
            values["scratch"],
        )

    def _row(self, row: int) -> int:
        """The place of the sums of a tap's first channel, by its number of a row."""
        if not self.direct:
            return row * self.k_b
        conv = self.conv
        i, j = divmod(row // self.channels, conv.w.taps)
        return (i * conv.h.w + j * conv.w.w) * conv.size

    def _fields(self) -> dict[str, int]:
        """The integers of the kernel by name."""
        conv, size, blocks, strip = self.conv, self.conv.size, self.blocks, self.strip
        image = strip_bytes(strip, self.rows)
        values = {
            "x_n": conv.of_x[0] * size,
            "x_group": conv.of_x[1] * size,
            "x_block": self.channels * conv.of_x[2] * size,
            "y_n": conv.of_y[0] * size,
            "y_group": conv.of_y[1] * size,
            "y_o": conv.of_y[2] * size,
            "y_p": conv.h.y * size,
            "y_q": conv.w.y * size,
            "images": conv.n,
            "groups": conv.groups,
            "counts_p": conv.h.count,
            "counts_q": conv.w.count,
            "channels": self.channels,
            "outputs": conv.o,
            "size": size,
            "blocks_n": blocks.n,
            "blocks_p": blocks.p,
            "blocks_q": blocks.q,
            "chunks": self.cuts.chunks,
            "blocks_c": blocks.c,
            "blocks_o": -(-conv.o // self.cuts.block_o),
            "block_o": self.cuts.block_o,
            "in_place": int(strip.in_place),
            "a_n": conv.of_x[0] * size if strip.in_place else image,
            "a_p": strip.a_p,
            "a_q": strip.a_q,
            "row_a": self._row_of_x() * size,
            "a_panel": self.panel * size if conv.lanes else 0,
            "tile_m": self.tiles.rows,
            "lanes": self.lanes,
            "panel": self.panel,
            "segments": len(self.segments),
            "ahead": strip.a_q if self._is_long() else 0,
            "merged": int(blocks.q == 1 and conv.h.y == conv.w.count * conv.w.y),
        }
        panels = self.cuts.block_o // self.panel
        values |= self._places_of_y()
        values["at_y"] = at = (not strip.in_place) * self.images * image
        at += (not self.y_in_place) * panels * values["b_panel"]
        values["at_table"] = at
        values["at_spare"] = at = at + 8 * RUN * self.images * self.rows
        at += 8 * max(strip.folds * self.channels, self.panel)
        values["scratch"] = -(-at // 64) * 64
        values |= self._places_of_sums()
        one = conv if conv.lanes else replace(conv, c=self.channels)
        return values | strip_fields(one, strip)

    def _row_of_x(self) -> int:
        """From a row of a tile to the next, which are channels or, of lanes, taps."""
        conv = self.conv
        if conv.lanes:
            return conv.w.dilation * self.strip.pixel_pitch // conv.size
        single = self.strip.in_place and conv.h.taps * conv.w.taps == 1
        return conv.of_x[2] if single else 1

    def _places_of_y(self) -> dict[str, int]:
        """The layout of the panels of y: by pixels in scratch memory, or in place."""
        conv, size = self.conv, self.conv.size
        if self.y_in_place:
            steps = (conv.of_y[0], conv.h.y, conv.w.y, self.panel)
            places = [s * size for s in steps]
        else:
            row = self.columns * self.k_b
            panel = self.images * self.rows * row
            places = [self.rows * row, row, self.k_b, panel]
        fields = dict(zip(("b_n", "b_p", "b_q", "b_panel"), places, strict=True))
        return fields | {"y_in_place": int(self.y_in_place)}

    def _places_of_sums(self) -> dict[str, int]:
        """The layout of the sums of chunks, in the workspace or in w."""
        conv, size = self.conv, self.conv.size
        if self.direct:
            c = conv.of_w[2]
            steps = (0, conv.of_w[0], self.channels * c, self.panel, c)
            places = [s * size for s in steps]
        else:
            block = self.panels * self.part
            group = self.blocks.c * block
            places = [conv.groups * group, group, block, self.part, self.k_b]
        names = ("out_chunk", "out_group", "out_block", "out_panel", "row_out")
        return dict(zip(names, places, strict=True))

    # -- from sums to weights --------------------------------------------------------

    def total(self) -> Step:
        """The step that adds the chunks and puts the sums where w wants them."""
        conv, size = self.conv, self.conv.size
        by_output = conv.of_w[1] != 1
        values = {
            "chunks": self.cuts.chunks,
            "chunk_bytes": self.items * self.part,
            "part_bytes": self.part,
            "part_vectors": self.part // self.machine.vector,
            "w_group": conv.of_w[0] * size,
            "w_block": self.channels * conv.of_w[2] * size,
            "w_panel": self.panel * conv.of_w[1] * size,
            "blocks": self.blocks.c,
            "panels": self.panels,
            "panel": self.panel,
            "outputs": conv.o,
            "by_output": int(by_output),
        }
        values |= self._copies(by_output)
        spare = 8 * max(values["folds"] * values["channels"], self.panel)
        values["scratch"] = -(-spare // 64) * 64
        return step(
            sum_kernel(self.machine, conv.dtype),
            [fill_function(self.machine, conv.dtype, 1, 1 if by_output else 0)],
            [Pointer("w", conv.at[1] * size), Pointer("workspace"), Pointer("scratch")],
            [values[name] for name in SUM],
            (self.items, self.workspace // 10),
            values["scratch"],
        )

    def _copies(self, by_output: bool) -> dict[str, int]:
        """The copies of one panel of sums, and the loops around them.

        A copy takes outputs for positions and up to two dimensions of w that lie side
        by side; or, where outputs lie side by side in w, it takes those.
        """
        size = self.conv.size
        single = replace(self.conv, c=self.conv.c // self.blocks.c)
        dims, _, _ = ordered_taps(single, self.strip.folded, False)
        values = {"folds": 1, "step_fold": 0, "channels": 1, "step_channel": size}
        if by_output:
            pitch = self.conv.of_w[1] * size
            values |= {"step": size, "count": 0, "pitch": pitch}
            side = 1
            for name, step_ in (("channels", "step_channel"), ("folds", "step_fold")):
                if dims[0].source == side and dims[0].count > 1:
                    one = dims.pop(0)
                    values |= {name: one.count, step_: one.target * self.k_b}
                    side *= one.count
                else:
                    break
        else:
            one = dims.pop(0)
            values |= {"step": one.target * self.k_b, "count": one.count}
            values["pitch"] = one.source * size
        dims += [Dimension(1, 0, 0)] * (3 - len(dims))
        for i, one in enumerate(
            dims, 1
        ):  # what is a source of weights is a target here
            values[f"count_{i}"] = one.count
            values[f"source_{i}"] = one.target * self.k_b
            values[f"target_{i}"] = one.source * size
        return values
