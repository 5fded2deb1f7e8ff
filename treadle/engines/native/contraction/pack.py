"""Copies of blocks of A and B into scratch memory, where tiles read them well.

A panel of B is k rows of a few whole vectors of columns, lanes past the last column
holding anything finite or not: their sums are never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ..builder import Builder, Value, lanes, vector
from .host import Host
from .text import Function, join

__all__ = ["copy_block", "pack_general", "pack_rows", "pack_transposed", "transpose"]

_PANEL = [
    ("source", "ptr"),
    ("k_b", "i64"),
    ("column_b", "i64"),
    ("k", "i64"),
    ("columns", "i64"),
    ("panel", "ptr"),
    ("row", "i64"),
]  # strides and `row`, the size of a row of the panel, in bytes


@lru_cache
def pack_rows(host: Host, dtype: str) -> Function:
    """The panel of a B whose columns are consecutive: rows are copied."""
    b = Builder("NAME", _PANEL)
    arg = b.arguments
    count = host.lanes(dtype)
    kind = vector(dtype, count)

    def copy(first: Value, vectors: int, mask: Value | None) -> None:
        shift = b.mul(first, b.i64(host.vector // count))
        source, panel = (b.offset(arg[p], shift, "i8") for p in ("source", "panel"))
        with b.loop(b.i64(0), arg["k"], b.i64(1), [source, panel]) as over_k:
            x, y = over_k.values
            for j in range(vectors):
                at = b.offset(x, b.i64(j), kind)
                held = b.masked_load(kind, at, mask) if mask else b.load(kind, at)
                b.store(held, b.offset(y, b.i64(j), kind))
            over_k.next([b.offset(x, arg["k_b"], "i8"), b.offset(y, arg["row"], "i8")])

    one, two = b.i64(count), b.i64(2 * count)
    pairs = b.sub(arg["columns"], b.srem(arg["columns"], two))
    whole = b.sub(arg["columns"], b.srem(arg["columns"], one))
    with b.loop(b.i64(0), pairs, two) as over:
        copy(over.index, 2, None)
    with b.loop(pairs, whole, one) as over:
        copy(over.index, 1, None)
    with b.loop(whole, arg["columns"], one) as over:
        copy(over.index, 1, lanes_below(b, b.sub(arg["columns"], over.index), count))
    b.ret()
    return join("pack_rows", [b])


@lru_cache
def pack_general(host: Host, dtype: str) -> Function:
    """The panel of a B of any strides, element by element."""
    b = Builder("NAME", _PANEL)
    arg = b.arguments
    size = 4 if dtype == "float" else 8
    with b.loop(b.i64(0), arg["k"], b.i64(1), [arg["source"], arg["panel"]]) as over_k:
        x, y = over_k.values
        with b.loop(b.i64(0), arg["columns"], b.i64(1), [x, y]) as over:
            own, to = over.values
            b.store(b.load(dtype, own), to)
            over.next(
                [b.offset(own, arg["column_b"], "i8"), b.offset(to, b.i64(size), "i8")]
            )
        over_k.next([b.offset(x, arg["k_b"], "i8"), b.offset(y, arg["row"], "i8")])
    b.ret()
    return join("pack_general", [b])


@lru_cache
def pack_transposed(host: Host, dtype: str) -> Function:
    """The panel of a B that is consecutive along k: squares are transposed."""
    b = Builder("NAME", _PANEL)
    arg = b.arguments
    count = host.lanes(dtype)
    size = host.vector // count
    kind = vector(dtype, count)
    whole = b.sub(arg["k"], b.srem(arg["k"], b.i64(count)))
    last = b.sub(arg["columns"], b.i64(1))

    def square(
        sources: list[Value], k: Value, panel: Value, mask: Value | None
    ) -> list[Value]:
        at = [b.offset(p, b.mul(k, b.i64(size)), "i8") for p in sources]
        rows = [b.masked_load(kind, p, mask) if mask else b.load(kind, p) for p in at]
        return transpose(b, rows)

    with b.loop(b.i64(0), arg["columns"], b.i64(count)) as over:
        sources = []
        for c in range(count):
            column = b.add(over.index, b.i64(c))
            column = b.select(b.compare("slt", column, last), column, last)
            sources.append(
                b.offset(arg["source"], b.mul(column, arg["column_b"]), "i8")
            )
        panel = b.offset(arg["panel"], b.mul(over.index, b.i64(size)), "i8")
        with b.loop(b.i64(0), whole, b.i64(count), [panel]) as over_k:
            to = over_k.values[0]
            for x in square(sources, over_k.index, to, None):
                b.store(x, to)
                to = b.offset(to, arg["row"], "i8")
            over_k.next([to])
        left = b.sub(arg["k"], whole)
        with b.when(b.compare("sgt", left, b.i64(0))):
            to = over_k.values[0]
            done = b.label("done")
            for c, x in enumerate(
                square(sources, whole, to, lanes_below(b, left, count))
            ):
                b.store(x, to)
                to = b.offset(to, arg["row"], "i8")
                following = b.label("row")
                b.branch_if(b.compare("sgt", left, b.i64(c + 1)), following, done)
                b.start(following)
            b.branch(done)
            b.start(done)
    b.ret()
    return join("pack_transposed", [b])


@lru_cache
def copy_block(host: Host, dtype: str) -> Function:
    """copy(source, step, rows, columns, target, target step): consecutive columns."""
    b = Builder(
        "NAME",
        [
            ("source", "ptr"),
            ("step", "i64"),
            ("rows", "i64"),
            ("columns", "i64"),
            ("target", "ptr"),
            ("target_step", "i64"),
        ],
    )
    arg = b.arguments
    count = host.lanes(dtype)
    size = host.vector // count
    kind = vector(dtype, count)
    whole = b.sub(arg["columns"], b.srem(arg["columns"], b.i64(count)))
    left = b.sub(arg["columns"], whole)
    mask = lanes_below(b, left, count)
    some = b.compare("sgt", left, b.i64(0))
    with b.loop(
        b.i64(0), arg["rows"], b.i64(1), [arg["source"], arg["target"]]
    ) as rows:
        x, y = rows.values
        with b.loop(b.i64(0), whole, b.i64(count)) as over:
            shift = b.mul(over.index, b.i64(size))
            b.store(b.load(kind, b.offset(x, shift, "i8")), b.offset(y, shift, "i8"))
        with b.when(some):
            shift = b.mul(whole, b.i64(size))
            held = b.masked_load(kind, b.offset(x, shift, "i8"), mask)
            b.store(held, b.offset(y, shift, "i8"))
        rows.next([b.offset(x, arg["step"], "i8"), b.offset(y, arg["target_step"], "i8")])
    b.ret()
    return join("copy_block", [b])


def lanes_below(b: Builder, bound: Value, count: int) -> Value:
    """The mask of `count` lanes that is true below a bound."""
    edge = b.splat(b.convert("trunc", bound, "i32"), count)
    return b.compare("slt", b.sequence("i32", count), edge)


def transpose(b: Builder, rows: list[Value]) -> list[Value]:
    """The columns of a square of vectors, by shuffles of pairs.

    First squares inside lanes of 16 bytes are transposed, then the lanes as elements:
    both kinds of shuffle are single instructions on x86 and plain zips elsewhere.
    """
    kind = rows[0].type
    count = lanes(kind)
    inner = min(count, 4 if "float" in kind else 2)

    def mix(x: Value, y: Value, pick: Callable[[int], int]) -> Value:
        """Lane l of the result is lane pick(l) of x and y side by side."""
        body = ", ".join(f"i32 {pick(lane)}" for lane in range(count))
        return b.define(
            kind, f"shufflevector {x}, {y}, <{count} x i32> <{body}>"
        )

    def zipped(x: Value, y: Value, unit: int, half: int) -> Value:
        """Units of the low or high half of every 16 bytes of x and y in turn."""

        def pick(lane: int) -> int:
            base, place = lane - lane % inner, lane % inner
            turn, within = divmod(place, unit)
            own = base + half * (inner // 2) + (turn // 2) * unit + within
            return own + count * (turn % 2)

        return mix(x, y, pick)

    unit = 1
    while unit < inner:
        turned = list(rows)
        for i in range(count):
            if i % (2 * unit) < unit:
                x, y = rows[i], rows[i + unit]
                turned[i], turned[i + unit] = (
                    zipped(x, y, unit, half) for half in (0, 1)
                )
        rows = turned
        unit *= 2
    order = [0, 2, 1, 3] if inner == 4 else list(range(inner))
    rows = [rows[i - i % inner + order[i % inner]] for i in range(count)]
    blocks = count // inner
    unit = 1
    while unit < blocks:  # rows[g inner + c] has column l inner + c in its lane l
        turned = list(rows)
        for g in range(blocks):
            if g % (2 * unit) < unit:
                for c in range(inner):
                    x, y = rows[g * inner + c], rows[(g + unit) * inner + c]

                    def low(lane: int, unit: int = unit) -> int:
                        block, within = divmod(lane, inner)
                        turn = block // unit
                        own = (block - unit if turn % 2 else block) * inner + within
                        return own + count * (turn % 2)

                    def high(lane: int, unit: int = unit) -> int:
                        block, within = divmod(lane, inner)
                        turn = block // unit
                        own = (block if turn % 2 else block + unit) * inner + within
                        return own + count * (turn % 2)

                    turned[g * inner + c] = mix(x, y, low)
                    turned[(g + unit) * inner + c] = mix(x, y, high)
        rows = turned
        unit *= 2
    return rows
