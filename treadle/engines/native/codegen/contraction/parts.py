"""The functions that multiply tiles, and which of their parts a product needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treadle.engines.native.codegen.contraction.dot import (
    dot_function,
    dot_part,
)
from treadle.engines.native.codegen.contraction.kernel import FIELDS, FUNCTIONS
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.row import row_function
from treadle.engines.native.codegen.contraction.text import table_name
from treadle.engines.native.codegen.contraction.tile import (
    FLAT,
    WIDEST,
    rows_of_tile,
    tile_function,
    tile_part,
)
from treadle.engines.native.codegen.texts import FunctionText

_NAMES = ("m", "n", "blocks_m", "block_n", "tile_m", "tile_n")
# Where they stand, counted from the function.
_PLACES = [len(FUNCTIONS) + FIELDS.index(name) for name in _NAMES]


class TileParts(NamedTuple):
    """The parts of functions for some `kinds` of tiles; of B in memory tiles read it as
    `read`."""

    machine: Machine
    dtype: str
    sources: tuple[str, str]
    read: str
    kinds: tuple[str, ...]

    @property
    def span(self) -> int:
        """How many arguments tell of them, from the function on."""
        return 1 + max(_PLACES)

    def functions(self) -> tuple[FunctionText, ...]:
        """The function of each kind."""
        return tuple(map(self._function, self.kinds))

    def _function(self, kind: str) -> FunctionText:
        if kind == "dot":
            return dot_function(self.machine, self.dtype, self.sources)
        if kind == "row":
            return row_function(self.machine, self.dtype, self.sources[1])
        return tile_function(self.machine, self.dtype, self.read)

    def of(self, fields: Mapping[str, int]) -> list[FunctionText]:
        """The parts that a product needs, by the integers of its kernel; there is one
        kind."""
        sizes = [fields[name] for name in _NAMES]
        return [self.part(0, index) for index in self._needed(self.kinds[0], sizes)]

    def table(self, number: int) -> str:
        """The name of the table that the parts of a kind are in."""
        if self.kinds[number] == "dot":
            return table_name("dot", self.machine, self.dtype, self.sources)
        return table_name("tile", self.machine, self.dtype, self.read)

    def needed(self, number: int, following: Sequence[int]) -> list[int]:
        """The parts that a product needs, by what stands from the function on."""
        return self._needed(self.kinds[number], [following[k] for k in _PLACES])

    def _needed(self, kind: str, sizes: Sequence[int]) -> list[int]:
        m, n, blocks_m, block_n, tile_m, tile_n = sizes
        if kind == "row" or not m or not n:
            return []
        heights = self._heights(kind, m, blocks_m, tile_m)
        if kind == "dot":
            return heights
        lanes = self.machine.lanes(self.dtype)
        widths = set()
        for columns in (min(n, block_n), (n - 1) % block_n + 1):
            left = columns % tile_n
            if columns >= tile_n:
                widths.add(tile_n // lanes)
            if left:
                widths.add(-(-left // lanes))
        return [WIDEST * h + v for h in heights for v in sorted(widths)]

    def _heights(self, kind: str, m: int, blocks_m: int, tile_m: int) -> list[int]:
        """How many rows tiles have, and those of fewer rows: a number of rows never
        seen compiles nothing. None are lower than they ever get."""
        flat = rows_of_tile(self.machine, FLAT[-1])  # fewer rows are so
        lowest = min(flat + 1, (tile_m + 1) // 2) if kind == "tall" else 1
        blocks = {m // blocks_m, -(-m // blocks_m)} - {0}
        tiles = [(rows, -(-rows // tile_m)) for rows in blocks]
        heights = {h for rows, k in tiles for h in (rows // k, -(-rows // k))}
        return sorted(heights.union(range(lowest, min(m, tile_m) + 1)))

    def part(self, number: int, index: int) -> FunctionText:
        """One part of the function of a kind."""
        if self.kinds[number] == "dot":
            return dot_part(self.machine, self.dtype, self.sources, index)
        return tile_part(self.machine, self.dtype, self.read, *divmod(index, WIDEST))
