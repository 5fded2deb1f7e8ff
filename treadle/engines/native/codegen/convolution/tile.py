"""The register tile over runs: sums over a list of places, not over one stretch of k.

A convolution's sum is one over taps, each a stretch of channels, and its gradient's is
one over rows of pixels. The sums stay in registers from the first run to the last.
"""

from __future__ import annotations

from treadle.engines.native.codegen.builder import Builder, Value, vector
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.text import (
    FunctionText,
    prefetch,
    switched,
)
from treadle.engines.native.codegen.contraction.tile import (
    FLAT,
    TALL,
    add_product,
    close_loop,
    row_pointers,
    rows_of_tile,
)
from treadle.engines.native.codegen.texts import lasting

RUN = 3  # i64 of a run: where a begins, where b begins, both in bytes, and k
_PARAMETERS = [
    ("a", "ptr"),
    ("row_a", "i64"),
    ("k_a", "i64"),
    ("b", "ptr"),
    ("k_b", "i64"),
    ("table", "ptr"),
    ("runs", "i64"),
    ("out", "ptr"),
    ("row_out", "i64"),
    ("again", "i64"),
    ("ahead", "ptr"),
    ("step_ahead", "i64"),
    ("height", "i64"),
    ("width", "i64"),
]


def heights(machine: Machine, widths: tuple[int, ...]) -> range:
    """The heights of tiles there are; rows cut evenly need no smaller ones."""
    tallest = rows_of_tile(machine, max(widths))
    return range(1 if widths == FLAT else (tallest + 1) // 2, tallest + 1)


@lasting
def tile_function(
    machine: Machine, dtype: str, flat: bool, lanes: bool = False
) -> FunctionText:
    """out[i, :] (+)= sum over runs and k of a[i, k] b[k, :] for i < height.

    With `lanes` a too is a vector: out[i, :] (+)= the sum of a[i, k, :] b[k, :].
    Strides are in bytes, k of a run is positive, `width` counts whole vectors.
    `again` asks for the sum with what out holds.
    """
    widths = FLAT if flat else TALL
    shapes = [(h, v) for v in widths for h in heights(machine, widths)]

    def shape(b: Builder) -> Value:
        return b.add(b.mul(b.arguments["height"], b.i64(16)), b.arguments["width"])

    parts = {16 * h + v: _Tile(machine, dtype, h, v, lanes).build() for h, v in shapes}
    return switched("runs", _PARAMETERS, shape, parts)


class _Tile:
    """One shape of tile as a function of its own."""

    def __init__(
        self, machine: Machine, dtype: str, height: int, width: int, wide: bool
    ) -> None:
        self.machine = machine
        self.wide = wide  # a is read by vectors
        self.dtype = dtype
        self.height = height
        self.width = width
        self.lanes = machine.lanes(dtype)
        self.kind = vector(dtype, self.lanes)
        self.b = Builder(f"NAME.{height}x{width}", _PARAMETERS, "internal void")

    def build(self) -> Builder:
        b, arg = self.b, self.b.arguments
        sums = self._over_runs()
        load, fresh = b.label("load"), b.label("fresh")
        b.branch_if(b.compare("eq", arg["again"], b.i64(0)), fresh, load)
        for adds in (False, True):
            b.start(load if adds else fresh)
            row = arg["out"]
            for i in range(self.height):
                for j in range(self.width):
                    at = self._vector(row, j)
                    x = sums[i * self.width + j]
                    b.store(b.fadd(b.load(self.kind, at), x) if adds else x, at)
                row = b.offset(row, arg["row_out"], "i8")
            b.ret()
        return b

    def _vector(self, place: Value, j: int) -> Value:
        b = self.b
        return b.offset(place, b.i64(j * self.machine.vector), "i8") if j else place

    def _over_runs(self) -> list[Value]:
        """The loop over runs, around that over k."""
        b, arg = self.b, self.b.arguments
        count = self.height * self.width
        zeros = [Value("zeroinitializer", self.kind)] * count
        before, loop, end = b.block, b.label("runs"), b.label("end")
        b.branch_if(b.compare("sgt", arg["runs"], b.i64(0)), loop, end)
        b.start(loop)
        first = [arg["runs"], arg["table"], arg["ahead"], *zeros]
        names, at = self._phis(first)
        left, table, ahead, sums = names[0], names[1], names[2], names[3:]
        a, other, k = (
            b.load("i64", b.offset(table, b.i64(i), "i64")) for i in range(RUN)
        )
        pointers = b.offset(arg["a"], a, "i8"), b.offset(arg["b"], other, "i8")
        ahead, *after = self._over_k(*pointers, k, ahead, sums)
        then = [
            b.sub(left, b.i64(1)),
            b.offset(table, b.i64(RUN), "i64"),
            ahead,
            *after,
        ]
        close_loop(b, names, first, then, at, before)
        b.branch_if(b.compare("sgt", then[0], b.i64(0)), loop, end)
        last = b.block
        b.start(end)
        return [
            b.define(x.type, f"phi {x.type} [{x.name}, %{before}], [{y.name}, %{last}]")
            for x, y in zip(zeros, after, strict=True)
        ]

    def _over_k(
        self, a: Value, row_b: Value, k: Value, ahead: Value, sums: list[Value]
    ) -> list[Value]:
        """One run: a loop of one block, left at its end."""
        b, arg = self.b, self.b.arguments
        rows, twice = row_pointers(b, a, self.height)
        before, loop, end = b.block, b.label("loop"), b.label("end")
        b.branch(loop)
        b.start(loop)
        first = [k, row_b, ahead, *rows, *sums]
        names, at = self._phis(first)
        left, place_b, line = names[:3]
        rows_a, inner = names[3 : 3 + len(rows)], names[3 + len(rows) :]
        if len(sums) >= 8:
            prefetch(b, line, 2)
        ys = [b.load(self.kind, self._vector(place_b, j)) for j in range(self.width)]
        after: list[Value] = []
        for i in range(self.height):
            place = rows_a[i // 3]
            if i % 3:
                place = b.offset(place, arg["row_a"] if i % 3 == 1 else twice, "i8")
            for x, y in zip(self._a(place), ys, strict=True):
                z = inner[len(after)]
                after.append(add_product(b, self.machine, x, y, z))
        then = [b.sub(left, b.i64(1)), b.offset(place_b, arg["k_b"], "i8")]
        then.append(b.offset(line, arg["step_ahead"], "i8"))
        then += [b.offset(p, arg["k_a"], "i8") for p in rows_a]
        close_loop(b, names, first, [*then, *after], at, before)
        b.branch_if(b.compare("sgt", then[0], b.i64(0)), loop, end)
        b.start(end)
        return [then[2], *after]

    def _a(self, place: Value) -> list[Value]:
        """The vectors that a row of b is multiplied with."""
        b = self.b
        if self.wide:
            places = [self._vector(place, j) for j in range(self.width)]
            return [b.load(self.kind, p) for p in places]
        return [b.splat(b.load(self.dtype, place), self.lanes)] * self.width

    # -- phi nodes, written when the end of a loop is known --------------------------

    def _phis(self, first: list[Value]) -> tuple[list[Value], int]:
        names = [self.b.define(x.type, "") for x in first]
        return names, len(self.b.lines) - len(names)
