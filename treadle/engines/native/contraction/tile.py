"""The register tile: h rows by v vectors of C, summed over k in registers.

One machine function holds many heights and widths and is chosen into by a switch, so
that no shape asks for new code. A is read by broadcast with any two strides, B by whole
vectors, one row of the panel per step of k.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..builder import Builder, Value, vector
from .host import Host
from .text import Function, join, opaque

__all__ = ["FLAT", "TALL", "rows_of_tile", "tile_function"]

TALL = (1, 2)  # widths in vectors of the panels of tall products
FLAT = (1, 2, 3, 4)  # and of those with few rows
_PARAMETERS = [
    ("a", "ptr"),
    ("row_a", "i64"),
    ("k_a", "i64"),
    ("b", "ptr"),
    ("k_b", "i64"),
    ("k", "i64"),
    ("out", "ptr"),
    ("row_out", "i64"),
    ("again", "i64"),
    ("ahead", "ptr"),
    ("step_ahead", "i64"),
]


def rows_of_tile(host: Host, width: int) -> int:
    """The most rows of a tile `width` vectors wide: its sums fill the registers.

    Left free are the vectors of B and one broadcast element of A.
    """
    held = width if host.registers >= 32 else min(width, 2)
    return min((host.registers - 1 - held) // width, 14)


@lru_cache
def tile_function(host: Host, dtype: str, widths: tuple[int, ...]) -> Function:
    """tile(a, row_a, k_a, b, k_b, k, out, row_out, again, ahead, step_ahead, shape).

    out[i, :] (+)= sum over k of a[i, k] b[k, :]; `again` + 1 asks for the sum with what
    out holds and + 2 to prefetch it; shape is 16 height + width. b and out are read and written in whole vectors.
    Rows cut evenly never make tiles of less than half the height, so the tall function
    leaves those out.
    """
    tallest = rows_of_tile(host, max(widths))
    least = 1 if widths == FLAT else (tallest + 1) // 2
    shapes = [(h, v) for v in widths for h in range(least, tallest + 1)]
    main = Builder("NAME", [*_PARAMETERS, ("shape", "i64")])
    builders = [main]
    given = ", ".join(f"{kind} %{name}" for name, kind in _PARAMETERS)
    cases = " ".join(f"i64 {16 * h + v}, label %s{h}x{v}" for h, v in shapes)
    main.emit(f"switch i64 %shape, label %none [{cases}]")
    for h, v in shapes:
        main.start(f"s{h}x{v}")
        main.emit(f"tail call void @NAME.{h}x{v}({given})")
        main.ret()
        builders.append(_tile(host, dtype, h, v))
    main.start("none")
    main.emit("unreachable")
    return join("tile", builders)


def _tile(host: Host, dtype: str, height: int, width: int) -> Builder:
    """One shape of tile as a function of its own."""
    b = Builder(f"NAME.{height}x{width}", _PARAMETERS, "internal void")
    arg = b.arguments
    kind = vector(dtype, host.lanes(dtype))
    places = _places(b, arg["out"], arg["row_out"], height, width, host.vector)
    ask, ready = b.label("ask"), b.label("ready")
    b.branch_if(b.compare("sgt", arg["again"], b.i64(1)), ask, ready)
    b.start(ask)
    for p in places:
        _prefetch(b, p, 1, 3)
    b.branch(ready)
    b.start(ready)
    zero = Value("zeroinitializer", kind)
    sums = _over_k(b, host, dtype, [zero] * len(places), width)
    load, fresh = b.label("load"), b.label("fresh")
    more = b.and_(arg["again"], b.i64(1))
    b.branch_if(b.compare("eq", more, b.i64(0)), fresh, load)
    b.start(fresh)
    for x, p in zip(sums, places, strict=True):
        b.store(x, p)
    b.ret()
    b.start(load)
    for x, p in zip(sums, places, strict=True):
        b.store(b.fadd(b.load(kind, p), x), p)
    b.ret()
    return b


def _places(
    b: Builder, base: Value, step: Value, height: int, width: int, size: int
) -> list[Value]:
    """The address of every vector of the tile, row after row."""
    found = []
    row = base
    for i in range(height):
        if i:
            row = b.offset(row, step, "i8")
        for j in range(width):
            found.append(b.offset(row, b.i64(j * size), "i8") if j else row)
    return found


def _over_k(
    b: Builder, host: Host, dtype: str, sums: list[Value], width: int
) -> list[Value]:
    """The loop over k, tested at its end and left out for an empty sum."""
    arg = b.arguments
    height = len(sums) // width
    before, loop, end = b.block, b.label("loop"), b.label("end")
    rows, twice = _row_pointers(b, height)
    b.branch_if(b.compare("sgt", arg["k"], b.i64(0)), loop, end)
    b.start(loop)
    carried = [arg["k"], arg["b"], arg["ahead"], *rows, *sums]
    names = [b.define(x.type, "") for x in carried]
    at = len(b.lines) - len(names)
    left, row_b, ahead = names[:3]
    rows_a, inner = names[3 : 3 + len(rows)], names[3 + len(rows) :]
    if len(sums) >= 8 and width > 1:
        _prefetch(b, ahead, 0, 2)
    ys = [
        b.load(sums[0].type, b.offset(row_b, b.i64(j * host.vector), "i8"))
        for j in range(width)
    ]
    after = []
    for i in range(height):
        place = rows_a[i // 3]
        if i % 3:
            place = b.offset(place, arg["row_a"] if i % 3 == 1 else twice, "i8")
        x = b.splat(b.load(dtype, place), host.lanes(dtype))
        for j in range(width):
            after.append(_add_product(b, host, x, ys[j], inner[i * width + j]))
    following = [b.sub(left, b.i64(1)), b.offset(row_b, arg["k_b"], "i8")]
    following += [b.offset(ahead, arg["step_ahead"], "i8")]
    following += [b.offset(p, arg["k_a"], "i8") for p in rows_a]
    _close(b, names, carried, [*following, *after], at, before)
    b.branch_if(b.compare("sgt", following[0], b.i64(0)), loop, end)
    b.start(end)
    return [
        b.define(x.type, f"phi {x.type} [{x.name}, %{before}], [{y.name}, %{loop}]")
        for x, y in zip(sums, after, strict=True)
    ]


def _row_pointers(b: Builder, height: int) -> tuple[list[Value], Value]:
    """A pointer to every third row of A, and twice the row stride.

    They are made opaque: else LLVM walks from row to row by one chain of additions,
    which takes longer than the products of a narrow tile.
    """
    step = b.arguments["row_a"]
    twice = b.shl(step, b.i64(1))
    rows = [b.arguments["a"]]
    for _ in range((height - 1) // 3):
        rows.append(b.offset(b.offset(rows[-1], twice, "i8"), step, "i8"))
    return [rows[0], *(opaque(b, p) for p in rows[1:])], twice


def _prefetch(b: Builder, place: Value, write: int, nearness: int) -> None:
    """Ask for the line of an address, to the first cache (3) or the second (2)."""
    flags = [Value(str(x), "i32") for x in (write, nearness, 1)]
    b.call("llvm.prefetch.p0", "void", [place, *flags])


def _close(
    b: Builder,
    names: Sequence[Value],
    first: Sequence[Value],
    then: Sequence[Value],
    at: int,
    before: str,
) -> None:
    """Write the phi nodes of a loop of one block, whose lines were kept free."""
    for k, (own, x, y) in enumerate(zip(names, first, then, strict=True)):
        pairs = f"[{x.name}, %{before}], [{y.name}, %{b.block}]"
        b.lines[at + k] = f"  {own.name} = phi {own.type} {pairs}"


def _add_product(b: Builder, host: Host, x: Value, y: Value, z: Value) -> Value:
    """x y + z; in two roundings where the machine has no fused instruction."""
    return b.fma(x, y, z) if host.fused else b.fadd(b.fmul(x, y), z)
