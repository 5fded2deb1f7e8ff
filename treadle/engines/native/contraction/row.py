"""One row times a B with adjacent columns, some rows of which stream by at a time.

The sums lie in `out`, which stays in the first cache: few long streams are what the
processor foresees.
"""

from __future__ import annotations

from treadle.engines.native.builder import Builder, Value, vector
from treadle.engines.native.contraction.machine import Machine
from treadle.engines.native.contraction.source import load_wide, memory_type
from treadle.engines.native.contraction.text import Function, join, lanes_below
from treadle.engines.native.contraction.tile import PARAMETERS, add_product
from treadle.engines.native.texts import lasting

__all__ = ["ROW_COLUMNS", "row_function"]

ROW_COLUMNS = 1024  # of a panel: its sums shall stay in the first cache
STREAMS = 8  # rows of B that are read together
CHAINS = 2  # sums of a vector that do not wait for each other


@lasting
def row_function(machine: Machine, dtype: str, source: str) -> Function:
    """out[j] (+)= sum over k of a[k] b[k, j], with the parameters of a tile of one row.

    b lies in memory as `source`. Where the machine has no masks, columns are whole
    vectors.
    """
    b = Builder("NAME", PARAMETERS)
    arg = b.arguments
    tile = _Row(b, machine, dtype, source)
    with b.when(b.compare("eq", arg["again"], b.i64(0))):
        tile.clear()
    several = b.sub(arg["k"], b.srem(arg["k"], b.i64(STREAMS)))
    ranges = [(b.i64(0), several, STREAMS), (several, arg["k"], 1)]
    for start, stop, count in ranges:
        with b.loop(start, stop, b.i64(count)) as over:
            tile.add(over.index, count)
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

    def clear(self) -> None:
        """out = 0"""
        b, zero = self.b, Value("zeroinitializer", self.kind)
        with b.loop(b.i64(0), self.whole, b.i64(self.count)) as along:
            b.store(zero, self._out(along.index))
        if self.mask is not None:
            with b.when(self.some):
                b.masked_store(zero, self._out(self.whole), self.mask)

    def add(self, k: Value, count: int) -> None:
        """Add the products of `count` rows of b from row k on."""
        b, arg = self.b, self.b.arguments
        a = b.offset(arg["a"], b.mul(k, arg["k_a"]), "i8")
        row = b.offset(arg["b"], b.mul(k, arg["k_b"]), "i8")
        pairs = []
        for _ in range(count):
            pairs.append((b.splat(b.load(self.dtype, a), self.count), row))
            a, row = b.offset(a, arg["k_a"], "i8"), b.offset(row, arg["k_b"], "i8")
        with b.loop(b.i64(0), self.whole, b.i64(self.count)) as along:
            y = b.load(self.kind, self._out(along.index))
            b.store(self._sum(pairs, y, along.index, None), self._out(along.index))
        if self.mask is not None:
            with b.when(self.some):
                y = b.masked_load(self.kind, self._out(self.whole), self.mask)
                y = self._sum(pairs, y, self.whole, self.mask)
                b.masked_store(y, self._out(self.whole), self.mask)

    def _out(self, column: Value) -> Value:
        return self.b.offset(self.b.arguments["out"], column, self.dtype)

    def _sum(
        self,
        pairs: list[tuple[Value, Value]],
        y: Value,
        column: Value,
        mask: Value | None,
    ) -> Value:
        """y and the products of one vector of columns."""
        b = self.b
        sums: list[Value] = [y]
        for i, (x, row) in enumerate(pairs):
            place = b.offset(row, column, memory_type(self.source))
            z = load_wide(b, self.kind, place, self.source, mask)
            if i and i < CHAINS:
                sums.append(b.fmul(x, z))
            else:
                own = i % CHAINS
                sums[own] = add_product(b, self.machine, x, z, sums[own])
        while len(sums) > 1:
            sums = [b.fadd(*sums[:2]), *sums[2:]]
        return sums[0]
