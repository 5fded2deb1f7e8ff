"""One row times a B with adjacent columns, some rows of which stream by at a time.

The sums lie in `out`, which stays in the first cache: few long streams are what the
processor foresees.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.engines.native.codegen.builder import Builder, Value, vector
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.source import load_wide, memory_type
from treadle.engines.native.codegen.contraction.text import (
    FunctionText,
    join,
    lanes_below,
    least,
)
from treadle.engines.native.codegen.contraction.tile import (
    PARAMETERS,
    TERMS,
    add_product,
)
from treadle.engines.native.codegen.texts import lasting

ROW_COLUMNS = 1024  # of a panel: its sums shall stay in the first cache
STREAMS = 8  # rows of B that are read together
CHAINS = 2  # sums of a vector that do not wait for each other


@lasting
def row_function(machine: Machine, dtype: str, source: str) -> FunctionText:
    """out[j] (+)= sum over k of a[k] b[k, j], with the parameters of a tile of one row.

    b lies in memory as `source`. Where the machine has no masks, columns are whole
    vectors.
    """
    b = Builder("NAME", PARAMETERS)
    arg = b.arguments
    tile = _Row(b, machine, dtype, source)
    with b.when(b.compare("eq", arg["again"], b.i64(0))):
        tile.clear()
    long = b.compare("sgt", arg["k"], b.i64(TERMS * STREAMS))
    buffer = b.define(
        "ptr", f"alloca [{ROW_COLUMNS} x {dtype}], align {machine.vector}"
    )
    tile.out = b.select(long, buffer, arg["out"])
    with b.loop(b.i64(0), arg["k"], b.i64(TERMS * STREAMS)) as blocks:
        with b.when(long):
            tile.clear()
        end = b.add(blocks.index, b.i64(TERMS * STREAMS))
        end = least(b, end, arg["k"])
        length = b.sub(end, blocks.index)
        several = b.sub(end, b.srem(length, b.i64(STREAMS)))
        for start, stop, count in ((blocks.index, several, STREAMS), (several, end, 1)):
            with b.loop(start, stop, b.i64(count)) as over:
                tile.add(over.index, count)
        with b.when(long):
            tile.put(buffer)
    b.ret()
    return join("row", [b])


class _Row:
    """The function under construction: what is done for all vectors of columns."""

    def __init__(self, b: Builder, machine: Machine, dtype: str, source: str) -> None:
        self.b, self.machine, self.dtype, self.source = b, machine, dtype, source
        self.count = machine.lanes(dtype)
        self.kind = vector(dtype, self.count)
        columns = b.arguments["columns"]
        left = b.srem(columns, b.i64(self.count))
        self.whole = b.sub(columns, left)
        self.some = b.compare("sgt", left, b.i64(0))
        self.mask = lanes_below(b, left, self.count) if machine.masks else None
        self.out = b.arguments["out"]

    def each(self, do: Callable[[Value, Value | None], None]) -> None:
        """Do something for each vector of columns: where it begins, and its mask."""
        b = self.b
        with b.loop(b.i64(0), self.whole, b.i64(self.count)) as along:
            do(along.index, None)
        if self.mask is not None:
            with b.when(self.some):
                do(self.whole, self.mask)

    def clear(self) -> None:
        """out = 0"""
        zero = Value("zeroinitializer", self.kind)
        self.each(lambda at, mask: self._store(zero, self.out, at, mask))

    def put(self, buffer: Value) -> None:
        """Add what is held to the result."""
        b, out = self.b, self.b.arguments["out"]

        def do(at: Value, mask: Value | None) -> None:
            x, y = (self._load(place, at, mask) for place in (out, buffer))
            self._store(b.plus(x, y), out, at, mask)

        self.each(do)

    def add(self, k: Value, count: int) -> None:
        """Add the products of `count` rows of b from row k on."""
        b, arg = self.b, self.b.arguments
        a = b.offset(arg["a"], b.mul(k, arg["k_a"]), "i8")
        row = b.offset(arg["b"], b.mul(k, arg["k_b"]), "i8")
        pairs = []
        for _ in range(count):
            pairs.append((b.splat(b.load(self.dtype, a), self.count), row))
            a, row = b.offset(a, arg["k_a"], "i8"), b.offset(row, arg["k_b"], "i8")

        def do(at: Value, mask: Value | None) -> None:
            y = self._sum(pairs, self._load(self.out, at, mask), at, mask)
            self._store(y, self.out, at, mask)

        self.each(do)

    def _load(self, base: Value, at: Value, mask: Value | None) -> Value:
        place = self.b.offset(base, at, self.dtype)
        return self.b.masked_load(self.kind, place, mask)

    def _store(self, x: Value, base: Value, at: Value, mask: Value | None) -> None:
        place = self.b.offset(base, at, self.dtype)
        self.b.masked_store(x, place, mask)

    def _sum(
        self,
        pairs: list[tuple[Value, Value]],
        y: Value,
        column: Value,
        mask: Value | None,
    ) -> Value:
        """y and the products of one vector of columns."""
        b = self.b
        sums: list[Value] = [y] if len(pairs) == 1 else []
        for i, (x, row) in enumerate(pairs):
            place = b.offset(row, column, memory_type(self.source))
            z = load_wide(b, self.kind, place, self.source, mask)
            if len(sums) < min(CHAINS, len(pairs)):
                sums.append(b.times(x, z))
            else:
                chain = i % CHAINS
                sums[chain] = add_product(
                    b, self.machine, x, z, sums[chain], self.source
                )
        while len(sums) > 1:
            sums = [b.plus(*sums[:2]), *sums[2:]]
        return sums[0] if len(pairs) == 1 else b.plus(y, sums[0])
