"""Products of matrices and convolutions, in tiles that a work group sums.

A group sums one tile of the result. All its items copy a piece of each operand to
memory that they share, and each sums rows times columns of these in registers: terms in
order, 128 of them by fused operations, such sums then added up, as the CPU's tiles do.
A convolution is the product of its weights with patches of images, which are read
where they lie. What finishes a product runs on its elements in registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from treadle.base.caches import lazy
from treadle.base.dtypes import DType
from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.gpu.emit import ItemEmitter
from treadle.engines.gpu.grid import Grid, slots_of, wide_integers
from treadle.engines.gpu.operands import (
    FORMS,
    Operands,
    SumForm,
    buffers_of,
    numbers_of,
    split,
)
from treadle.engines.gpu.work import Slot, Work
from treadle.engines.native.codegen.builder import LoopBuilder, Value
from treadle.engines.native.codegen.elementary.terms import Term
from treadle.engines.native.codegen.elements import compute_type
from treadle.loops.kernel import Kernel, KernelArgument, Load, Loop
from treadle.program.program import Product

TERMS = 128  # of a sum in registers; longer ones are sums of such sums


class Tile(NamedTuple):
    """Rows, columns and terms that a group holds, and the rows and columns of an item.

    An item has every so many rows and columns, so that neighbors write side by side.
    """

    m: int
    n: int
    k: int
    rows: int
    columns: int

    @property
    def items(self) -> int:
        return self.m // self.rows * (self.n // self.columns)


SMALL = Tile(32, 32, 16, 4, 4)
LARGE = Tile(64, 64, 16, 4, 4)
FLAT = Tile(4, 64, 16, 1, 4)  # of few rows
TALL = Tile(64, 4, 16, 4, 1)  # of few columns


def tile_for(m: int, n: int) -> Tile:
    """The tile for so many rows and columns."""
    if m <= 8 < n:
        return FLAT
    if n <= 8 < m:
        return TALL
    return LARGE if min(m, n) >= 256 else SMALL


@dataclass(frozen=True)
class TiledProduct:
    """A product, or a convolution by what it `computes`, in tiles.

    along: of each operand whether its terms lie side by side, or else rows or columns;
    finish: the kernel that is done on the result, its buffer number `product_buffer`.
    """

    computes: str
    dtype: DType
    kinds: tuple[DType, DType]
    along: tuple[bool, bool]
    tile: Tile
    fields: tuple[str, ...]
    finish: Kernel | None
    product_buffer: int

    @property
    def form(self) -> SumForm:
        return FORMS[self.computes]

    def buffer(self, side: int) -> int:
        """The number of the buffer that is read by rows (0) or columns (1)."""
        return buffers_of(self.form).index(self.form.reads[side])

    @lazy
    def slots(self) -> tuple[Slot, ...]:
        product_slots = tuple((k, "i64") for k in range(len(self.fields)))
        if self.finish is None:
            return product_slots
        last = self.finish.integers  # the steps of a grid, which a product has not
        moved = [(k, kind) for k, kind in slots_of(self.finish) if k != last]
        return (*product_slots, *[(k + len(product_slots), kind) for k, kind in moved])


def product_of(step: Product) -> tuple[Work, tuple[int, ...], int, tuple[int, ...]]:
    """A product as work, with its integers, its groups and its buffers."""
    computes, numbers = numbers_of(step)
    batch, m, n, k = (
        math.prod([numbers[x] for x in names]) for names in FORMS[computes][:4]
    )
    tile = tile_for(m, n)
    tiles = -(-m // tile.m), -(-n // tile.n)
    total = batch * math.prod(tiles)
    numbers |= {"m": m, "n": n, "k": k}
    numbers |= {"tiles_m": tiles[0], "tiles_n": tiles[1], "total": total}
    along = True, False
    if computes == "product":
        along = numbers["a2"] == 1, numbers["b1"] == 1 != numbers["b2"]
    finish = step.finish
    if finish is None:
        written: tuple[KernelArgument, ...] = (KernelArgument(step.dtype, True),)
        rest = step.written
    else:
        arguments = list(finish.kernel.arguments)
        del arguments[step.product_buffer]
        written, rest = tuple(arguments), finish.buffers
    product = TiledProduct(
        computes,
        step.dtype,
        step.kinds,
        along,
        tile,
        tuple(numbers),
        replace(finish.kernel, name="") if finish else None,
        step.product_buffer,
    )
    work = Work(
        product,
        lambda b: _Writer(product, b).write(),
        (*map(KernelArgument, step.kinds), *written),
        product.slots,
        tile.items,
        f"product_{finish.kernel.name}" if finish else "product",
        wide=finish is not None and wide_integers(finish.kernel),
    )
    integers = (*numbers.values(), *(finish.integers if finish else ()))
    return work, integers, total, (*step.operands, *rest)


class _Writer:
    """One product that is being written."""

    def __init__(self, work: TiledProduct, b: DeviceBuilder) -> None:
        self.work, self.b = work, b
        self.tile = work.tile
        self.kind = compute_type(work.dtype)
        self.numbers = {
            name: Term(b, b.slot(k, "i64")) for k, name in enumerate(work.fields)
        }
        self.group = Term(b, b.group())
        self.item = Term(b, b.item())

    def write(self) -> None:
        b, tile, n = self.b, self.tile, self.numbers
        b.only((self.group < n["total"]).value)
        rest, column = split(self.group, n["tiles_n"])
        batch, row = split(rest, n["tiles_m"])
        self.row, self.column = row * tile.m, column * tile.n
        self.operands = Operands(self.work.form, batch, n)
        self.down, self.right = split(self.item, tile.n // tile.columns)
        self._finish(self._sums())

    # -- sums --------------------------------------------------------------------------

    def _sums(self) -> list[Value]:
        """The elements of the item: sums of sums of 128 terms."""
        b, tile = self.b, self.tile
        count = tile.rows * tile.columns
        zero = b.constant(self.kind, 0)
        self.shared = [b.shared(self.kind, size * tile.k) for size in (tile.m, tile.n)]
        k, start, step = self.numbers["k"].value, b.i64(0), b.i64(TERMS)
        with b.loop(start, k, step, [zero] * count) as blocks:
            block = Term(b, blocks.index)
            stop = b.intrinsic("smin", (block + TERMS).value, k)
            with b.loop(blocks.index, stop, b.i64(tile.k), [zero] * count) as pieces:
                piece = Term(b, pieces.index)
                self._copy(0, tile.m, self.row, piece, self.numbers["m"])
                self._copy(1, tile.n, self.column, piece, self.numbers["n"])
                b.barrier()
                pieces.next(self._multiplied(pieces))
                b.barrier()
            pairs = zip(blocks.values, pieces.values, strict=True)
            blocks.next([b.fadd(x, y) for x, y in pairs])
        return blocks.values

    def _copy(self, side: int, size: int, first: Term, k: Term, end: Term) -> None:
        """A piece of an operand, to memory that the group shares."""
        b, tile = self.b, self.tile
        depth, items = tile.k, tile.items
        every = size * depth
        start, step = self.item.value, b.i64(items)
        with b.loop(start, b.i64(every), step) as turn:  # unrolled by those who gain
            place = Term(b, turn.index)
            if self.work.along[side]:
                row, term = split(place, depth)
            else:
                term, row = split(place, size)
            at, there = first + row, k + term
            inside = (at < end) & (there < self.numbers["k"])
            element = self.operands.element(side, at, there)
            number = self.work.buffer(side)
            x = element.read(b.buffer(number), self.work.kinds[number], inside)
            target = (term * size + row).value
            b.store(x, b.offset(self.shared[side], target, self.kind))

    def _multiplied(self, pieces: LoopBuilder) -> list[Value]:
        """The sums of the item with the terms of a piece added."""
        b, tile = self.b, self.tile
        start, stop, step = b.i64(0), b.i64(tile.k), b.i64(1)
        with b.loop(start, stop, step, pieces.values) as terms:
            term = Term(b, terms.index)
            sides = []
            for side, size, held, first in (
                (0, tile.m, tile.rows, self.down),
                (1, tile.n, tile.columns, self.right),
            ):
                base, apart = term * size + first, size // held
                places = [(base + r * apart).value for r in range(held)]
                there = self.shared[side]
                sides.append(
                    [b.load(self.kind, b.offset(there, p, self.kind)) for p in places]
                )
            pairs = [(x, y) for x in sides[0] for y in sides[1]]
            sums = zip(pairs, terms.values, strict=True)
            terms.next([b.fma(x, y, total) for (x, y), total in sums])
        return terms.values

    # -- what becomes of them ----------------------------------------------------------

    def _finish(self, sums: Sequence[Value]) -> None:
        b, tile, kind = self.b, self.tile, self.kind
        apart = tile.m // tile.rows, tile.n // tile.columns
        if self.work.finish is None:
            for k, x in enumerate(sums):
                r, c = divmod(k, tile.columns)
                row = self.row + self.down + r * apart[0]
                column = self.column + self.right + c * apart[1]
                self._element(row, column, x)
            return
        held = b.private(kind, len(sums))
        for k, x in enumerate(sums):
            b.store(x, b.offset(held, b.i64(k), kind))
        with b.loop(b.i64(0), b.i64(len(sums)), b.i64(1)) as turn:
            r_, c_ = split(Term(b, turn.index), tile.columns)
            row = self.row + self.down + r_ * apart[0]
            column = self.column + self.right + c_ * apart[1]
            self._element(row, column, b.load(kind, b.offset(held, turn.index, kind)))

    def _element(self, row: Term, column: Term, x: Value) -> None:
        """One finished element, if it is one of the result."""
        b, n = self.b, self.numbers
        with b.when(((row < n["m"]) & (column < n["n"])).value):
            if self.work.finish is not None:
                batch, m, c = self.operands.result(row, column)
                at = batch.value, m.value, c.value
                _Finish(self.work, b, x, at).write_body()
                return
            place = self.operands.place(row, column)
            b.store(x, b.offset(b.buffer(2), place.value, self.kind))


class _Finish(ItemEmitter):
    """The body of a kernel for one element of a product."""

    def __init__(
        self,
        work: TiledProduct,
        b: DeviceBuilder,
        result: Value,
        at: tuple[Value, Value, Value],
    ) -> None:
        assert work.finish is not None
        self.result, self.at, self.product = result, at, work
        grid = Grid("items", (), (), work.tile.items)
        super().__init__(work.finish, grid, work.slots, b)

    def _read_arguments(self) -> None:
        b, product_buffer = self.b, self.product.product_buffer
        count = len(self.kernel.arguments)
        numbers = iter(range(2, count + 1))
        self.buffers = [
            b.buffer(2) if k == product_buffer else b.buffer(next(numbers))
            for k in range(count)
        ]

    def slot(self, place: int, kind: str = "i64") -> Value:
        return super().slot(place + len(self.product.fields), kind)

    def load(self, x: Load) -> Value:
        return (
            self.result if x.buffer == self.product.product_buffer else super().load(x)
        )

    def write_body(self) -> None:
        body: Any = self.kernel.body
        self.scopes.append({})
        for index in self.at:
            (loop,) = body
            assert isinstance(loop, Loop)
            self.bind(loop.axis, index)
            body = loop.body
        self.run(body)
        self.scopes.pop()
