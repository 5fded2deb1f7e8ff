"""The register tile: h rows by v vectors of C, summed over k in registers.

Each height and width is a part of one machine function, compiled where it is needed. A
is read by broadcast with any two strides, B by whole vectors, one row of the panel per
step of k.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.engines.native.codegen.builder import (
    Builder,
    Value,
    element,
    lanes,
    vector,
)
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.source import (
    load_wide,
    size_of,
    terms_of,
)
from treadle.engines.native.codegen.contraction.text import (
    FunctionText,
    apart,
    lanes_below,
    least,
    part_text,
    prefetch,
    table_name,
)
from treadle.engines.native.codegen.texts import lasting

TERMS = 128  # of a sum in registers; longer ones are sums of such sums
TALL = (1, 2)  # widths in vectors of the panels of tall products
LOW = 3  # and where their rows are those of lower tiles
FLAT = (1, 2, 3, 4)  # and of those with few rows
WIDEST = 16  # so that one number tells height and width
PARAMETERS = [
    ("a", "ptr"),
    ("row_a", "i64"),
    ("k_a", "i64"),
    ("b", "ptr"),
    ("k_b", "i64"),
    ("column_b", "i64"),
    ("k", "i64"),
    ("out", "ptr"),
    ("row_out", "i64"),
    ("again", "i64"),
    ("ahead", "ptr"),
    ("step_ahead", "i64"),
    ("height", "i64"),
    ("columns", "i64"),
]


def rows_of_tile(machine: Machine, width: int) -> int:
    """The most rows of a tile `width` vectors wide: its sums fill the registers.

    Left free are the vectors of B and one broadcast element of A.
    """
    operands = width if machine.registers >= 32 else min(width, 2)
    return min((machine.registers - 1 - operands) // width, 14)


@lasting
def tile_function(machine: Machine, dtype: str, source: str) -> FunctionText:
    """out[i, :] (+)= sum over k of a[i, k] b[k, :] for i < height, with PARAMETERS.

    `again` asks for the sum with what out holds. The lines at ahead + i step_ahead,
    i < k, are prefetched into the second cache by all but the smallest tiles. Columns
    of b and out lie side by side; where the machine has masks none past the last is
    touched, elsewhere whole vectors are read and written. b lies in memory as `source`.
    """
    table = table_name("tile", machine, dtype, source)
    return apart("tile", PARAMETERS, lambda b: _shape(b, machine, dtype), table)


def _shape(b: Builder, machine: Machine, dtype: str) -> Value:
    """The number of the part for a tile: its height, and its width in vectors."""
    count = machine.lanes(dtype)
    wide = b.add(b.arguments["columns"], b.i64(count - 1))
    height = b.mul(b.arguments["height"], b.i64(WIDEST))
    return b.add(height, b.sdiv(wide, b.i64(count)))


@lasting
def tile_part(
    machine: Machine, dtype: str, source: str, height: int, width: int
) -> FunctionText:
    """The part of `tile_function` for tiles so many rows high and vectors wide."""
    table = table_name("tile", machine, dtype, source)
    b = _tile(machine, dtype, height, width, source)
    return part_text("tile", b, table, WIDEST * height + width)


def _tile(
    machine: Machine, dtype: str, height: int, width: int, source: str
) -> Builder:
    """One shape of tile, as a function of its own."""
    b = Builder("NAME", PARAMETERS)
    arg = b.arguments
    count = machine.lanes(dtype)
    masks: list[Value | None] = [None] * width
    if machine.masks:
        edge = b.sub(arg["columns"], b.i64((width - 1) * count))
        masks[-1] = lanes_below(b, edge, count)
    sums = _in_blocks(b, machine, (dtype, source), height, masks)
    places = _places(b, arg["out"], arg["row_out"], height, width, machine.vector)
    is_fresh = b.compare("eq", arg["again"], b.i64(0))
    sums = _plus(b, is_fresh, sums, places, masks * height)
    for x, p, mask in zip(sums, places, masks * height, strict=True):
        b.masked_store(x, p, mask)
    b.ret()
    return b


def _in_blocks(
    b: Builder,
    machine: Machine,
    types: tuple[str, str],
    height: int,
    masks: Sequence[Value | None],
) -> list[Value]:
    """The sums over k: of blocks of TERMS, added up in memory of its own."""
    arg, group = b.arguments, terms_of(types[1])
    kind = vector(types[0], machine.lanes(types[0]))
    zeros = [Value("zeroinitializer", kind)] * (height * len(masks))
    total = arg["k"]
    if group > 1:
        total = b.sdiv(b.add(total, b.i64(group - 1)), b.i64(group))
    space = f"alloca [{len(zeros)} x {kind}], align {machine.vector}"
    kept = b.define("ptr", space)
    places = [b.offset(kept, b.i64(i), kind) for i in range(len(zeros))]
    rows, twice = row_pointers(b, arg["a"], height)
    before, blocks, more, end = b.block, *map(b.label, ("blocks", "more", "end"))
    b.branch_if(b.compare("sgt", total, b.i64(0)), blocks, end)
    b.start(blocks)
    first = [total, arg["b"], arg["ahead"], *rows]
    names = [b.define(x.type, "") for x in first]
    at = len(b.lines) - len(names)
    terms = least(b, names[0], b.i64(TERMS))
    pointers, sums = _over_k(b, machine, types, masks, terms, names[1:], zeros, twice)
    is_first = b.compare("eq", names[0], total)
    sums = _plus(b, is_first, sums, places, [None] * len(sums))
    last, left = b.block, b.sub(names[0], b.i64(TERMS))
    b.branch_if(b.compare("sgt", left, b.i64(0)), more, end)
    b.start(more)
    for x, place in zip(sums, places, strict=True):
        b.store(x, place)
    close_loop(b, names, first, [left, *pointers], at, before)
    b.branch(blocks)
    b.start(end)
    return [
        b.define(x.type, f"phi {x.type} [{x.name}, %{before}], [{y.name}, %{last}]")
        for x, y in zip(zeros, sums, strict=True)
    ]


def _plus(
    b: Builder,
    alone: Value,
    sums: list[Value],
    places: Sequence[Value],
    masks: Sequence[Value | None],
) -> list[Value]:
    """The sums with what lies at some places, if they are not `alone`."""
    before, add, end = b.block, b.label("add"), b.label("end")
    b.branch_if(alone, end, add)
    b.start(add)
    whole = [
        b.plus(b.masked_load(x.type, p, mask), x)
        for x, p, mask in zip(sums, places, masks, strict=True)
    ]
    b.branch(end)
    b.start(end)
    return [
        b.define(x.type, f"phi {x.type} [{x.name}, %{before}], [{y.name}, %{add}]")
        for x, y in zip(sums, whole, strict=True)
    ]


def _places(
    b: Builder, base: Value, step: Value, height: int, width: int, size: int
) -> list[Value]:
    """The address of every vector of the tile, row after row."""
    places = []
    row = base
    for i in range(height):
        if i:
            row = b.offset(row, step, "i8")
        for j in range(width):
            places.append(b.offset(row, b.i64(j * size), "i8") if j else row)
    return places


def _over_k(
    b: Builder,
    machine: Machine,
    types: tuple[str, str],
    masks: Sequence[Value | None],
    terms: Value,
    pointers: Sequence[Value],
    sums: Sequence[Value],
    twice: Value,
) -> tuple[list[Value], list[Value]]:
    """The pointers and the sums after some terms, in a loop tested at its end."""
    arg, (dtype, source) = b.arguments, types
    kind, step = sums[0].type, machine.lanes(dtype) * size_of(source)
    width = len(masks)
    height = len(sums) // width
    before, loop = b.block, b.label("loop")
    b.branch(loop)
    b.start(loop)
    carried = [terms, *pointers, *sums]
    names = [b.define(x.type, "") for x in carried]
    at = len(b.lines) - len(names)
    left, row_b, ahead = names[:3]
    rows_a, after = names[3 : 1 + len(pointers)], names[1 + len(pointers) :]
    if len(sums) >= 8 and width > 1:
        prefetch(b, ahead, 2)

    def left_of(i: int) -> Value:
        place = rows_a[i // 3]
        if i % 3:
            place = b.offset(place, arg["row_a"] if i % 3 == 1 else twice, "i8")
        return b.splat(b.load(dtype, place), machine.lanes(dtype))

    def right_of(j: int) -> Value:
        mask = masks[j] if terms_of(source) == 1 else None
        return load_wide(b, kind, b.offset(row_b, b.i64(j * step), "i8"), source, mask)

    # All of one operand are in registers, and one of the other at a time.
    by_columns = len(sums) + width >= machine.registers
    outer, inner = (width, height) if by_columns else (height, width)
    one, other = (right_of, left_of) if by_columns else (left_of, right_of)
    held = [other(k) for k in range(inner)]
    for k in range(outer):
        x = one(k)
        for each, y in enumerate(held):
            i, j = (each, k) if by_columns else (k, each)
            pair = (y, x) if by_columns else (x, y)
            z = after[i * width + j]
            after[i * width + j] = add_product(b, machine, *pair, z, source)
    steps = ["k_b", "step_ahead", *["k_a"] * len(rows_a)]
    moved = zip(names[1:], steps, strict=False)
    following = [b.opaque(b.offset(p, arg[step], "i8")) for p, step in moved]
    left = b.sub(left, b.i64(1))
    close_loop(b, names, carried, [left, *following, *after], at, before)
    done = b.label("done")
    b.branch_if(b.compare("sgt", left, b.i64(0)), loop, done)
    b.start(done)
    return following, after


def row_pointers(b: Builder, a: Value, height: int) -> tuple[list[Value], Value]:
    """A pointer to every third row of A, which begins at `a`, and twice its stride.

    They are made opaque: else LLVM walks from row to row by one chain of additions,
    which takes longer than the products of a narrow tile.
    """
    step = b.arguments["row_a"]
    twice = b.shl(step, b.i64(1))
    rows = [a]
    for _ in range((height - 1) // 3):
        rows.append(b.offset(b.offset(rows[-1], twice, "i8"), step, "i8"))
    return [rows[0], *(b.opaque(p) for p in rows[1:])], twice


def close_loop(
    b: Builder,
    names: Sequence[Value],
    first: Sequence[Value],
    then: Sequence[Value],
    at: int,
    before: str,
) -> None:
    """Write the phi nodes of a loop of one block, whose lines were kept free."""
    for k, (phi, x, y) in enumerate(zip(names, first, then, strict=True)):
        pairs = f"[{x.name}, %{before}], [{y.name}, %{b.block}]"
        b.lines[at + k] = f"  {phi.name} = phi {phi.type} {pairs}"


def add_product(
    b: Builder, machine: Machine, x: Value, y: Value, z: Value, source: str = ""
) -> Value:
    """x y + z, of a y that lies in memory as `source`; in two roundings where the
    machine has no fused instruction, and of bytes by fours with the unsigned first."""
    if source == "bfloat x 2":
        halves = [b.bitcast(v, vector("bfloat", 2 * lanes(v.type))) for v in (x, y)]
        sums = b.call("llvm.x86.avx512bf16.dpbf16ps.512", z.type, (z, *halves))
        assert sums is not None
        return sums
    if source.endswith(" x 4"):
        pair = (y, x) if source[0] == "u" else (x, y)
        sums = b.call("llvm.x86.avx512.vpdpbusd.512", z.type, (z, *pair))
        assert sums is not None
        return sums
    fused = machine.fused and element(z.type) != "i32"
    return b.fma(x, y, z) if fused else b.plus(b.times(x, y), z)
