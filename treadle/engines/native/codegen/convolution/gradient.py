"""The generated kernel of the gradient of weights.

    for each chunk of the images, part of the channels and of the outputs (a work item):
        for each block of windows in the chunk:
            bring its part of the image and of y into scratch memory
            for each panel of outputs, for each tile of taps: add over the windows

A tile's rows are taps and channels, which lie side by side in a strip, its columns are
outputs, and its runs rows of windows. Each chunk has sums of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.engines.native.codegen.builder import Value
from treadle.engines.native.codegen.contraction.frame import KernelFrame
from treadle.engines.native.codegen.contraction.text import FunctionText, join, least
from treadle.engines.native.codegen.convolution.strip import (
    STRIP,
    WindowBlock,
    fill_strip,
)
from treadle.engines.native.codegen.convolution.tile import RUN
from treadle.engines.native.codegen.texts import lasting

# Strides, steps, sizes and places in scratch memory are in bytes.
FIELDS = (
    *("x_n", "x_group", "x_block", "y_n", "y_group", "y_o", "y_p", "y_q"),
    *("out_chunk", "out_group", "out_block", "out_panel", "row_out"),
    *STRIP,
    *("images", "groups", "counts_p", "counts_q", "channels", "outputs", "size"),
    *("blocks_n", "blocks_p", "blocks_q", "chunks", "blocks_c", "blocks_o", "block_o"),
    *("in_place", "a_n", "a_p", "a_q", "row_a", "a_panel", "tile_m", "lanes"),
    *("y_in_place", "b_n", "b_p", "b_q", "b_panel", "merged"),
    *("panel", "segments", "ahead"),
    *("scratch", "at_y", "at_table", "at_spare"),
)


@dataclass(frozen=True)
class _Item:
    """A part of the sums: group, block of channels, outputs, and where x, y begin."""

    out: Value  # the sums of its first panel
    first: Value
    stop: Value
    x: Value
    y: Value


@dataclass(frozen=True)
class _Windows:
    """Some windows of some images, and x and y of the first of them."""

    images: Value
    block: WindowBlock
    x: Value
    y: Value


@lasting
def gradient_kernel() -> FunctionText:
    """The kernel; what is left open of its structure is in the functions it calls."""
    return _Kernel().build()


class _Kernel:
    """A kernel under construction."""

    def __init__(self) -> None:
        pointers = ("x", "y", "out", "scratch", "tile", "fill_x", "fill_y")
        self.frame = frame = KernelFrame(pointers, FIELDS)
        self.b, self.g = frame.b, frame.values
        self.segments = frame.beyond(self.b.i64(0))
        self.panels = frame.on(frame.scratch, "at_y")
        self.table = frame.on(frame.scratch, "at_table")
        self.spare = frame.on(frame.scratch, "at_spare")

    def build(self) -> FunctionText:
        """The loop over work items, and in each over its chunk of blocks."""
        b, g, frame = self.b, self.g, self.frame
        one = b.i64(1)
        all_blocks = b.mul(b.mul(g["blocks_n"], g["blocks_p"]), g["blocks_q"])
        with frame.items() as item:
            names = ("", "groups", "blocks_c", "blocks_o")
            chunk, group, c, o = frame.taken(item, names)
            first, count = frame.evenly(all_blocks, g["chunks"], chunk)
            work = self._item(chunk, group, c, o)
            with b.loop(first, b.add(first, count), one) as over:
                number = b.sub(over.index, first)
                windows = self._windows(work, over.index)
                self._bring(work, windows)
                runs = self._list_runs(windows)
                self._panels(work, windows, runs, number)
        return join("weights", [b])

    def _item(self, chunk: Value, group: Value, c: Value, o: Value) -> _Item:
        b, g, frame = self.b, self.g, self.frame
        first = b.mul(o, g["block_o"])
        out = frame.at(g["*out"], (chunk, "out_chunk"), (group, "out_group"))
        panel = b.sdiv(first, g["panel"])
        return _Item(
            frame.at(out, (c, "out_block"), (panel, "out_panel")),
            first,
            least(b, b.add(first, g["block_o"]), g["outputs"]),
            frame.at(g["*x"], (group, "x_group"), (c, "x_block")),
            frame.at(g["*y"], (group, "y_group"), (first, "y_o")),
        )

    def _windows(self, item: _Item, index: Value) -> _Windows:
        g, frame = self.g, self.frame
        n, p, q = frame.taken(index, ("", "blocks_p", "blocks_q"))
        n, images = frame.evenly(g["images"], g["blocks_n"], n)
        block = WindowBlock(
            *frame.evenly(g["counts_p"], g["blocks_p"], p),
            *frame.evenly(g["counts_q"], g["blocks_q"], q),
        )
        y = frame.at(item.y, (n, "y_n"), (block.p, "y_p"), (block.q, "y_q"))
        return _Windows(images, block, frame.at(item.x, (n, "x_n")), y)

    # -- operands --------------------------------------------------------------------

    def _bring(self, item: _Item, windows: _Windows) -> None:
        """The strips of all images, unless x lies well, and the panels of y."""
        b, g, frame, block = self.b, self.g, self.frame, windows.block
        zero, one = b.i64(0), b.i64(1)
        frame.values["*fill"] = g["*fill_x"]
        start = [windows.x, frame.scratch]
        stop = b.select(b.compare("eq", g["in_place"], zero), windows.images, zero)
        with b.loop(zero, stop, one, start) as over:
            x, strip = over.values
            fill_strip(frame, x, block, g["channels"], strip, self.spare)
            over.next([frame.on(x, "x_n"), frame.on(strip, "a_n")])
        with b.when(b.compare("eq", g["y_in_place"], zero)):
            self._bring_y(item, windows)

    def _bring_y(self, item: _Item, windows: _Windows) -> None:
        """The panels of y: pixels after pixels, each a few vectors of outputs."""
        b, g, frame, block = self.b, self.g, self.frame, windows.block
        zero, one = b.i64(0), b.i64(1)
        is_merged = b.compare("ne", g["merged"], zero)
        pixels = b.mul(block.rows, block.columns)
        lines = b.select(is_merged, one, block.rows)
        count = b.select(is_merged, pixels, block.columns)
        start = [windows.y, self.panels]
        with b.loop(item.first, item.stop, g["panel"], start) as panels:
            y, target = panels.values
            columns = least(b, g["panel"], b.sub(item.stop, panels.index))
            with b.loop(zero, windows.images, one, panels.values) as images:
                with b.loop(zero, lines, one, images.values) as over:
                    source, to = over.values
                    frame.call(
                        "fill_y",
                        [
                            *(source, zero, one, g["y_o"], columns, g["y_q"], count),
                            *(to, g["b_q"], self.spare),
                        ],
                    )
                    over.next([frame.on(source, "y_p"), frame.on(to, "b_p")])
                y, target = images.values
                images.next([frame.on(y, "y_n"), frame.on(target, "b_n")])
            y, target = panels.values
            y = frame.at(y, (g["panel"], "y_o"))
            panels.next([y, frame.on(target, "b_panel")])

    def _list_runs(self, windows: _Windows) -> Value:
        """Write the list of runs, one for each row of windows; how many there are."""
        b, g, block = self.b, self.g, windows.block
        zero, one = b.i64(0), b.i64(1)
        with b.loop(zero, windows.images, one, [self.table]) as images:
            a_n, b_n = (b.mul(images.index, g[x]) for x in ("a_n", "b_n"))
            with b.loop(zero, block.rows, one, images.values) as over:
                (place,) = over.values
                a_p, b_p = (b.mul(over.index, g[x]) for x in ("a_p", "b_p"))
                run = (b.add(a_n, a_p), b.add(b_n, b_p), block.columns)
                for i, value in enumerate(run):
                    b.store(value, b.offset(place, b.i64(i), "i64"))
                over.next([b.offset(place, b.i64(RUN), "i64")])
            images.next(over.values)
        return b.mul(windows.images, block.rows)

    # -- sums ------------------------------------------------------------------------

    def _panels(
        self, item: _Item, windows: _Windows, runs: Value, number: Value
    ) -> None:
        """The panels of outputs of a block of windows."""
        b, g, frame, block = self.b, self.g, self.frame, windows.block
        in_place = b.compare("ne", g["in_place"], b.i64(0))
        window = frame.at(windows.x, (block.p, "a_p"), (block.q, "a_q"))
        a = b.select(in_place, window, frame.scratch)
        y_in_place = b.compare("ne", g["y_in_place"], b.i64(0))
        y = b.select(y_in_place, windows.y, self.panels)
        # the part of x after this one, of which tiles prefetch a line for each pixel
        following = frame.at(a, (block.columns, "a_q"))
        stop = frame.at(following, (block.columns, "ahead"))
        start = [a, y, item.out, following]
        with b.loop(item.first, item.stop, g["panel"], start) as over:
            a, y, out, ahead = over.values
            columns = least(b, g["panel"], b.sub(item.stop, over.index))
            width = frame.ceil(columns, g["lanes"])
            with b.loop(b.i64(0), g["segments"], b.i64(1), [ahead]) as segments:
                place = b.mul(segments.index, b.i64(RUN))
                where, row, length = (
                    b.load(
                        "i64", b.offset(self.segments, b.add(place, b.i64(i)), "i64")
                    )
                    for i in range(RUN)
                )
                last = self._segment(
                    (b.offset(a, where, "i8"), y, b.offset(out, row, "i8")),
                    (length, width, block.columns),
                    (runs, number),
                    (segments.values[0], stop),
                )
                segments.next([last])
            further = [frame.on(a, "a_panel"), frame.on(y, "b_panel")]
            over.next([*further, frame.on(out, "out_panel"), segments.values[0]])

    def _segment(
        self,
        places: tuple[Value, Value, Value],
        sizes: tuple[Value, Value, Value],
        runs: tuple[Value, Value],
        ahead: tuple[Value, Value],
    ) -> Value:
        """The tiles of some taps and channels that lie side by side.

        The lines from ahead[0] on, before ahead[1], are prefetched; how far it came.
        """
        b, g, frame = self.b, self.g, self.frame
        a, y, out = places
        length, width, columns = sizes
        tiles = frame.ceil(length, g["tile_m"])
        low, extra = b.sdiv(length, tiles), b.srem(length, tiles)
        lines = b.mul(columns, b.i64(64))
        with b.loop(b.i64(0), tiles, b.i64(1), [a, out, ahead[0]]) as over:
            source, to, far = over.values
            more = b.convert("zext", b.compare("slt", over.index, extra), "i64")
            height = b.add(low, more)
            asks = b.compare("ult", far, ahead[1])
            line = b.select(asks, b.i64(64), b.i64(0))
            frame.call(
                "tile",
                [
                    *(source, g["row_a"], g["a_q"], y, g["b_q"], self.table, runs[0]),
                    *(to, g["row_out"], runs[1], b.select(asks, far, y), line),
                    *(height, width),
                ],
            )
            source = frame.at(source, (height, "row_a"))
            to = frame.at(to, (height, "row_out"))
            over.next([source, to, b.offset(far, lines, "i8")])
        return over.values[2]
