"""The nest of all products: blocks of C, each summed over blocks of k by tiles.

    for each block of C (a work item):
        for each block of k:
            copy the block of A, if asked
            for each panel of columns of the block:
                copy the panel of B, if asked
                for each tile of rows: sum in registers; at the last k: finish

All sizes, strides and cuts are arguments, and so are the functions that are called: a
product's own is how its sums are finished.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from treadle.engines.native.codegen.builder import Value
from treadle.engines.native.codegen.contraction.frame import KernelFrame
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.text import (
    FunctionText,
    join,
    least,
    prefetch,
)
from treadle.engines.native.codegen.texts import lasting

FUNCTIONS = ("tile", "pack", "copy", "finish")
# Strides, steps, sizes and places in scratch memory are in bytes.
FIELDS = (
    *("batch_a", "row_a", "k_a", "batch_b", "k_b", "column_b"),
    *("batch_c", "row_c", "column_c", "m", "n", "k"),
    *("blocks_m", "blocks_n", "block_n", "block_k", "tile_m", "tile_n"),
    "direct",  # tiles write to C: 2 all, 1 those of whole vectors, 0 none
    *("group_n", "step_pack"),  # columns of panels copied at once; between their panels
    "packed",  # panels are copied: 2 all, 1 those not of whole vectors, 0 none
    "copied",  # blocks of A are copied: 1 along rows, 2 along k, 0 not
    "again",  # sums are added to C
    *("copy_row", "copy_k"),  # strides of the copy
    "copy_tile",  # between copies of the rows of each tile; 0: of all rows at once
    "joined",  # the blocks of a call, of rows one after the other, are one
    "far",  # to prefetch C
    "ahead",  # so many tiles prefetch a line of each row of the next panel
    *("step_tile", "step_panel"),  # between sums kept over blocks of k
    *("scratch", "at_sums", "at_a"),
)


@dataclass(frozen=True)
class _Block:
    """A block of C in the loop over k: where it begins, the step of k, A and B."""

    batch: Value
    row: Value
    column: Value
    rows: Value
    columns: Value
    tiles: Value  # of rows
    k: Value  # terms in this step
    first: Value
    last: Value
    a: Value
    row_a: Value
    k_a: Value
    b: Value


@dataclass(frozen=True)
class _Panel:
    """Some columns of a block: where they begin, how many, B's panel, kept sums."""

    column: Value
    columns: Value
    b: Value
    k_b: Value
    ahead: Value
    sums: Value
    row_sums: Value
    direct: Value


@lasting
def product_nest(machine: Machine, dtype: str) -> FunctionText:
    """The kernel of a machine's products of one type.

    The epilogue's own arguments come after FIELDS.
    """
    return _Kernel(machine.vector, machine.lanes(dtype)).build()


class _Kernel:
    """A nest under construction, for vectors of so many bytes and lanes."""

    def __init__(self, vector: int, lanes: int) -> None:
        self.vector, self.lanes = vector, lanes
        self.frame = frame = KernelFrame(["A", "B", "C", "scratch", *FUNCTIONS], FIELDS)
        self.b, self.values = frame.b, frame.values
        self.at, self.scratch = frame.at, frame.scratch

    # -- small things ----------------------------------------------------------------

    def _either(
        self, condition: Value, name: str, arguments: list[Value],
        pairs: Sequence[tuple[Value, Value]],
    ) -> list[Value]:  # fmt: skip
        """The second of each pair after a call under the condition, else the first."""
        b = self.b
        before, then, end = b.block, b.label(name), b.label("end")
        b.branch_if(condition, then, end)
        b.start(then)
        self.frame.call(name, arguments)
        b.branch(end)
        b.start(end)
        return [
            b.define(x.type, f"phi {x.type} [{x.name}, %{before}], [{y.name}, %{then}]")
            for x, y in pairs
        ]

    # -- the loops -------------------------------------------------------------------

    def build(self) -> FunctionText:
        """The loop over work items: blocks of columns innermost, then of rows."""
        b, g = self.b, self.values
        begin, end = b.arguments["begin"], b.arguments["end"]
        joined = b.compare("ne", g["joined"], b.i64(0))
        step = b.select(joined, b.sub(end, begin), b.i64(1))
        with b.loop(begin, end, step) as items:
            rest = b.sdiv(items.index, g["blocks_n"])
            column = b.mul(b.srem(items.index, g["blocks_n"]), g["block_n"])
            batch = b.sdiv(rest, g["blocks_m"])
            index = b.srem(rest, g["blocks_m"])
            row, last = (
                self.frame.evenly(g["m"], g["blocks_m"], k)[0]
                for k in (index, b.add(index, step))
            )
            self._block(batch, row, b.sub(last, row), column)
        b.ret()
        return join("matmul", [b])

    def _block(self, batch: Value, row: Value, rows: Value, column: Value) -> None:
        """One block of C; an empty sum is one block of no terms."""
        b, g = self.b, self.values
        columns = least(b, g["block_n"], b.sub(g["n"], column))
        tiles = self.frame.ceil(rows, g["tile_m"])
        left = self.at(g["*A"], (batch, "batch_a"), (row, "row_a"))
        right = self.at(g["*B"], (batch, "batch_b"), (column, "column_b"))
        stop = b.select(b.compare("sgt", g["k"], b.i64(0)), g["k"], b.i64(1))
        with b.loop(b.i64(0), stop, g["block_k"]) as over:
            k = least(b, g["block_k"], b.sub(g["k"], over.index))
            first = b.compare("eq", over.index, b.i64(0))
            last = b.compare("sge", b.add(over.index, g["block_k"]), stop)
            a = self._left_block(self.at(left, (over.index, "k_a")), rows, k, tiles)
            right_block = self.at(right, (over.index, "k_b"))
            place = (batch, row, column, rows, columns, tiles)
            self._panels(_Block(*place, k, first, last, *a, right_block))

    def _left_block(
        self, a: Value, rows: Value, k: Value, tiles: Value
    ) -> tuple[Value, Value, Value]:
        """The block of A and its strides: where it lies, or its copy."""
        b, g = self.b, self.values
        target = b.offset(self.scratch, g["at_a"], "i8")
        along_k = b.compare("eq", g["copied"], b.i64(2))
        step, outer, inner, copy_step = (
            b.select(along_k, x, y)
            for x, y in (
                (g["row_a"], g["k_a"]),
                (rows, k),
                (k, rows),
                (g["copy_row"], g["copy_k"]),
            )
        )
        whole = b.compare("eq", g["copy_tile"], b.i64(0))
        pieces = b.select(whole, b.i64(1), tiles)
        x, y, z = self._either(
            b.compare("ne", g["copied"], b.i64(0)),
            "copy",
            [a, step, outer, inner, target, copy_step, pieces, g["copy_tile"]],
            [(a, target), (g["row_a"], g["copy_row"]), (g["k_a"], g["copy_k"])],
        )
        return x, y, z

    def _panels(self, block: _Block) -> None:
        """The panels of a block, one after the other."""
        b, g = self.b, self.values
        sums = b.offset(self.scratch, g["at_sums"], "i8")
        size = b.i64(self.vector)
        with b.loop(b.i64(0), block.columns, g["tile_n"], [sums]) as over:
            wide = least(b, g["tile_n"], b.sub(block.columns, over.index))
            vectors = self.frame.ceil(wide, b.i64(self.lanes))
            whole = b.compare("eq", b.srem(wide, b.i64(self.lanes)), b.i64(0))
            source = self.at(block.b, (over.index, "column_b"))
            row = b.mul(vectors, size)
            panel, k_b = self._right_panel(block, over.index, source, whole, row)
            direct = b.compare("sge", g["direct"], b.select(whole, b.i64(1), b.i64(2)))
            ahead = self._ahead(block, over.index)
            column = b.add(block.column, over.index)
            panel_place = over.values[0]
            self._tiles(
                block, _Panel(column, wide, panel, k_b, ahead, panel_place, row, direct)
            )
            over.next([b.offset(panel_place, g["step_panel"], "i8")])

    def _right_panel(
        self, block: _Block, index: Value, source: Value, whole: Value, row: Value
    ) -> tuple[Value, Value]:
        """The panel of B and its step: where it lies, or its copy."""
        b, g = self.b, self.values
        is_packed = b.compare("sge", g["packed"], b.select(whole, b.i64(2), b.i64(1)))
        within = b.srem(index, g["group_n"])
        is_next = b.compare("eq", within, b.i64(0))
        several = b.compare("ne", g["step_pack"], b.i64(0))
        size = b.i64(self.vector // self.lanes)
        row = b.select(several, b.mul(g["tile_n"], size), row)
        with b.when(b.and_(is_packed, is_next)):
            wide = least(b, g["group_n"], b.sub(block.columns, index))
            place = self.scratch, row, g["tile_n"], g["step_pack"]
            arguments = source, g["k_b"], g["column_b"], block.k, wide, *place
            self.frame.call("pack", arguments)
        copy = b.mul(b.sdiv(within, g["tile_n"]), g["step_pack"])
        panel = b.select(is_packed, b.offset(self.scratch, copy, "i8"), source)
        return panel, b.select(is_packed, row, g["k_b"])

    def _ahead(self, block: _Block, index: Value) -> Value:
        """The address of the next panel: beside this one, or in the next rows of k.

        Of what lies beside, the ends of vectors: where they begin between two lines,
        the first one has been read with this panel.
        """
        b, g = self.b, self.values
        following = b.add(index, g["tile_n"])
        next_columns = self.at(block.b, (following, "column_b"))
        next_columns = b.offset(next_columns, b.i64(self.vector - 1), "i8")
        below = self.at(block.b, (g["block_k"], "k_b"))
        return b.select(b.compare("slt", following, block.columns), next_columns, below)

    def _tiles(self, block: _Block, panel: _Panel) -> None:
        """The tiles of one panel."""
        b, g = self.b, self.values
        start = b.select(panel.direct, g["again"], b.i64(0))
        adds = b.select(block.first, start, b.i64(1))
        is_far = b.and_(panel.direct, b.compare("ne", g["far"], b.i64(0)))
        row_out = b.select(panel.direct, g["row_c"], panel.row_sums)
        finish = b.and_(block.last, b.xor(panel.direct, b.constant("i1", 1)))
        c = self.at(
            g["*C"],
            (block.batch, "batch_c"),
            (block.row, "row_c"),
            (panel.column, "column_c"),
        )
        apart = b.compare("ne", g["copy_tile"], b.i64(0))
        low, extra = b.sdiv(block.rows, block.tiles), b.srem(block.rows, block.tiles)
        carried = [block.row, block.a, c, panel.sums, panel.ahead]
        with b.loop(b.i64(0), block.tiles, b.i64(1), carried) as over:
            row, a, to, sums, ahead = over.values
            more = b.convert("zext", b.compare("slt", over.index, extra), "i64")
            height = b.add(low, more)
            asks = b.compare("slt", over.index, g["ahead"])
            far = b.select(asks, ahead, panel.b)
            step = b.select(asks, g["k_b"], b.i64(0))
            out = b.select(panel.direct, to, sums)
            further = b.mul(height, block.row_a)
            further = b.select(apart, g["copy_tile"], further)
            with b.when(is_far):
                self._fetch(to, height)
            self.frame.call(
                "tile",
                [
                    *(a, block.row_a, block.k_a, panel.b, panel.k_b, g["column_b"]),
                    *(block.k, out, row_out, adds, far, step, height, panel.columns),
                ],
            )
            with b.when(finish):
                self.frame.call(
                    "finish",
                    [
                        *(self.frame.beyond(b.i64(0)), block.batch, row, panel.column),
                        *(height, panel.columns, sums, panel.row_sums),
                        *(to, g["row_c"], g["column_c"]),
                    ],
                )
            over.next(
                [
                    b.add(row, height),
                    b.offset(a, further, "i8"),
                    self.at(to, (height, "row_c")),
                    b.offset(sums, g["step_tile"], "i8"),
                    b.offset(ahead, b.i64(self.vector), "i8"),
                ]
            )

    def _fetch(self, place: Value, rows: Value) -> None:
        """Prefetch the lines of a tile of C."""
        b, g = self.b, self.values
        with b.loop(b.i64(0), rows, b.i64(1), [place]) as over:
            for line in range(3):
                at = b.offset(over.values[0], b.i64(64 * line), "i8")
                prefetch(b, at, 3, write=True)
            over.next([b.offset(over.values[0], g["row_c"], "i8")])
