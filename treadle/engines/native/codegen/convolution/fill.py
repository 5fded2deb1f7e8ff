"""Copies between layouts: channels that lie apart are brought side by side.

Each copies source[fold, channel, position] to target[position, fold, channel]; folds
and channels are side by side in the target. One is for positions side by side in the
source, one for channels, and one for any strides.
"""

from __future__ import annotations

from treadle.engines.native.codegen.builder import Builder, Value, vector
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.text import (
    FunctionText,
    join,
    lanes_below,
    least,
)
from treadle.engines.native.codegen.contraction.transpose import transpose
from treadle.engines.native.codegen.texts import lasting

# Steps in bytes; `spare`: memory for a pointer to each fold of each channel.
_PARAMETERS = [
    ("source", "ptr"),
    ("step_fold", "i64"),
    ("folds", "i64"),
    ("step_channel", "i64"),
    ("channels", "i64"),
    ("step", "i64"),
    ("count", "i64"),
    ("target", "ptr"),
    ("pitch", "i64"),
    ("spare", "ptr"),
]


def fill_function(
    machine: Machine, dtype: str, channel: int, position: int
) -> FunctionText:
    """The copy for a source of these strides, in elements."""
    if position == 1:
        return _turned(machine, dtype)
    return _straight(machine, dtype) if channel == 1 else _any(machine, dtype)


def _size(dtype: str) -> int:
    return 4 if dtype == "float" else 8


@lasting
def _turned(machine: Machine, dtype: str) -> FunctionText:
    """Positions side by side: squares are transposed in registers."""
    b = Builder("NAME", _PARAMETERS)
    arg = b.arguments
    count = machine.lanes(dtype)
    _list_rows(b)
    rows = b.mul(arg["folds"], arg["channels"])
    whole = b.sub(rows, b.srem(rows, b.i64(count)))
    with b.loop(b.i64(0), whole, b.i64(count)) as over:
        _strip(b, dtype, count, over.index, rows, None)
    with b.when(b.compare("slt", whole, rows)):
        mask = lanes_below(b, b.sub(rows, whole), count)
        _strip(b, dtype, count, whole, rows, mask)
    b.ret()
    return join("turned", [b])


def _list_rows(b: Builder) -> None:
    """List the begin of each fold of each channel in the spare memory."""
    arg = b.arguments
    one = b.i64(1)
    with b.loop(b.i64(0), arg["folds"], one, [arg["source"], arg["spare"]]) as folds:
        x, y = folds.values
        with b.loop(b.i64(0), arg["channels"], one, [x, y]) as channels:
            source, to = channels.values
            b.store(source, to, 8)
            further = b.offset(source, arg["step_channel"], "i8")
            channels.next([further, b.offset(to, one, "ptr")])
        further = b.offset(x, arg["step_fold"], "i8")
        folds.next([further, channels.values[1]])


def _strip(
    b: Builder, dtype: str, count: int, first: Value, rows: Value, mask: Value | None
) -> None:
    """`count` rows, or those before the last, at all positions."""
    arg = b.arguments
    kind = vector(dtype, count)
    last = b.sub(rows, b.i64(1))
    sources = []
    for i in range(count):
        row = b.add(first, b.i64(i))
        row = least(b, row, last) if mask else row
        sources.append(b.load("ptr", b.offset(arg["spare"], row, "ptr"), 8))
    left = b.srem(arg["count"], b.i64(count))
    whole = b.sub(arg["count"], left)
    start = b.offset(arg["target"], first, dtype)
    with b.loop(b.i64(0), whole, b.i64(count), [start]) as over:
        loaded = [b.load(kind, b.offset(p, over.index, dtype)) for p in sources]
        to = over.values[0]
        for x in transpose(b, loaded):
            b.masked_store(x, to, mask)
            to = b.offset(to, arg["pitch"], "i8")
        over.next([to])
    with b.when(b.compare("sgt", left, b.i64(0))):
        valid = lanes_below(b, left, count)
        loaded = [
            b.masked_load(kind, b.offset(p, whole, dtype), valid) for p in sources
        ]
        done = b.label("done")
        to = over.values[0]
        for i, x in enumerate(transpose(b, loaded)):
            b.masked_store(x, to, mask)
            to = b.offset(to, arg["pitch"], "i8")
            following = b.label("row")
            b.branch_if(b.compare("sgt", left, b.i64(i + 1)), following, done)
            b.start(following)
        b.branch(done)
        b.start(done)


@lasting
def _straight(machine: Machine, dtype: str) -> FunctionText:
    """Channels side by side; positions too, if they leave no gap on either side."""
    b = Builder("NAME", _PARAMETERS)
    arg = b.arguments
    count = machine.lanes(dtype)
    kind = vector(dtype, count)
    one = b.i64(1)
    width = b.mul(arg["channels"], b.i64(_size(dtype)))
    dense = b.and_(
        b.compare("eq", arg["step"], width), b.compare("eq", arg["pitch"], width)
    )
    dense = b.and_(dense, b.compare("eq", arg["folds"], one))
    wide = b.select(dense, b.mul(arg["count"], arg["channels"]), arg["channels"])
    positions = b.select(dense, least(b, one, arg["count"]), arg["count"])
    left = b.srem(wide, b.i64(count))
    whole = b.sub(wide, left)
    mask = lanes_below(b, left, count)
    some = b.compare("sgt", left, b.i64(0))
    start = [arg["source"], arg["target"]]
    with b.loop(b.i64(0), arg["folds"], one, start) as folds:
        with b.loop(b.i64(0), positions, one, folds.values) as over:
            x, y = over.values
            with b.loop(b.i64(0), whole, b.i64(count)) as along:
                loaded = b.load(kind, b.offset(x, along.index, dtype))
                b.store(loaded, b.offset(y, along.index, dtype))
            with b.when(some):
                loaded = b.masked_load(kind, b.offset(x, whole, dtype), mask)
                b.masked_store(loaded, b.offset(y, whole, dtype), mask)
            further = b.offset(y, arg["pitch"], "i8")
            over.next([b.offset(x, arg["step"], "i8"), further])
        x, y = folds.values
        folds.next([b.offset(x, arg["step_fold"], "i8"), b.offset(y, width, "i8")])
    b.ret()
    return join("straight", [b])


@lasting
def _any(machine: Machine, dtype: str) -> FunctionText:
    """Element by element."""
    b = Builder("NAME", _PARAMETERS)
    arg = b.arguments
    one, size = b.i64(1), b.i64(_size(dtype))
    start = [arg["source"], arg["target"]]
    with b.loop(b.i64(0), arg["folds"], one, start) as folds:
        with b.loop(b.i64(0), arg["channels"], one, folds.values) as channels:
            with b.loop(b.i64(0), arg["count"], one, channels.values) as over:
                x, y = over.values
                b.store(b.load(dtype, x), y)
                further = b.offset(y, arg["pitch"], "i8")
                over.next([b.offset(x, arg["step"], "i8"), further])
            x, y = channels.values
            further = b.offset(x, arg["step_channel"], "i8")
            channels.next([further, b.offset(y, size, "i8")])
        further = b.offset(folds.values[0], arg["step_fold"], "i8")
        folds.next([further, channels.values[1]])
    b.ret()
    return join("any", [b])
