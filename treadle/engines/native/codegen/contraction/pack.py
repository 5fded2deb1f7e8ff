"""Copies of blocks of A and B into scratch memory, where tiles read them well.

A panel of B is k rows of a few whole vectors of columns. Lanes past the last column
hold anything: their sums are never stored. What lies in memory as `source` is widened.
"""

from __future__ import annotations

from collections.abc import Sequence

from treadle.engines.native.codegen.builder import Builder, Value, lanes, vector
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.source import (
    load_wide,
    memory_type,
    term_type,
    terms_of,
    widened,
)
from treadle.engines.native.codegen.contraction.text import (
    FunctionText,
    join,
    lanes_below,
    least,
    shuffle,
)
from treadle.engines.native.codegen.contraction.transpose import transpose
from treadle.engines.native.codegen.texts import lasting

_PANEL = [
    ("source", "ptr"),
    ("k_b", "i64"),
    ("column_b", "i64"),
    ("k", "i64"),
    ("columns", "i64"),
    ("panel", "ptr"),
    ("row", "i64"),
    ("piece", "i64"),
    ("step_piece", "i64"),
]  # strides and `row`, the size of a row of the panel, in bytes
LINES = 8  # rows that pieces are copied from at a time
_COPY = [
    ("source", "ptr"),
    ("step", "i64"),
    ("rows", "i64"),
    ("columns", "i64"),
    ("target", "ptr"),
    ("target_step", "i64"),
    ("pieces", "i64"),
    ("step_piece", "i64"),
]


@lasting
def pack_rows(machine: Machine, dtype: str, source: str) -> FunctionText:
    """The panel of a B whose columns are consecutive: rows are copied."""
    b = Builder("NAME", _PANEL)
    arg = b.arguments
    if terms_of(source) > 1:
        names = "source", "k_b", "k", "columns", "panel", "row"
        _zip_rows(b, machine, source, *[arg[name] for name in names])
        return join("pack_rows", [b])
    if machine.crowded:
        many = b.sdiv(arg["columns"], arg["piece"])
        left = b.srem(arg["columns"], arg["piece"])
        some = b.convert("zext", b.compare("sgt", left, b.i64(0)), "i64")
        names = "source", "k_b", "k", "panel", "row", "step_piece"
        parts = (many, arg["piece"]), (some, left)
        _in_pieces(b, machine, (dtype, source), parts, *[arg[name] for name in names])
        return join("pack_rows", [b])
    count = machine.lanes(dtype)
    kind = vector(dtype, count)

    def copy(first: Value, vectors: int, mask: Value | None) -> None:
        start = b.offset(arg["source"], first, memory_type(source))
        panel = b.offset(arg["panel"], first, dtype)
        with b.loop(b.i64(0), arg["k"], b.i64(1), [start, panel]) as over_k:
            x, y = over_k.values
            for j in range(vectors):
                at = b.offset(x, b.i64(j * count), memory_type(source))
                loaded = load_wide(b, kind, at, source, mask)
                b.store(loaded, b.offset(y, b.i64(j), kind))
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


@lasting
def pack_general(machine: Machine, dtype: str, source: str) -> FunctionText:
    """The panel of a B of any strides, element by element."""
    b = Builder("NAME", _PANEL)
    arg = b.arguments
    with b.loop(b.i64(0), arg["k"], b.i64(1), [arg["source"], arg["panel"]]) as over_k:
        x, y = over_k.values
        with b.loop(b.i64(0), arg["columns"], b.i64(1), [x]) as over:
            element = over.values[0]
            to = _column(b, y, over.index, dtype)
            loaded = b.load(memory_type(source), element)
            b.store(widened(b, loaded, source, dtype), to)
            over.next([b.offset(element, arg["column_b"], "i8")])
        over_k.next([b.offset(x, arg["k_b"], "i8"), b.offset(y, arg["row"], "i8")])
    b.ret()
    return join("pack_general", [b])


@lasting
def pack_transposed(machine: Machine, dtype: str, source: str) -> FunctionText:
    """The panel of a B that is consecutive along k: squares are transposed."""
    b = Builder("NAME", _PANEL)
    arg = b.arguments
    count, terms = machine.lanes(dtype), terms_of(source)
    kind, memory = vector(dtype, count), term_type(source)
    whole = b.sub(arg["k"], b.srem(arg["k"], b.i64(count * terms)))
    last = b.sub(arg["columns"], b.i64(1))
    with b.loop(b.i64(0), arg["columns"], b.i64(count)) as over:
        sources = []
        for c in range(count):  # past the end, the last column again
            column = least(b, b.add(over.index, b.i64(c)), last)
            start = b.mul(column, arg["column_b"])
            sources.append(b.offset(arg["source"], start, "i8"))
        panel = _column(b, arg["panel"], over.index, dtype)
        if machine.masks:  # which cost nothing: one copy will do
            whole = b.i64(0)
        else:
            with b.loop(b.i64(0), whole, b.i64(count * terms), [panel]) as over_k:
                places = [b.offset(p, over_k.index, memory) for p in sources]
                to = over_k.values[0]
                for x in transpose(b, [load_wide(b, kind, p, source) for p in places]):
                    b.store(x, to)
                    to = b.offset(to, arg["row"], "i8")
                over_k.next([to])
            panel = over_k.values[0]
        with b.loop(whole, arg["k"], b.i64(count * terms), [panel]) as over_k:
            to = over_k.values[0]
            left = least(b, b.sub(arg["k"], over_k.index), b.i64(count * terms))
            mask = lanes_below(b, left, count * terms)
            places = [b.offset(p, over_k.index, memory) for p in sources]
            rows = [load_wide(b, kind, p, source, mask) for p in places]
            rest = b.sdiv(b.add(left, b.i64(terms - 1)), b.i64(terms))
            _store_some(b, transpose(b, rows), over_k.values[0], rest)
            over_k.next(
                [b.offset(over_k.values[0], b.mul(arg["row"], b.i64(count)), "i8")]
            )
    b.ret()
    return join("pack_transposed", [b])


def _column(b: Builder, panel: Value, index: Value, dtype: str) -> Value:
    """The place of a column in panels of so many."""
    piece, step = (b.arguments[name] for name in ("piece", "step_piece"))
    panel = b.offset(panel, b.mul(b.sdiv(index, piece), step), "i8")
    return b.offset(panel, b.srem(index, piece), dtype)


def _store_some(b: Builder, rows: list[Value], to: Value, count: Value) -> None:
    """Store the first `count` vectors, at least one, a row of the panel apart."""
    done = b.label("done")
    for i, x in enumerate(rows):
        b.store(x, to)
        to = b.offset(to, b.arguments["row"], "i8")
        following = b.label("row")
        b.branch_if(b.compare("sgt", count, b.i64(i + 1)), following, done)
        b.start(following)
    b.branch(done)
    b.start(done)


@lasting
def copy_block(
    machine: Machine, dtype: str, source: str, along_k: bool
) -> FunctionText:
    """copy(source, step, rows, columns, target, target step): consecutive columns.

    Elements of several terms are copied `along_k`, or come from as many rows.
    """
    b = Builder("NAME", _COPY)
    arg = b.arguments
    if terms_of(source) > 1 and not along_k:
        _zip_rows(b, machine, source, *[arg[name] for name, _ in _COPY[:-2]])
        return join("copy_block", [b])
    if machine.crowded and not along_k:
        low = b.sdiv(arg["columns"], arg["pieces"])
        larger = b.srem(arg["columns"], arg["pieces"])
        parts = (larger, b.add(low, b.i64(1))), (b.sub(arg["pieces"], larger), low)
        names = "source", "step", "rows", "target", "target_step", "step_piece"
        _in_pieces(b, machine, (dtype, source), parts, *[arg[name] for name in names])
        return join("copy_block", [b])
    count = machine.lanes(dtype) * terms_of(source)
    kind, memory = vector(dtype, machine.lanes(dtype)), term_type(source)
    wide = dtype if terms_of(source) == 1 else memory
    left = b.srem(arg["columns"], b.i64(count))
    whole = b.sub(arg["columns"], left)
    mask = lanes_below(b, left, count)
    some = b.compare("sgt", left, b.i64(0))
    start = [arg["source"], arg["target"]]
    with b.loop(b.i64(0), arg["rows"], b.i64(1), start) as rows:
        x, y = rows.values
        with b.loop(b.i64(0), whole, b.i64(count)) as over:
            loaded = load_wide(b, kind, b.offset(x, over.index, memory), source)
            b.store(loaded, b.offset(y, over.index, wide))
        with b.when(some):
            loaded = load_wide(b, kind, b.offset(x, whole, memory), source, mask)
            b.store(loaded, b.offset(y, whole, wide))
        further = b.offset(y, arg["target_step"], "i8")
        rows.next([b.offset(x, arg["step"], "i8"), further])
    b.ret()
    return join("copy_block", [b])


def _in_pieces(
    b: Builder,
    machine: Machine,
    types: tuple[str, str],
    parts: Sequence[tuple[Value, Value]],
    start: Value,
    step: Value,
    rows: Value,
    target: Value,
    target_step: Value,
    step_piece: Value,
) -> None:
    """Copy rows of consecutive elements, pieces of which lie `step_piece` apart then:
    so many of one size, so many of another. What lies behind a piece is written over.

    A few rows at a time: else each store is on a page of its own.
    """
    dtype, source = types
    count, memory = machine.lanes(dtype), memory_type(source)
    kind = vector(dtype, count)

    def copy(x: Value, y: Value, lines: Value, mask: Value | None) -> None:
        """A vector of some rows."""
        with b.loop(b.i64(0), lines, b.i64(1), [x, y]) as down:
            x, y = down.values
            b.store(load_wide(b, kind, x, source, mask), y)
            down.next([b.offset(x, step, "i8"), b.offset(y, target_step, "i8")])

    masks = [lanes_below(b, b.srem(x, b.i64(count)), count) for _, x in parts]
    with b.loop(b.i64(0), rows, b.i64(LINES), [start, target]) as over:
        lines = least(b, b.sub(rows, over.index), b.i64(LINES))
        places = over.values
        for (pieces, size), mask in zip(parts, masks, strict=True):
            left = b.srem(size, b.i64(count))
            whole = b.sub(size, left)
            some = b.compare("sgt", left, b.i64(0))
            with b.loop(b.i64(0), pieces, b.i64(1), places) as each:
                x, y = each.values
                with b.when(some):
                    at = b.offset(x, whole, memory), b.offset(y, whole, dtype)
                    copy(*at, lines, mask)
                with b.loop(b.i64(0), whole, b.i64(count)) as along:
                    at = (
                        b.offset(x, along.index, memory),
                        b.offset(y, along.index, dtype),
                    )
                    copy(*at, lines, None)
                each.next([b.offset(x, size, memory), b.offset(y, step_piece, "i8")])
            places = each.values
        moved = zip(over.values, (step, target_step), strict=True)
        over.next([b.offset(p, b.mul(s, b.i64(LINES)), "i8") for p, s in moved])
    b.ret()


def _zip_rows(
    b: Builder,
    machine: Machine,
    source: str,
    start: Value,
    step: Value,
    rows: Value,
    columns: Value,
    target: Value,
    target_step: Value,
) -> None:
    """Write rows with consecutive columns so that as many as an element has terms are
    one row of elements; rows past the last are 0.
    """
    group, term = terms_of(source), term_type(source)
    count = machine.lanes(memory_type(source))
    kind = vector(term, count)
    left = b.srem(columns, b.i64(count))
    edge = lanes_below(b, left, count)
    none = Value("zeroinitializer", f"<{count} x i1>")
    rest = b.srem(rows, b.i64(group))
    full = b.sub(rows, rest)

    def zipped(place: Value, to: Value, rows: Value | None, mask: Value | None) -> None:
        """One vector: of all rows of a group, or of the first ones."""
        parts = []
        for i in range(group):
            some = mask
            if rows is not None:
                exists = b.compare("slt", b.i64(i), rows)
                whole = mask or Value("splat (i1 true)", none.type)
                some = b.select(exists, whole, none)
            parts.append(b.masked_load(kind, place, some))
            place = b.offset(place, step, "i8")
        while len(parts) > 1:  # the term of row i at i, as its bits are swapped
            half = len(parts) // 2
            pairs = zip(parts[:half], parts[half:], strict=True)
            parts = [_interleaved(b, *pair) for pair in pairs]
        b.store(parts[0], to)

    def line(place: Value, to: Value, rows: Value | None) -> None:
        with b.loop(b.i64(0), b.sub(columns, left), b.i64(count)) as over:
            at = b.offset(place, over.index, term)
            zipped(at, b.offset(to, over.index, f"[{group} x {term}]"), rows, None)
        with b.when(b.compare("sgt", left, b.i64(0))):
            last = b.sub(columns, left)
            at = b.offset(place, last, term)
            zipped(at, b.offset(to, last, f"[{group} x {term}]"), rows, edge)

    with b.loop(b.i64(0), full, b.i64(group), [start, target]) as over:
        place, to = over.values
        line(place, to, None)
        below = b.offset(place, b.mul(step, b.i64(group)), "i8")
        over.next([below, b.offset(to, target_step, "i8")])
    with b.when(b.compare("sgt", rest, b.i64(0))):
        place, to = over.values
        line(place, to, rest)
    b.ret()


def _interleaved(b: Builder, x: Value, y: Value) -> Value:
    """The lanes of two vectors in turn."""
    count = lanes(x.type)
    return shuffle(b, x, y, lambda k: k // 2 + k % 2 * count, 2 * count)
