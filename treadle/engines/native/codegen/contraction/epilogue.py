"""The epilogue of a product: work on a finished vector of C, and on tiles of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from treadle.base.caches import Cache
from treadle.engines.native.codegen.builder import Builder, Value, lanes, vector
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.source import size_of
from treadle.engines.native.codegen.contraction.text import (
    MOST,
    FunctionText,
    join,
    kept,
    lanes_below,
)

_PARAMETERS = [
    ("args", "ptr"),  # the epilogue's pointers and integers
    ("batch", "i64"),
    ("row", "i64"),
    ("column", "i64"),
    ("height", "i64"),
    ("columns", "i64"),
    ("sums", "ptr"),
    ("row_sums", "i64"),
    ("c", "ptr"),
    ("row_c", "i64"),
    ("column_c", "i64"),
]


@dataclass(frozen=True)
class Site:
    """The site of a finished vector of C, and the operands of the epilogue there.

    The vector holds columns `column`, `column` + 1, ... of one row of one batch
    element; `mask` tells the valid lanes, None when all are. `c` points at the first of
    them in C, whose columns lie `step` bytes apart (None when side by side).
    """

    batch: Value
    row: Value
    column: Value
    mask: Value | None
    c: Value
    step: Value | None
    pointers: tuple[Value, ...]
    integers: tuple[Value, ...]


@dataclass(frozen=True)
class Epilogue:
    """Code called once for each finished vector, in place of the store to C.

    `key` names the code: two epilogues of one key must emit the same text. It gets
    `pointers` pointers and `integers` i64 of its own from the kernel's arguments. One
    that `lasts` has a key that names the same code in every process.
    """

    key: str
    emit: Callable[[Builder, Value, Site], None]
    pointers: int = 0
    integers: int = 0
    lasts: bool = False


def store(b: Builder, x: Value, site: Site) -> None:
    """Write a finished vector to C."""
    if site.step is not None:
        b.scatter(x, *_lanes(b, x.type, site))
    else:
        b.masked_store(x, site.c, site.mask)


def read(b: Builder, kind: str, site: Site) -> Value:
    """The vector of type `kind` in C where a finished one goes."""
    if site.step is not None:
        return b.gather(kind, *_lanes(b, kind, site))
    return b.masked_load(kind, site.c, site.mask)


def _lanes(b: Builder, kind: str, site: Site) -> tuple[Value, Value]:
    """The addresses of the lanes in C, and which are valid."""
    assert site.step is not None
    count = lanes(kind)
    steps = b.mul(b.sequence("i64", count), b.splat(site.step, count))
    mask = site.mask or b.constant(vector("i1", count), 1)
    return b.offset(site.c, steps, "i8"), mask


def epilogue_arguments(
    b: Builder, args: Value, pointers: int, integers: int
) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """So many pointers and integers of an epilogue, which lie at `args`."""
    kinds = ["ptr"] * pointers + ["i64"] * integers
    places = [b.offset(args, b.i64(k), "i64") for k in range(len(kinds))]
    values = tuple(b.load(k, at, 8) for k, at in zip(kinds, places, strict=True))
    return values[:pointers], values[pointers:]


@dataclass(frozen=True)
class FinishStructure:
    """All that is compiled into the function that finishes sums."""

    dtype: str
    adjacent: bool  # columns of C lie side by side
    accumulate: bool
    key: str | None  # of the epilogue
    pointers: int = 0
    integers: int = 0


def finish_function(
    machine: Machine, structure: FinishStructure, epilogue: Epilogue | None
) -> FunctionText:
    """Hand the sums of a tile to the epilogue, vector after vector, with _PARAMETERS.

    Texts are kept by the key of the epilogue.
    """
    lasts = epilogue is None or epilogue.lasts
    emit = epilogue.emit if epilogue else store
    return kept(
        _finishes,
        (machine, structure),
        f"finish {machine} {structure}" if lasts else "",
        lambda: join("finish", [_finish(machine, structure, emit)]),
    )


_finishes: Cache[tuple[Machine, FinishStructure], FunctionText]
_finishes = Cache("texts of finished sums", MOST)


def _finish(
    machine: Machine,
    structure: FinishStructure,
    emit: Callable[[Builder, Value, Site], None],
) -> Builder:
    """The function under construction."""
    b = Builder("NAME", _PARAMETERS)
    arg, lanes = b.arguments, machine.lanes(structure.dtype)
    arguments = epilogue_arguments(
        b, arg["args"], structure.pointers, structure.integers
    )
    size = b.i64(size_of(structure.dtype))
    step = size if structure.adjacent else arg["column_c"]
    whole = b.sub(arg["columns"], b.srem(arg["columns"], b.i64(lanes)))

    def finished(row: Value, along: Value, mask: Value | None) -> None:
        sums, c = over.values
        x = b.load(kind, b.offset(sums, along, structure.dtype))
        to = b.offset(c, b.mul(along, step), "i8")
        column = b.add(arg["column"], along)
        apart = None if structure.adjacent else step
        site = Site(arg["batch"], row, column, mask, to, apart, *arguments)
        if structure.accumulate:
            x = b.plus(x, read(b, kind, site))
        emit(b, x, site)

    kind = vector(structure.dtype, lanes)
    with b.loop(b.i64(0), arg["height"], b.i64(1), [arg["sums"], arg["c"]]) as over:
        row = b.add(arg["row"], over.index)
        with b.loop(b.i64(0), whole, b.i64(lanes)) as along:
            finished(row, along.index, None)
        with b.when(b.compare("slt", whole, arg["columns"])):
            mask = lanes_below(b, b.sub(arg["columns"], whole), lanes)
            finished(row, whole, mask)
        sums, c = over.values
        over.next(
            [b.offset(sums, arg["row_sums"], "i8"), b.offset(c, arg["row_c"], "i8")]
        )
    b.ret()
    return b
