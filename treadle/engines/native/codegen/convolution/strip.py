"""The part of an image that a block of windows sees, brought into scratch memory.

A strip is rows of pixels, each a row of channels, with zeros where windows reach over
the rim. A "folded" strip has a row for each row of windows, and in a pixel the channels
of all rows of the kernel: few channels become one long run that way.
"""

from __future__ import annotations

from dataclasses import dataclass

from treadle.engines.native.codegen.builder import Value
from treadle.engines.native.codegen.contraction.frame import KernelFrame
from treadle.engines.native.codegen.contraction.text import least

# Bytes, but for counts and positions.
STRIP = (
    *("x_h", "x_w", "x_c", "height", "width"),
    *("stride_h", "stride_w", "top", "left"),
    *("row_step", "span_h", "row_h", "span_w"),  # rows of a strip for rows of windows
    *("folds", "fold_h", "fold_bytes"),
    *("row_pitch", "pixel_pitch"),
)


@dataclass(frozen=True)
class WindowBlock:
    """A block of windows: where its rows and columns begin, and how many there are."""

    p: Value
    rows: Value
    q: Value
    columns: Value


def fill_strip(
    frame: KernelFrame,
    x: Value,
    block: WindowBlock,
    channels: Value,
    target: Value,
    spare: Value,
) -> None:
    """The strip of a block, from the image and channels that begin at x."""
    b, g = frame.b, frame.values
    zero, one = b.i64(0), b.i64(1)
    rows = b.add(b.mul(b.sub(block.rows, one), g["row_step"]), g["span_h"])
    first = b.sub(b.mul(block.p, g["stride_h"]), g["top"])
    columns = b.add(b.mul(b.sub(block.columns, one), g["stride_w"]), g["span_w"])
    left = b.sub(b.mul(block.q, g["stride_w"]), g["left"])
    start = frame.clamped(b.sub(zero, left), zero, columns)
    stop = frame.clamped(b.sub(g["width"], left), start, columns)
    across = b.and_(b.compare("eq", start, zero), b.compare("eq", stop, columns))
    source = frame.at(x, (b.add(left, start), "x_w"))
    inner = frame.at(target, (start, "pixel_pitch"))
    size = b.mul(columns, g["pixel_pitch"])
    with b.loop(zero, rows, one, [first, target, inner]) as over:
        y, row, fold = over.values
        # the folds inside the image: those from `low` on, before `high`
        low = frame.clamped(frame.ceil(b.sub(zero, y), g["fold_h"]), zero, g["folds"])
        high = frame.ceil(b.sub(g["height"], y), g["fold_h"])
        high = frame.clamped(high, low, g["folds"])
        all_ = b.and_(b.compare("eq", low, zero), b.compare("eq", high, g["folds"]))
        gaps = b.xor(b.and_(across, all_), b.constant("i1", 1))
        with b.when(gaps):
            frame.zero(row, size)
        at = b.add(y, b.mul(low, g["fold_h"]))
        step = b.mul(g["fold_h"], g["x_h"])
        with b.when(b.compare("slt", low, high)):
            frame.call(
                "fill",
                [
                    *(frame.at(source, (at, "x_h")), step, b.sub(high, low)),
                    *(g["x_c"], channels, g["x_w"], b.sub(stop, start)),
                    *(frame.at(fold, (low, "fold_bytes")), g["pixel_pitch"], spare),
                ],
            )
        following = [frame.on(p, "row_pitch") for p in (row, fold)]
        over.next([b.add(y, g["row_h"]), *following])


def runs_inside(frame: KernelFrame, row: Value, first: Value) -> tuple[Value, Value]:
    """Of a chunk of the runs of a sum, from the `first` on, those that lie inside the
    image for a row of windows: which is the first, and how many.

    Around the image are zeros, which add nothing. Rows of the kernel have `row_runs`
    each; 0 tells that none lies outside.
    """
    b, g = frame.b, frame.values
    zero, per = b.i64(0), g["row_runs"]
    runs = least(b, g["chunk"], b.sub(g["runs"], first))
    y = b.sub(b.mul(row, g["stride_h"]), g["top"])  # of the first row of the kernel
    low = frame.ceil(b.sub(zero, y), g["dilation_h"])
    low = frame.clamped(low, zero, g["taps_h"])
    high = frame.ceil(b.sub(g["height"], y), g["dilation_h"])
    high = frame.clamped(high, low, g["taps_h"])
    begin = frame.clamped(b.sub(b.mul(low, per), first), zero, runs)
    end = frame.clamped(b.sub(b.mul(high, per), first), begin, runs)
    every = b.compare("eq", per, zero)
    begin = b.select(every, zero, begin)
    return b.add(first, begin), b.select(every, runs, b.sub(end, begin))
