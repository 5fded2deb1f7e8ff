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
    end_in,
    join,
    lanes_below,
    least,
    part_in,
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
    ("kept", "ptr"),
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
    b, table = Builder("NAME", PARAMETERS), table_name("tile", machine, dtype, source)
    several, once = b.label("several"), b.label("once")
    terms = b.i64(TERMS * terms_of(source))
    b.branch_if(b.compare("sgt", b.arguments["k"], terms), several, once)
    b.start(several)
    end_in(b, Value("@NAME.blocks", "ptr"))
    b.start(once)
    _, width = _shape(b, machine, dtype)
    end_in(b, _part(b, table, width))
    return join("tile", [b, _in_blocks(machine, dtype, source, table)])


def _shape(b: Builder, machine: Machine, dtype: str) -> tuple[Value, Value]:
    """The height of a tile, and its width in vectors."""
    count = machine.lanes(dtype)
    wide = b.add(b.arguments["columns"], b.i64(count - 1))
    return b.arguments["height"], b.sdiv(wide, b.i64(count))


def _part(b: Builder, table: str, width: Value) -> Value:
    """The part for so many vectors."""
    index = b.add(b.mul(b.arguments["height"], b.i64(WIDEST)), width)
    return part_in(b, table, index)


def _in_blocks(machine: Machine, dtype: str, source: str, table: str) -> Builder:
    """The sums of blocks of TERMS, added up in memory of its own."""
    b = Builder("NAME.blocks", PARAMETERS, "internal void")
    arg, zero = (
        b.arguments,
        Value("zeroinitializer", vector(dtype, machine.lanes(dtype))),
    )
    height, width = _shape(b, machine, dtype)
    part = _part(b, table, width)
    most = max(v * rows_of_tile(machine, v) for v in FLAT)
    kept = b.define("ptr", f"alloca [{most} x {zero.type}], align {machine.vector}")
    with b.loop(b.i64(0), b.mul(height, width), b.i64(1)) as over:
        b.store(zero, b.offset(kept, over.index, zero.type))
    row, terms = b.mul(width, b.i64(machine.vector)), b.i64(TERMS * terms_of(source))
    steps = [b.mul(arg[x], b.i64(TERMS)) for x in ("k_a", "k_b", "step_ahead")]
    carried = [arg[x] for x in ("a", "b", "ahead")]
    with b.loop(b.i64(0), arg["k"], terms, carried) as blocks:
        left = b.sub(arg["k"], blocks.index)
        last = b.compare("sle", left, terms)
        own = dict(zip(("a", "b", "ahead"), blocks.values, strict=True))
        own |= {"k": least(b, left, terms), "kept": kept}
        own["out"] = b.select(last, arg["out"], kept)
        own["row_out"] = b.select(last, arg["row_out"], row)
        own["again"] = b.select(last, arg["again"], b.i64(0))
        listed = ", ".join(str(own.get(name, x)) for name, x in arg.items())
        b.emit(f"call void {part.name}({listed})")
        pairs = zip(blocks.values, steps, strict=True)
        blocks.next([b.offset(p, step, "i8") for p, step in pairs])
    b.ret()
    return b


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
    """One shape of tile, for at most TERMS, as a function of its own: what is `kept` of
    others is added."""
    b = Builder("NAME", PARAMETERS)
    arg = b.arguments
    count = machine.lanes(dtype)
    kind = vector(dtype, count)
    masks: list[Value | None] = [None] * width
    if machine.masks:
        edge = b.sub(arg["columns"], b.i64((width - 1) * count))
        masks[-1] = lanes_below(b, edge, count)
    sums = _over_k(b, machine, (dtype, source), kind, height, masks)
    is_first = b.compare("eq", arg["kept"], Value("null", "ptr"))
    kept = [b.offset(arg["kept"], b.i64(i), kind) for i in range(len(sums))]
    sums = _plus(b, is_first, sums, kept, [None] * len(sums))
    places = _places(b, arg["out"], arg["row_out"], height, width, machine.vector)
    is_fresh = b.compare("eq", arg["again"], b.i64(0))
    sums = _plus(b, is_fresh, sums, places, masks * height)
    for x, p, mask in zip(sums, places, masks * height, strict=True):
        b.masked_store(x, p, mask)
    b.ret()
    return b


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
    sources: tuple[str, str],
    kind: str,
    height: int,
    masks: Sequence[Value | None],
) -> list[Value]:
    """The sums over k, in a loop tested at its end and left out for an empty sum."""
    arg, (dtype, source) = b.arguments, sources
    group = terms_of(source)  # of several in a panel, of whole vectors
    step = machine.lanes(dtype) * size_of(source)
    width = len(masks)
    terms, sums = arg["k"], [Value("zeroinitializer", kind)] * (height * width)
    if group > 1:
        terms = b.sdiv(b.add(terms, b.i64(group - 1)), b.i64(group))
    rows, twice = row_pointers(b, arg["a"], height)
    before, loop, end = b.block, b.label("loop"), b.label("end")
    b.branch_if(b.compare("sgt", terms, b.i64(0)), loop, end)
    b.start(loop)
    carried = [terms, arg["b"], arg["ahead"], *rows, *sums]
    names = [b.define(x.type, "") for x in carried]
    at = len(b.lines) - len(names)
    left, row_b, ahead = names[:3]
    rows_a, inner = names[3 : 3 + len(rows)], names[3 + len(rows) :]
    if len(sums) >= 8 and width > 1:
        prefetch(b, ahead, 2)
    ys = [
        load_wide(b, kind, b.offset(row_b, b.i64(j * step), "i8"), source, mask)
        for j, mask in enumerate(masks if group == 1 else [None] * width)
    ]
    after = []
    for i in range(height):
        place = rows_a[i // 3]
        if i % 3:
            place = b.offset(place, arg["row_a"] if i % 3 == 1 else twice, "i8")
        x = b.splat(b.load(dtype, place), machine.lanes(dtype))
        for j in range(width):
            z = inner[i * width + j]
            after.append(add_product(b, machine, x, ys[j], z, source))
    steps = [(row_b, "k_b"), (ahead, "step_ahead"), *((p, "k_a") for p in rows_a)]
    following = [b.opaque(b.offset(p, arg[step], "i8")) for p, step in steps]
    following = [b.sub(left, b.i64(1)), *following]
    close_loop(b, names, carried, [*following, *after], at, before)
    b.branch_if(b.compare("sgt", following[0], b.i64(0)), loop, end)
    b.start(end)
    return [
        b.define(x.type, f"phi {x.type} [{x.name}, %{before}], [{y.name}, %{loop}]")
        for x, y in zip(sums, after, strict=True)
    ]


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
