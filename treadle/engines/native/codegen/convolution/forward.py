"""The generated kernel of a convolution.

    for each block of windows and outputs (a work item):
        bring its part of the image into scratch memory, unless it lies well
        for each panel of outputs:
            for each chunk of the sum: for each row of windows: for each tile: add
            hand finished vectors to the epilogue, unless tiles wrote them

All sizes, strides and cuts are arguments, and so are the functions that are called.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.base.caches import Cache
from treadle.engines.native.codegen.builder import Builder, Value, lanes, vector
from treadle.engines.native.codegen.contraction.epilogue import (
    Epilogue,
    Site,
    epilogue_arguments,
    store,
)
from treadle.engines.native.codegen.contraction.frame import KernelFrame
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.text import (
    MOST,
    FunctionText,
    join,
    kept,
    lanes_below,
    least,
)
from treadle.engines.native.codegen.contraction.transpose import transpose
from treadle.engines.native.codegen.convolution.strip import (
    STRIP,
    WindowBlock,
    fill_strip,
    runs_inside,
)
from treadle.engines.native.codegen.convolution.tile import RUN

FUNCTIONS = ("tile", "fill")
# Strides, steps, sizes and places in scratch memory are in bytes.
FIELDS = (
    *("x_n", "x_group", "y_n", "y_group", "y_o", "y_p", "y_q"),
    *STRIP,
    *("groups", "counts_p", "counts_q", "channels", "outputs", "size", "a_o"),
    *("blocks_p", "blocks_q", "blocks_o", "block_o"),
    *("in_place", "a_p", "a_q", "tile_m"),
    *("panels", "panel", "panel_bytes", "k_b"),
    *("runs", "chunk", "table"),  # of a sum, of a part of it; i64 of the list of runs
    *("taps_h", "dilation_h", "row_runs"),  # of a row of the kernel; 0: all are inside
    *("direct", "merged"),  # tiles write y; finished rows of pixels are one
    *("scratch", "at_sums", "at_square", "at_spare"),
)


@dataclass(frozen=True)
class WindowStructure:
    """All that is compiled into a kernel."""

    dtype: str
    along: str  # what lies in a finished vector: "outputs" or "pixels"
    adjacent: bool
    key: str | None  # of the epilogue
    pointers: int = 0
    integers: int = 0


@dataclass(frozen=True)
class _Item:
    """A work item: image, group, windows, and where its part of the image lies."""

    n: Value
    group: Value
    block: WindowBlock
    a: Value


@dataclass(frozen=True)
class _Panel:
    """Some outputs of an item: the first, how many, whole vectors, where they lie."""

    first: Value
    columns: Value
    width: Value
    direct: Value
    b: Value
    y: Value


def forward_kernel(
    machine: Machine, structure: WindowStructure, epilogue: Epilogue | None
) -> FunctionText:
    """The text for a structure; texts are kept by the key of the epilogue."""
    lasts = epilogue is None or epilogue.lasts
    return kept(
        _kernels,
        (machine, structure),
        f"convolution {machine} {structure}" if lasts else "",
        lambda: _Kernel(machine, structure, epilogue).build(),
    )


_kernels: Cache[tuple[Machine, WindowStructure], FunctionText]
_kernels = Cache("texts of convolutions", MOST)


def _store(b: Builder, x: Value, site: Site) -> None:
    """Write a finished vector to y; every other element by masks, if it is so."""
    if site.step is None:
        store(b, x, site)
        return
    count = lanes(x.type)
    size = 4 if "float" in x.type else 8
    every_other = b.compare("eq", site.step, b.i64(2 * size))
    with b.when(b.xor(every_other, b.constant("i1", 1))):
        store(b, x, site)
    with b.when(every_other):
        even = ", ".join(f"i1 {int(i % 2 == 0)}" for i in range(count))
        mask = Value(f"<{even}>", vector("i1", count))
        for half in (0, 1):
            spread = [half * (count // 2) + i // 2 for i in range(count)]
            places = ", ".join(f"i32 {k}" for k in spread)
            pattern = f"<{count} x i32> <{places}>"
            y = b.define(x.type, f"shufflevector {x}, {x.type} poison, {pattern}")
            valid = mask
            if site.mask is not None:
                kind = site.mask.type
                line = f"shufflevector {site.mask}, {kind} poison, {pattern}"
                valid = b.and_(b.define(kind, line), mask)
            b.masked_store(y, b.offset(site.c, b.i64(half), x.type), valid)


class _Kernel:
    """A kernel under construction."""

    def __init__(
        self, machine: Machine, structure: WindowStructure, epilogue: Epilogue | None
    ) -> None:
        self.structure = structure
        self.emit = epilogue.emit if epilogue else _store
        self.lanes = machine.lanes(structure.dtype)
        self.kind = vector(structure.dtype, self.lanes)
        pointers = ("x", "workspace", "y", "scratch", *FUNCTIONS)
        self.frame = frame = KernelFrame(pointers, FIELDS)
        self.b, self.g = frame.b, frame.values
        self.runs = frame.beyond(self.b.i64(0))
        # the list of runs comes after FIELDS and before what is the epilogue's own
        place, s = frame.beyond(self.g["table"]), structure
        self.arguments = epilogue_arguments(self.b, place, s.pointers, s.integers)
        self.sums = frame.on(frame.scratch, "at_sums")
        self.spare = frame.on(frame.scratch, "at_spare")
        self.square = frame.on(frame.scratch, "at_square")

    def build(self) -> FunctionText:
        """The loop over work items, blocks of outputs innermost."""
        b, g, frame = self.b, self.g, self.frame
        one = b.i64(1)
        names = ("", "groups", "blocks_p", "blocks_q", "blocks_o")
        begin, end = b.arguments["begin"], b.arguments["end"]
        with b.loop(begin, end, one, [b.i64(-1)]) as items:
            n, group, p, q, o = frame.taken(items.index, names)
            block = WindowBlock(
                *frame.evenly(g["counts_p"], g["blocks_p"], p),
                *frame.evenly(g["counts_q"], g["blocks_q"], q),
            )
            image = frame.at(g["*x"], (n, "x_n"), (group, "x_group"))
            strip = b.sdiv(items.index, g["blocks_o"])
            in_place = b.compare("ne", g["in_place"], b.i64(0))
            fresh = b.compare("ne", strip, items.values[0])
            with b.when(b.and_(fresh, b.xor(in_place, b.constant("i1", 1)))):
                fill_strip(
                    frame, image, block, g["channels"], frame.scratch, self.spare
                )
            window = frame.at(image, (block.p, "a_p"), (block.q, "a_q"))
            a = b.select(in_place, window, frame.scratch)
            self._panels(_Item(n, group, block, a), o)
            items.next([strip])
        b.ret()
        return join("convolve", [b])

    def _panels(self, item: _Item, o: Value) -> None:
        """The panels of outputs of an item, one after the other."""
        b, g, frame = self.b, self.g, self.frame
        first = b.mul(o, g["block_o"])
        stop = least(b, b.add(first, g["block_o"]), g["outputs"])
        y = frame.at(g["*y"], (item.n, "y_n"), (item.group, "y_group"))
        y = frame.at(y, (item.block.p, "y_p"), (item.block.q, "y_q"))
        with b.loop(first, stop, g["panel"]) as over:
            columns = least(b, g["panel"], b.sub(stop, over.index))
            count = b.i64(self.lanes)
            whole = b.compare("eq", b.srem(columns, count), b.i64(0))
            direct = b.and_(whole, b.compare("ne", g["direct"], b.i64(0)))
            place = b.add(
                b.mul(item.group, g["panels"]), b.sdiv(over.index, g["panel"])
            )
            panel = _Panel(
                over.index,
                columns,
                frame.ceil(columns, count),
                direct,
                frame.at(g["*workspace"], (place, "panel_bytes")),
                frame.at(y, (over.index, "y_o")),
            )
            self._sum(frame.at(item.a, (over.index, "a_o")), item, panel)
            with b.when(b.xor(direct, b.constant("i1", 1))):
                if self.structure.along == "pixels":
                    self._finish_pixels(item, panel)
                else:
                    self._finish_outputs(item, panel)

    # -- sums ------------------------------------------------------------------------

    def _sum(self, a: Value, item: _Item, panel: _Panel) -> None:
        """All sums of a panel: chunk after chunk of the list of runs."""
        b, g, frame = self.b, self.g, self.frame
        zero, one = b.i64(0), b.i64(1)
        rows, columns = item.block.rows, item.block.columns
        out = b.select(panel.direct, panel.y, self.sums)
        row_out = b.select(panel.direct, g["y_q"], g["k_b"])
        line_out = b.select(panel.direct, g["y_p"], b.mul(columns, g["k_b"]))
        tiles = frame.ceil(columns, g["tile_m"])
        low, extra = b.sdiv(columns, tiles), b.srem(columns, tiles)
        stop = frame.most(g["runs"], one)  # an empty sum is a chunk of no runs
        with b.loop(zero, stop, g["chunk"]) as chunks:
            fresh = b.compare("eq", chunks.index, zero)
            with b.loop(zero, rows, one, [a, out]) as lines:
                row = b.add(item.block.p, lines.index)
                run, runs = runs_inside(frame, row, chunks.index)
                table = b.offset(self.runs, b.mul(run, b.i64(RUN)), "i64")
                stop = b.select(b.or_(fresh, b.compare("sgt", runs, zero)), tiles, zero)
                with b.loop(zero, stop, one, lines.values) as over:
                    a, to = over.values
                    more = b.convert("zext", b.compare("slt", over.index, extra), "i64")
                    height = b.add(low, more)
                    frame.call(
                        "tile",
                        [
                            *(a, g["a_q"], g["size"], panel.b, g["k_b"], table, runs),
                            *(to, row_out, chunks.index, panel.b, zero, height),
                            panel.width,
                        ],
                    )
                    to = b.offset(to, b.mul(height, row_out), "i8")
                    over.next([frame.at(a, (height, "a_q")), to])
                a, to = lines.values
                lines.next([frame.on(a, "a_p"), b.offset(to, line_out, "i8")])

    # -- finished sums ---------------------------------------------------------------

    def _site(
        self,
        item: _Item,
        channel: Value,
        pixel: Value,
        place: Value,
        mask: Value | None,
    ) -> Site:
        b, g, structure = self.b, self.g, self.structure
        channel = b.add(b.mul(item.group, g["outputs"]), channel)
        outputs = structure.along == "outputs"
        return Site(
            item.n,
            pixel if outputs else channel,
            channel if outputs else pixel,
            mask,
            place,
            None if structure.adjacent else g["y_o" if outputs else "y_q"],
            *self.arguments,
        )

    def _finish_outputs(self, item: _Item, panel: _Panel) -> None:
        """Vectors along outputs: as they lie in the sums."""
        b, g, frame, block = self.b, self.g, self.frame, item.block
        zero, one = b.i64(0), b.i64(1)
        count = b.i64(self.lanes)
        whole = b.sub(panel.columns, b.srem(panel.columns, count))
        mask = lanes_below(b, b.sub(panel.columns, whole), self.lanes)
        ragged = b.compare("slt", whole, panel.columns)
        with b.loop(zero, block.rows, one, [self.sums, panel.y]) as lines:
            sums, y = lines.values
            first = b.mul(b.add(block.p, lines.index), g["counts_q"])
            first = b.add(first, block.q)
            with b.loop(zero, block.columns, one, [sums, y]) as over:
                source, to = over.values
                pixel = b.add(first, over.index)

                def put(
                    at: Value,
                    valid: Value | None,
                    source: Value = source,
                    to: Value = to,
                    pixel: Value = pixel,
                ) -> None:
                    x = b.load(self.kind, b.offset(source, at, self.structure.dtype))
                    place = frame.at(to, (at, "y_o"))
                    channel = b.add(panel.first, at)
                    self.emit(b, x, self._site(item, channel, pixel, place, valid))

                with b.loop(zero, whole, count) as along:
                    put(along.index, None)
                with b.when(ragged):
                    put(whole, mask)
                over.next([frame.on(source, "k_b"), frame.on(to, "y_q")])
            lines.next([over.values[0], frame.on(y, "y_p")])

    def _finish_pixels(self, item: _Item, panel: _Panel) -> None:
        """Vectors along rows of pixels, which are turned from those along outputs."""
        b, g, frame, block = self.b, self.g, self.frame, item.block
        one = b.i64(1)
        is_merged = b.compare("ne", g["merged"], b.i64(0))
        all_pixels = b.mul(block.rows, block.columns)
        lines = b.select(is_merged, one, block.rows)
        length = b.select(is_merged, all_pixels, block.columns)
        with b.loop(b.i64(0), lines, one, [self.sums, panel.y]) as over:
            sums, y = over.values
            first = b.mul(b.add(block.p, over.index), g["counts_q"])
            first = b.add(first, block.q)
            with b.loop(b.i64(0), panel.columns, b.i64(self.lanes)) as along:
                source = b.offset(sums, along.index, self.structure.dtype)
                to = frame.at(y, (along.index, "y_o"))
                channel = b.add(panel.first, along.index)
                left = b.sub(panel.columns, along.index)
                valid = least(b, left, b.i64(self.lanes))
                self._squares(item, (channel, valid), (first, length), source, to)
            over.next([frame.at(sums, (length, "k_b")), frame.on(y, "y_p")])

    def _squares(
        self,
        item: _Item,
        channels: tuple[Value, Value],
        pixels: tuple[Value, Value],
        sums: Value,
        y: Value,
    ) -> None:
        """A vector of outputs wide and a row of pixels long, square after square."""
        b, frame = self.b, self.frame
        count = self.lanes
        size = b.i64(count)
        first, length = pixels
        whole = b.sub(length, b.srem(length, size))

        def transpose_square(
            at: Value, source: Value, to: Value, mask: Value | None
        ) -> None:
            start = to
            rows = [source]
            for _ in range(count - 1):
                rows.append(frame.on(rows[-1], "k_b"))
            columns = transpose(b, [b.load(self.kind, p) for p in rows])
            if self.structure.key is None and self.structure.adjacent:
                all_ = b.compare("eq", channels[1], b.i64(count))
                with b.when(all_):
                    for x in columns:
                        b.masked_store(x, to, mask)
                        to = frame.on(to, "y_o")
                some = b.xor(all_, b.constant("i1", 1))
            else:
                some = b.constant("i1", 1)
            with b.when(some):
                for i, x in enumerate(columns):
                    b.store(x, b.offset(self.square, b.i64(i), self.kind))
                self._vectors(item, channels, b.add(first, at), start, mask)

        with b.loop(b.i64(0), whole, size, [sums, y]) as squares:
            source, to = squares.values
            transpose_square(squares.index, source, to, None)
            squares.next([frame.at(source, (size, "k_b")), frame.at(to, (size, "y_q"))])
        with b.when(b.compare("slt", whole, length)):
            mask = lanes_below(b, b.sub(length, whole), count)
            source, to = squares.values
            transpose_square(whole, source, to, mask)

    def _vectors(
        self,
        item: _Item,
        channels: tuple[Value, Value],
        pixel: Value,
        y: Value,
        mask: Value | None,
    ) -> None:
        """The vectors of a square, channel after channel."""
        b, frame = self.b, self.frame
        with b.loop(b.i64(0), channels[1], b.i64(1), [y]) as over:
            (to,) = over.values
            x = b.load(self.kind, b.offset(self.square, over.index, self.kind))
            channel = b.add(channels[0], over.index)
            self.emit(b, x, self._site(item, channel, pixel, to, mask))
            over.next([frame.on(to, "y_o")])
