"""The generated kernel: blocks of C, each summed over blocks of k by tiles.

    for each block of C (a work item):
        for each block of k:
            copy the block of A, if asked
            for each panel of columns of the block:
                copy the panel of B, if asked
                for each tile of rows: sum in registers; at the last k: epilogue

All sizes, strides and cuts are arguments, and so are the functions for tiles and copies.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..builder import Builder, Value, vector
from .epilogue import Epilogue, Site, store
from .host import Host
from .pack import lanes_below
from .text import Function, join

__all__ = ["FIELDS", "FUNCTIONS", "Structure", "kernel"]

FUNCTIONS = ("tile", "pack", "copy")
FIELDS = (
    *("batch_a", "row_a", "k_a", "batch_b", "k_b", "column_b"),
    *("batch_c", "row_c", "column_c", "m", "n", "k"),
    *("blocks_m", "blocks_n", "block_n", "block_k"),
    *("tile_m", "tile_n", "direct", "packed", "copied", "copy_row", "copy_k"),
    *("far", "ahead", "step_tile", "step_panel", "scratch", "at_sums", "at_a"),
)  # strides in bytes; the meaning of the others is told in blocking.py


@dataclass(frozen=True)
class Structure:
    """All that is compiled into a kernel."""

    dtype: str
    adjacent: bool  # columns of C lie side by side
    accumulate: bool
    key: str | None  # of the epilogue
    pointers: int = 0
    integers: int = 0


def kernel(host: Host, structure: Structure, epilogue: Epilogue | None) -> Function:
    """The text for a structure; texts are kept by the key of the epilogue."""
    found = _kernels.get((host, structure))
    if found is None:
        found = _Kernel(host, structure, epilogue).build()
        _kernels[host, structure] = found
    return found


_kernels: dict[tuple[Host, Structure], Function] = {}


class _Kernel:
    """A kernel under construction."""

    def __init__(
        self, host: Host, structure: Structure, epilogue: Epilogue | None
    ) -> None:
        self.host = host
        self.structure = structure
        self.emit = epilogue.emit if epilogue else store
        self.lanes = host.lanes(structure.dtype)
        self.size = host.vector // self.lanes
        self.kind = vector(structure.dtype, self.lanes)
        parameters = [("args", "ptr")]
        parameters += [(name, "i64") for name in ("begin", "end", "worker")]
        self.b = Builder("NAME", parameters)
        names = ["A", "B", "C"]
        names += [f"pointer{i}" for i in range(structure.pointers)]
        names += ["S", *FUNCTIONS]
        self.given: dict[str, Value] = {}
        for i, name in enumerate(names):
            self._argument(i, name, "ptr")
        integers = [*FIELDS, *(f"integer{i}" for i in range(structure.integers))]
        for i, name in enumerate(integers):
            self._argument(len(names) + i, name, "i64")

    def _argument(self, place: int, name: str, kind: str) -> None:
        at = self.b.offset(self.b.arguments["args"], self.b.i64(place), "i64")
        self.given[name] = self.b.load(kind, at, 8)

    def build(self) -> Function:
        """The loop over work items."""
        b, g = self.b, self.given
        shift = b.mul(b.arguments["worker"], g["scratch"])
        self.scratch = b.offset(g["S"], shift, "i8")
        with b.loop(b.arguments["begin"], b.arguments["end"], b.i64(1)) as items:
            rest = b.sdiv(items.index, g["blocks_n"])
            column = b.mul(b.srem(items.index, g["blocks_n"]), g["block_n"])
            batch = b.sdiv(rest, g["blocks_m"])
            self._block(batch, *self._rows(b.srem(rest, g["blocks_m"])), column)
        b.ret()
        return join("matmul", [b])

    def _least(self, x: Value, y: Value) -> Value:
        return self.b.select(self.b.compare("slt", x, y), x, y)

    def _at(self, base: Value, *steps: tuple[Value, str]) -> Value:
        """base plus indices times the strides of the given names."""
        for index, stride in steps:
            base = self.b.offset(base, self.b.mul(index, self.given[stride]), "i8")
        return base

    def _rows(self, index: Value) -> tuple[Value, Value]:
        """First row and number of rows of a block: evenly, the first ones one more."""
        b, g = self.b, self.given
        low, extra = b.sdiv(g["m"], g["blocks_m"]), b.srem(g["m"], g["blocks_m"])
        more = b.convert("zext", b.compare("slt", index, extra), "i64")
        return b.add(b.mul(index, low), self._least(index, extra)), b.add(low, more)

    def _block(self, batch: Value, row: Value, rows: Value, column: Value) -> None:
        """One block of C."""
        b, g = self.b, self.given
        columns = self._least(g["block_n"], b.sub(g["n"], column))
        tiles = b.sdiv(b.sub(b.add(rows, g["tile_m"]), b.i64(1)), g["tile_m"])
        a = self._at(g["A"], (batch, "batch_a"), (row, "row_a"))
        right = self._at(g["B"], (batch, "batch_b"), (column, "column_b"))
        stop = b.select(b.compare("sgt", g["k"], b.i64(0)), g["k"], b.i64(1))
        with b.loop(b.i64(0), stop, g["block_k"]) as over:
            k = self._least(g["block_k"], b.sub(g["k"], over.index))
            last = b.compare("sge", b.add(over.index, g["block_k"]), stop)
            first = b.compare("eq", over.index, b.i64(0))
            left, row_a, k_a = self._left(self._at(a, (over.index, "k_a")), rows, k)
            own = self._at(right, (over.index, "k_b"))
            with b.loop(b.i64(0), columns, g["tile_n"]) as panels:
                wide = self._least(g["tile_n"], b.sub(columns, panels.index))
                panel, k_b = self._panel(self._at(own, (panels.index, "column_b")), k, wide)
                self.column = b.add(column, panels.index)
                self.ahead = self._ahead(own, panels.index, columns)
                sums = b.sdiv(panels.index, g["tile_n"])
                sums = self._at(
                    b.offset(self.scratch, g["at_sums"], "i8"), (sums, "step_panel")
                )
                self._tiles(
                    batch, row, rows, tiles, wide, k, left, row_a, k_a, panel, k_b, sums, first, last
                )

    def _ahead(self, own: Value, index: Value, columns: Value) -> Value:
        """Where the panel after this one lies: beside it, or in the next rows of k."""
        b, g = self.b, self.given
        following = b.add(index, g["tile_n"])
        beside = self._at(own, (following, "column_b"))
        below = self._at(own, (g["block_k"], "k_b"))
        return b.select(b.compare("slt", following, columns), beside, below)

    def _left(self, a: Value, rows: Value, k: Value) -> tuple[Value, Value, Value]:
        """The block of A and its strides: where it lies, or its copy."""
        b, g = self.b, self.given
        before, then, end = b.block, b.label("copy"), b.label("copied")
        b.branch_if(b.compare("eq", g["copied"], b.i64(0)), end, then)
        b.start(then)
        target = b.offset(self.scratch, g["at_a"], "i8")
        by_row = b.compare("ne", g["copied"], b.i64(1))
        pick = [
            b.select(by_row, x, y)
            for x, y in (
                (g["row_a"], g["k_a"]),
                (rows, k),
                (k, rows),
                (g["copy_row"], g["copy_k"]),
            )
        ]
        self._call("copy", [a, *pick[:3], target, pick[3]])
        b.branch(end)
        b.start(end)
        pairs = ((a, target), (g["row_a"], g["copy_row"]), (g["k_a"], g["copy_k"]))
        x, y, z = (
            b.define(p.type, f"phi {p.type} [{p.name}, %{before}], [{q.name}, %{then}]")
            for p, q in pairs
        )
        return x, y, z

    def _panel(self, source: Value, k: Value, wide: Value) -> tuple[Value, Value]:
        """The panel of B and its stride along k: in place, or its copy.

        Whole vectors are read from a panel, so one that ends within a vector is copied.
        """
        b, g = self.b, self.given
        before, then, end = b.block, b.label("pack"), b.label("packed")
        ragged = b.compare("ne", b.srem(wide, b.i64(self.lanes)), b.i64(0))
        copied = b.or_(ragged, b.compare("ne", g["packed"], b.i64(0)))
        b.branch_if(copied, then, end)
        b.start(then)
        size = b.mul(self._vectors(wide), b.i64(self.host.vector))
        given = [source, g["k_b"], g["column_b"], k, wide, self.scratch, size]
        self._call("pack", given)
        b.branch(end)
        b.start(end)
        x, y = (
            b.define(p.type, f"phi {p.type} [{p.name}, %{before}], [{q.name}, %{then}]")
            for p, q in ((source, self.scratch), (g["k_b"], size))
        )
        return x, y

    def _vectors(self, columns: Value) -> Value:
        b = self.b
        return b.sdiv(b.add(columns, b.i64(self.lanes - 1)), b.i64(self.lanes))

    def _call(self, name: str, arguments: list[Value]) -> None:
        given = ", ".join(map(str, arguments))
        self.b.emit(f"call void {self.given[name].name}({given})")

    def _tiles(
        self, batch: Value, row: Value, rows: Value, tiles: Value, wide: Value, k: Value,
        left: Value, row_a: Value, k_a: Value, panel: Value, k_b: Value, sums: Value,
        first: Value, last: Value,
    ) -> None:  # fmt: skip
        """The tiles of one panel: rows cut evenly, the first ones a row taller."""
        b, g = self.b, self.given
        low, extra = b.sdiv(rows, tiles), b.srem(rows, tiles)
        vectors = self._vectors(wide)
        whole = b.compare("eq", b.srem(wide, b.i64(self.lanes)), b.i64(0))
        direct = b.and_(whole, b.compare("ne", g["direct"], b.i64(0)))
        start = b.i64(1 if self.structure.accumulate else 0)
        again = b.select(first, b.select(direct, start, b.i64(0)), b.i64(1))
        far = b.select(direct, g["far"], b.i64(0))
        again = b.or_(again, far)
        ending = b.and_(last, b.xor(direct, b.constant("i1", 1)))
        width = b.mul(vectors, b.i64(self.host.vector))
        row_out = b.select(direct, g["row_c"], width)
        c = self._at(
            g["C"], (batch, "batch_c"), (row, "row_c"), (self.column, "column_c")
        )
        line = b.i64(self.host.vector)
        carried = [b.i64(0), left, c, sums, self.ahead]
        with b.loop(b.i64(0), tiles, b.i64(1), carried) as over:
            done, a, to, held, ahead = over.values
            asks = b.compare("slt", over.index, g["ahead"])
            far = b.select(asks, ahead, panel)
            step = b.select(asks, g["k_b"], b.i64(0))
            more = b.convert("zext", b.compare("slt", over.index, extra), "i64")
            height = b.add(low, more)
            shape = b.add(b.mul(height, b.i64(16)), vectors)
            out = b.select(direct, to, held)
            given = [a, row_a, k_a, panel, k_b, k, out, row_out, again, far, step, shape]
            self._call("tile", given)
            with b.when(ending):
                self._finish(batch, b.add(row, done), height, wide, held, width, to)
            over.next(
                [
                    b.add(done, height),
                    b.offset(a, b.mul(height, row_a), "i8"),
                    self._at(to, (height, "row_c")),
                    b.offset(held, g["step_tile"], "i8"),
                    b.offset(ahead, line, "i8"),
                ]
            )

    def _finish(
        self, batch: Value, row: Value, height: Value, wide: Value, held: Value,
        width: Value, to: Value,
    ) -> None:  # fmt: skip
        """Hand the sums of a tile to the epilogue, vector after vector."""
        b = self.b
        count = b.i64(self.lanes)
        whole = b.sub(wide, b.srem(wide, count))
        with b.loop(b.i64(0), height, b.i64(1), [held, to]) as over:
            x, y = over.values
            at = batch, b.add(row, over.index)
            with b.loop(b.i64(0), whole, count) as along:
                self._vector(*at, along.index, x, y, None)
            with b.when(b.compare("slt", whole, wide)):
                mask = lanes_below(b, b.sub(wide, whole), self.lanes)
                self._vector(*at, whole, x, y, mask)
            over.next([b.offset(x, width, "i8"), self._at(y, (b.i64(1), "row_c"))])

    def _vector(
        self, batch: Value, row: Value, along: Value, held: Value, to: Value,
        mask: Value | None,
    ) -> None:  # fmt: skip
        b, g = self.b, self.given
        x = b.load(self.kind, b.offset(held, along, self.structure.dtype))
        c = self._at(to, (along, "column_c"))
        step = None
        if not self.structure.adjacent:
            step = b.sdiv(g["column_c"], b.i64(self.size))
        site = Site(
            batch,
            row,
            b.add(self.column, along),
            mask,
            c,
            step,
            tuple(g[f"pointer{i}"] for i in range(self.structure.pointers)),
            tuple(g[f"integer{i}"] for i in range(self.structure.integers)),
        )
        if self.structure.accumulate:
            x = b.fadd(x, self._load(site))
        self.emit(b, x, site)

    def _load(self, site: Site) -> Value:
        """What C holds where a vector goes."""
        b = self.b
        if site.step is not None:
            steps = b.mul(b.sequence("i64", self.lanes), b.splat(site.step, self.lanes))
            mask = site.mask or b.constant(vector("i1", self.lanes), 1)
            at = b.offset(site.c, steps, self.structure.dtype)
            return b.gather(self.kind, at, mask)
        if site.mask is not None:
            return b.masked_load(self.kind, site.c, site.mask)
        return b.load(self.kind, site.c)
