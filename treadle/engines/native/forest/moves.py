"""Native code that moves rows: gathers them, and adds them to where they belong.

Each is a function of (arguments, first, last, worker), as steps of programs are.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from treadle.base.dtypes import DType, float32, float64
from treadle.engines.native.codegen.builder import (
    F32,
    F64,
    I1,
    I8,
    I64,
    PTR,
    Builder,
    Value,
    vector,
)
from treadle.engines.native.codegen.jit import compile_functions
from treadle.engines.native.execution.timing import StepNote

GATHER_BYTES = 65_536  # that one part of a gathering step moves at least
ADD_GRAIN = 8_192  # elements that one part of an adding step adds at least
LANES = 16
# By the number of rows: columns that one part of an adding step has at least.
ADD_GRAINS = np.array(
    [ADD_GRAIN, *(-(-ADD_GRAIN // n // 16) * 16 for n in range(1, 513))], np.int64
)

PARAMETERS = [("arguments", PTR), ("first", I64), ("last", I64), ("worker", I64)]


def _begun(name: str, *kinds: str) -> tuple[Builder, list[Value]]:
    """A function under construction, and what its arguments are."""
    b = Builder(f"treadle_{name}", PARAMETERS)
    table = b.arguments["arguments"]
    places = [b.offset(table, b.i64(k), I64) for k in range(len(kinds))]
    return b, [b.load(kind, p, 8) for kind, p in zip(kinds, places, strict=True)]


def _copied(b: Builder, source: Value, target: Value, bytes: Value) -> None:
    arguments = [target, source, bytes, Value("false", I1)]
    b.call("llvm.memcpy.p0.p0.i64", "void", arguments)


def _gather() -> Builder:
    """Of where each row is, where the rows go, bytes of a row."""
    b, (sources, target, bytes) = _begun("gather", PTR, PTR, I64)
    with b.loop(b.arguments["first"], b.arguments["last"], b.i64(1)) as rows:
        source = b.load(PTR, b.offset(sources, rows.index, PTR), 8)
        _copied(b, source, b.offset(target, b.mul(rows.index, bytes), I8), bytes)
    b.ret()
    return b


def _copy() -> Builder:
    """Of source, target, bytes."""
    b, arguments = _begun("copy", PTR, PTR, I64)
    _copied(b, *arguments)
    b.ret()
    return b


def _add(name: str, kind: str, lanes: int) -> Builder:
    """Of where each row belongs, the rows, rows, elements of a row. Work items are
    columns: who has some adds all their rows in order, whoever shares the work."""
    b, (targets, source, rows, width) = _begun(f"add_{name}", PTR, PTR, I64, I64)
    first, last = b.arguments["first"], b.arguments["last"]
    even = b.sub(last, b.and_(b.sub(last, first), b.i64(lanes - 1)))
    with b.loop(b.i64(0), rows, b.i64(1)) as turn:
        target = b.load(PTR, b.offset(targets, turn.index, PTR), 8)
        row = b.offset(source, b.mul(turn.index, width), kind)
        for part in ((first, even, lanes, vector(kind, lanes)), (even, last, 1, kind)):
            begin, end, step, elements = part
            with b.loop(begin, end, b.i64(step)) as columns:
                x = b.load(elements, b.offset(row, columns.index, kind))
                place = b.offset(target, columns.index, kind)
                b.store(b.fadd(b.load(elements, place), x), place)
    b.ret()
    return b


_KINDS: dict[DType, tuple[str, int]] = {
    float32: (F32, LANES),
    float64: (F64, LANES // 2),
}


def adds(dtype: DType) -> bool:
    """Return True if rows of a dtype can be added up."""
    return dtype in _KINDS


@cache
def moves() -> tuple[dict[str | DType, int], dict[str | DType, StepNote]]:
    """The functions by what they do: "gather", "copy", and add by dtype; and what is
    told of their steps."""
    functions: dict[str | DType, Builder] = {"gather": _gather(), "copy": _copy()}
    functions |= {t: _add(t.name, *kind) for t, kind in _KINDS.items()}
    addresses = compile_functions({b.name: b.text() for b in functions.values()})
    notes = {
        what: StepNote(b.name.removeprefix("treadle_")) for what, b in functions.items()
    }
    return {what: addresses[b.name] for what, b in functions.items()}, notes
