"""Sums along the vectors: tiles for few rows of A and a B consecutive along k.

Such a B is read once, in place, a vector of k at a time for several columns. Each sum
is a vector of partial sums until the end, when the lanes are added in halves.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.engines.native.codegen.builder import LINE, Builder, Value, vector
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.source import (
    load_wide,
    size_of,
    term_type,
    terms_of,
)
from treadle.engines.native.codegen.contraction.text import (
    FunctionText,
    apart,
    lanes_below,
    least,
    part_text,
    prefetch,
    shuffle,
    table_name,
)
from treadle.engines.native.codegen.contraction.tile import (
    PARAMETERS,
    TERMS,
    add_product,
)
from treadle.engines.native.codegen.texts import lasting

Sources = tuple[str, str]
Loop = tuple[Value, Value, Callable[[Value, list[Value]], list[Value]]]

DOT_ROWS = 4
LONG = 4  # vectors of one line that are taken at once
ALONE = 2  # rows: with so few, floats are read as fast without being fetched
_COLUMNS = {32: (8, 8, 8, 4), 16: (4, 4, 2, 2)}  # together, by registers and rows - 1


@lasting
def dot_function(machine: Machine, dtype: str, sources: Sources) -> FunctionText:
    """out[i, j] (+)= sum over k of a[i, k] b[j, k], with the parameters of a tile.

    a and b are consecutive along k and lie in memory as `sources`, columns of b lie
    column_b apart and those of out side by side. The next columns may be fetched into
    the second cache.
    """
    table = table_name("dot", machine, dtype, sources)
    return apart("dot", PARAMETERS, lambda b: b.arguments["height"], table)


@lasting
def dot_part(
    machine: Machine, dtype: str, sources: Sources, height: int
) -> FunctionText:
    """The part of `dot_function` for so many rows."""
    table = table_name("dot", machine, dtype, sources)
    return part_text("dot", _rows(machine, dtype, height, sources), table, height)


def _rows(machine: Machine, dtype: str, height: int, sources: Sources) -> Builder:
    """All columns for so many rows: in groups, then one by one."""
    b = Builder("NAME", PARAMETERS)
    arg = b.arguments
    together = min(_COLUMNS[machine.registers][height - 1], machine.lanes(dtype))
    count = machine.lanes(dtype) * terms_of(sources[1])
    mask = lanes_below(b, b.srem(arg["k"], b.i64(count)), count)
    whole = b.sub(arg["columns"], b.srem(arg["columns"], b.i64(together)))
    ranges = [(b.i64(0), whole, together), (whole, arg["columns"], 1)]
    for start, stop, width in ranges:
        with b.loop(start, stop, b.i64(width)) as over:
            tile = height, width
            sums = _group(b, machine, dtype, tile, sources, over.index, mask)
            row = b.offset(arg["out"], over.index, dtype)
            for i in range(height):
                x = _reduce(b, sums[i * width : (i + 1) * width], width)
                _put(b, x, row)
                row = b.offset(row, arg["row_out"], "i8")
    b.ret()
    return b


def _group(
    b: Builder,
    machine: Machine,
    dtype: str,
    tile: tuple[int, int],
    sources: Sources,
    column: Value,
    mask: Value,
) -> list[Value]:
    """The vectors of partial sums of some columns, row after row."""
    arg, (height, width) = b.arguments, tile
    kind = vector(dtype, machine.lanes(dtype))
    count = machine.lanes(dtype) * terms_of(sources[1])
    rows, columns = [arg["a"]], [_step(b, arg["b"], column, arg["column_b"])]
    for _ in range(height - 1):
        rows.append(b.offset(rows[-1], arg["row_a"], "i8"))
    for _ in range(width - 1):
        columns.append(b.offset(columns[-1], arg["column_b"], "i8"))

    def add(k: Value, sums: list[Value], mask: Value | None) -> list[Value]:
        operands = [
            load_wide(b, kind, b.offset(p, k, term_type(source)), source, mask)
            for pointers, source in zip((rows, columns), sources, strict=True)
            for p in pointers
        ]
        places = [(i, j) for i in range(height) for j in range(width)]
        pairs = [(operands[i], operands[height + j]) for i, j in places]
        return [
            add_product(b, machine, *pair, z, sources[1])
            for pair, z in zip(pairs, sums, strict=True)
        ]

    left = b.srem(arg["k"], b.i64(count))
    whole = b.sub(arg["k"], left)
    zeros = [Value("zeroinitializer", kind)] * (height * width)
    source = sources[1]
    size = size_of(source) // terms_of(source)
    several = min(max(LINE // (count * size), 1), LONG)
    line = b.i64(several * count)
    lines = b.sub(arg["k"], b.srem(arg["k"], line))
    ahead = b.mul(b.i64(width), arg["column_b"])

    def fetched(k: Value, totals: list[Value]) -> list[Value]:
        for p in columns:
            place = b.offset(p, k, term_type(source))
            prefetch(b, b.offset(place, ahead, "i8"), 2)
        for i in range(several):
            totals = add(b.add(k, b.i64(i * count)), totals, None)
        return totals

    loops: list[Loop] = [(whole, b.i64(count), lambda k, sums: add(k, sums, None))]
    if source != dtype or height > ALONE:
        loops.insert(0, (lines, line, fetched))
    # What is summed up by itself does not hang on how elements lie in memory.
    sums = _in_blocks(b, b.i64(TERMS // LONG * LONG * count), whole, zeros, loops)
    return _last(b, left, sums, lambda totals: add(whole, totals, mask))


def _in_blocks(
    b: Builder, block: Value, whole: Value, zeros: list[Value], loops: list[Loop]
) -> list[Value]:
    """The sums over blocks of so many terms, each by one loop after the other: where
    a loop stops at most, its step, and what it adds.
    """
    with b.loop(b.i64(0), whole, block, zeros) as blocks:
        begin, end = blocks.index, least(b, b.add(blocks.index, block), whole)
        totals = zeros
        for last, step, add in loops:
            stop = least(b, end, last)
            with b.loop(begin, stop, step, totals) as over:
                over.next(add(over.index, over.values))
            begin, totals = stop, over.values
        pairs = zip(blocks.values, totals, strict=True)
        blocks.next([b.plus(x, y) for x, y in pairs])
    return blocks.values


def _last(
    b: Builder,
    left: Value,
    sums: list[Value],
    add: Callable[[list[Value]], list[Value]],
) -> list[Value]:
    """The sums with the terms of a last vector that is not full, if there are some."""
    before, some, end = b.block, b.label("some"), b.label("end")
    b.branch_if(b.compare("sgt", left, b.i64(0)), some, end)
    b.start(some)
    last = add(sums)
    after = b.block
    b.branch(end)
    b.start(end)
    return [
        b.define(x.type, f"phi {x.type} [{x.name}, %{before}], [{y.name}, %{after}]")
        for x, y in zip(sums, last, strict=True)
    ]


def _step(b: Builder, base: Value, index: Value, stride: Value) -> Value:
    return b.offset(base, b.mul(index, stride), "i8")


def _reduce(b: Builder, vectors: list[Value], width: int) -> Value:
    """One vector of the sums over the lanes of each of `width` vectors.

    Halves of lanes are added, and two vectors of halves become one, until one vector
    holds a part for each; then its parts are halved.
    """
    length = int(vectors[0].type[1:].split()[0])  # lanes of a part
    total = length
    while length > 1:
        half = length // 2

        def low(lane: int, half: int = half) -> int:
            return lane // half * 2 * half + lane % half

        def high(lane: int, half: int = half) -> int:
            return low(lane, half) + half

        if len(vectors) > 1:
            pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
        else:
            pairs = [(vectors[0], vectors[0])]
            total //= 2
        vectors = [
            b.plus(shuffle(b, x, y, low, total), shuffle(b, x, y, high, total))
            for x, y in pairs
        ]
        length = half
    return vectors[0]


def _put(b: Builder, x: Value, place: Value) -> None:
    """Store sums, or what is there plus them."""
    load, store = b.label("load"), b.label("store")
    before = b.block
    b.branch_if(b.compare("eq", b.arguments["again"], b.i64(0)), store, load)
    b.start(load)
    y = b.plus(b.load(x.type, place), x)
    b.branch(store)
    b.start(store)
    b.store(
        b.define(x.type, f"phi {x.type} [{x.name}, %{before}], [{y.name}, %{load}]"),
        place,
    )
