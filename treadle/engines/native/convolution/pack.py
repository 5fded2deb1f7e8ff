"""Kernels that copy weights: into panels before, and out of sums after."""

from __future__ import annotations

from functools import lru_cache

from treadle.engines.native.builder import Value, vector
from treadle.engines.native.contraction.machine import Machine
from treadle.engines.native.contraction.text import Function, join, least
from treadle.engines.native.convolution.frame import Frame

__all__ = ["PACK", "SUM", "pack_kernel", "sum_kernel"]

# Bytes, but for counts. Loops over the taps and channels, `inner` done by one copy.
_LOOPS = (
    *("count_1", "source_1", "target_1"),
    *("count_2", "source_2", "target_2"),
)
PACK = (
    *("w_at", "w_group", "w_panel", "w_o", "target_at", "panel_bytes"),
    *("panels", "panel", "outputs"),
    *_LOOPS,
    *("inner", "source", "k_b", "scratch"),
)
SUM = (
    *("chunks", "chunk_bytes", "part_bytes", "part_vectors"),  # a part: a panel's sums
    *("w_at", "w_group", "w_block", "w_panel", "blocks"),
    *("panels", "panel", "outputs"),
    *_LOOPS,
    *("step_fold", "folds", "step_channel", "channels", "step", "count", "pitch"),
    *("by_output", "size", "scratch"),
)


@lru_cache
def pack_kernel() -> Function:
    """workspace[group, panel, k, o] = w; items are panels' turns of the first loop."""
    frame = Frame(("w", "workspace", "scratch", "fill"), PACK)
    b, g = frame.b, frame.given
    zero, one = b.i64(0), b.i64(1)
    with frame.items() as item:
        group, panel, first = frame.taken(item, ("", "panels", "count_1"))
        columns = b.sub(g["outputs"], b.mul(panel, g["panel"]))
        columns = least(b, columns, g["panel"])
        source = frame.on(g["*w"], "w_at")
        source = frame.at(
            source, (group, "w_group"), (panel, "w_panel"), (first, "source_1")
        )
        place = b.add(b.mul(group, g["panels"]), panel)
        target = frame.on(g["*workspace"], "target_at")
        target = frame.at(target, (place, "panel_bytes"), (first, "target_1"))
        with b.loop(zero, g["count_2"], one, [source, target]) as over:
            x, y = over.values
            frame.call(
                "fill",
                [
                    *(x, zero, one, g["w_o"], columns, g["source"], g["inner"]),
                    *(y, g["k_b"], frame.scratch),
                ],
            )
            over.next([frame.on(x, "source_2"), frame.on(y, "target_2")])
    return join("pack_weights", [b])


@lru_cache
def sum_kernel(machine: Machine, dtype: str) -> Function:
    """w = the partial sums of all chunks, one after the other; items are panels."""
    frame = Frame(("w", "workspace", "scratch", "fill"), SUM)
    b, g = frame.b, frame.given
    zero, one = b.i64(0), b.i64(1)
    with frame.items() as item:
        part = frame.at(g["*workspace"], (item, "part_bytes"))
        _add_chunks(frame, machine, dtype, part)
        group, block, panel = frame.taken(item, ("", "blocks", "panels"))
        columns = b.sub(g["outputs"], b.mul(panel, g["panel"]))
        columns = least(b, columns, g["panel"])
        target = frame.on(g["*w"], "w_at")
        target = frame.at(
            target, (group, "w_group"), (block, "w_block"), (panel, "w_panel")
        )
        by_output = b.compare("ne", g["by_output"], zero)
        count = b.select(by_output, columns, g["count"])
        channels = b.select(by_output, g["channels"], columns)
        with b.loop(zero, g["count_1"], one, [part, target]) as outer:
            with b.loop(zero, g["count_2"], one, outer.values) as over:
                x, y = over.values
                frame.call(
                    "fill",
                    [
                        *(x, g["step_fold"], g["folds"], g["step_channel"], channels),
                        *(g["step"], count, y, g["pitch"], frame.scratch),
                    ],
                )
                over.next([frame.on(x, "source_2"), frame.on(y, "target_2")])
            x, y = outer.values
            outer.next([frame.on(x, "source_1"), frame.on(y, "target_1")])
    return join("sum_weights", [b])


def _add_chunks(frame: Frame, machine: Machine, dtype: str, part: Value) -> None:
    """Add the parts of the later chunks to that of the first, in order."""
    b, g = frame.b, frame.given
    kind = vector(dtype, machine.lanes(dtype))
    zero, one = b.i64(0), b.i64(1)
    with (
        b.when(b.compare("sgt", g["chunks"], one)),
        b.loop(zero, g["part_vectors"], one) as over,
    ):
        own = b.offset(part, over.index, kind)
        first = b.load(kind, own)
        start = [frame.on(own, "chunk_bytes"), first]
        with b.loop(one, g["chunks"], one, start) as chunk:
            place, total = chunk.values
            more = b.fadd(total, b.load(kind, place))
            chunk.next([frame.on(place, "chunk_bytes"), more])
        b.store(chunk.values[1], own)
