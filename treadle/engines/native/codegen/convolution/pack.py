"""Kernels that copy weights, into panels before and out of sums after, or clear."""

from __future__ import annotations

import math
from collections.abc import Sequence

from treadle.engines.native.codegen.builder import Value, vector
from treadle.engines.native.codegen.contraction.frame import KernelFrame
from treadle.engines.native.codegen.contraction.machine import Machine
from treadle.engines.native.codegen.contraction.text import (
    FunctionText,
    join,
    least,
    prefetch,
)
from treadle.engines.native.codegen.convolution.steps import Pointer, Step, step
from treadle.engines.native.codegen.texts import lasting


def _loops(count: int) -> tuple[str, ...]:
    """Counts and steps, in bytes, of nested loops."""
    kinds = ("count", "source", "target")
    return tuple(f"{kind}_{i}" for i in range(1, count + 1) for kind in kinds)


# Steps in bytes.
PACK = (
    *("w_group", "w_panel", "w_o", "panel_bytes", "panels", "panel", "outputs"),
    *_loops(2),
    *("inner", "source", "k_b", "ahead", "lines", "line", "scratch"),
)
SUM = (
    *("chunks", "chunk_bytes", "part_bytes", "part_vectors"),  # a part: a panel's sums
    *("w_group", "w_block", "w_panel", "blocks"),
    *("panels", "panel", "outputs"),
    *_loops(3),
    *("step_fold", "folds", "step_channel", "channels", "step", "count", "pitch"),
    *("by_output", "scratch"),
)
_CLEAR = (*(f"count_{i}" for i in range(1, 5)), *(f"step_{i}" for i in range(1, 5)))
_CLEAR = (*_CLEAR, "bytes")


@lasting
def pack_kernel() -> FunctionText:
    """workspace[group, panel, k, o] = w; items are panels' turns of the first loop.

    `lines` of w, `ahead` of where a copy reads, are prefetched for a later one.
    """
    frame = KernelFrame(("w", "workspace", "scratch", "fill"), PACK)
    b, g = frame.b, frame.values
    zero, one = b.i64(0), b.i64(1)
    with frame.items() as item:
        group, panel, first = frame.taken(item, ("", "panels", "count_1"))
        columns = b.sub(g["outputs"], b.mul(panel, g["panel"]))
        columns = least(b, columns, g["panel"])
        source = frame.at(g["*w"], (group, "w_group"), (panel, "w_panel"))
        place = b.add(b.mul(group, g["panels"]), panel)
        target = frame.at(g["*workspace"], (place, "panel_bytes"), (first, "target_1"))
        start = [frame.at(source, (first, "source_1")), target]
        with b.loop(zero, g["count_2"], one, start) as over:
            x, y = over.values
            with b.loop(zero, g["lines"], one, [frame.on(x, "ahead")]) as lines:
                prefetch(b, lines.values[0], 3)
                lines.next([frame.on(lines.values[0], "line")])
            copy = [x, zero, one, g["w_o"], columns, g["source"], g["inner"]]
            frame.call("fill", [*copy, y, g["k_b"], frame.scratch])
            over.next([frame.on(x, "source_2"), frame.on(y, "target_2")])
    return join("pack_weights", [b])


@lasting
def sum_kernel(machine: Machine, dtype: str) -> FunctionText:
    """w = the partial sums of all chunks, one after the other; items are panels."""
    frame = KernelFrame(("w", "workspace", "scratch", "fill"), SUM)
    b, g = frame.b, frame.values
    zero, one = b.i64(0), b.i64(1)
    with frame.items() as item:
        part = frame.at(g["*workspace"], (item, "part_bytes"))
        _add_chunks(frame, machine, dtype, part)
        group, block, panel = frame.taken(item, ("", "blocks", "panels"))
        columns = b.sub(g["outputs"], b.mul(panel, g["panel"]))
        columns = least(b, columns, g["panel"])
        target = frame.at(
            g["*w"], (group, "w_group"), (block, "w_block"), (panel, "w_panel")
        )
        by_output = b.compare("ne", g["by_output"], zero)
        count = b.select(by_output, columns, g["count"])
        channels = b.select(by_output, g["channels"], columns)
        copy = [g["step_fold"], g["folds"], g["step_channel"], channels]
        last = [g["pitch"], frame.scratch]

        def walk(x: Value, y: Value, level: int) -> None:
            if level > 3:
                frame.call("fill", [x, *copy, g["step"], count, y, *last])
                return
            with b.loop(zero, g[f"count_{level}"], one, [x, y]) as over:
                x, y = over.values
                walk(x, y, level + 1)
                x = frame.on(x, f"source_{level}")
                over.next([x, frame.on(y, f"target_{level}")])

        walk(part, target, 1)
    return join("sum_weights", [b])


def _add_chunks(frame: KernelFrame, machine: Machine, dtype: str, part: Value) -> None:
    """Add the parts of the later chunks to that of the first, in order."""
    b, g = frame.b, frame.values
    kind = vector(dtype, machine.lanes(dtype))
    zero, one = b.i64(0), b.i64(1)
    with (
        b.when(b.compare("sgt", g["chunks"], one)),
        b.loop(zero, g["part_vectors"], one) as over,
    ):
        target = b.offset(part, over.index, kind)
        first = b.load(kind, target)
        start = [frame.on(target, "chunk_bytes"), first]
        with b.loop(one, g["chunks"], one, start) as chunk:
            place, total = chunk.values
            more = b.fadd(total, b.load(kind, place))
            chunk.next([frame.on(place, "chunk_bytes"), more])
        b.store(chunk.values[1], target)


@lasting
def _clear_kernel() -> FunctionText:
    """y = 0: `bytes` side by side in each turn of four loops; items: the first."""
    frame = KernelFrame(("y",), _CLEAR)
    b, g = frame.b, frame.values

    def walk(y: Value, level: int) -> None:
        if level > 4:
            frame.zero(y, g["bytes"])
            return
        with b.loop(b.i64(0), g[f"count_{level}"], b.i64(1), [y]) as over:
            (y,) = over.values
            walk(y, level + 1)
            over.next([frame.on(y, f"step_{level}")])

    with frame.items() as item:
        walk(frame.at(g["*y"], (item, "step_1")), 2)
    return join("clear", [b])


def cleared(
    name: str, strides: Sequence[int], sizes: Sequence[int], size: int
) -> list[Step]:
    """An array of zeros, of elements of `size` bytes, as it lies in memory: its strides
    in elements.
    """
    if 0 in sizes:
        return []
    dims = sorted(d for d in zip(strides, sizes, strict=True) if d[1] != 1)
    side = 1
    while dims and dims[0][0] == side:
        side *= dims.pop(0)[1]
    dims += [(0, 1)] * (4 - len(dims))
    dims.sort(key=lambda d: (d[1] == 1, -d[0]))
    counts, steps = [n for _, n in dims], [s * size for s, _ in dims]
    work = size * side * math.prod(counts)
    values = dict(zip(_CLEAR, [*counts, *steps, side * size], strict=True))
    arguments = [values[name] for name in _CLEAR]
    cut = counts[0], work // 10
    return [step(_clear_kernel(), [], [Pointer(name)], arguments, cut, 0)]
