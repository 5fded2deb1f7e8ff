"""Tables of rows so small that the core runs them while it holds Python's lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import indices_of
from treadle.base.buckets import COARSE, size_bucket
from treadle.base.dtypes import DType
from treadle.core import native
from treadle.engines.native.execution.small import BYTES, is_brief, workers
from treadle.engines.native.forest.assembly import StepTable
from treadle.engines.native.forest.bases import (
    ARENA,
    FIRST,
    INDEX,
    SCRATCH,
    SINK,
    SPACE,
    STATUS,
    VALUES,
    number,
)
from treadle.engines.native.forest.matrices import Matrices, aligned
from treadle.engines.native.forest.program import ForestProgram

KEPT = 1 << 20  # bytes of values, which a run makes memory for
# A result: its number, the block that it lies in and how far, its shape and dtype.
Result = tuple[int, int, int, tuple[int, ...], DType]


def forward(program: ForestProgram, exits: Sequence[tuple[int, int, Any]]) -> Any:
    """The way there, of leaves and of what rows share: 0 is the number of all values,
    then come the exits, each with what is `taken`, the row of it and the type, and the
    ids that are told. None where it is too large, or ids of a table are of two types.
    """
    there = program.forward
    serials = [serial for serial, *_ in there.ids]
    size = program.values.size
    if size > KEPT or len(set(serials)) < len(serials):
        return None
    first = FIRST + len(program.shared)
    results: list[Result] = [(0, number(VALUES), 0, (size,), np.dtype(np.uint8))]
    for k, (t, places) in enumerate(zip(there.types, program.taken, strict=True)):
        results.append((-1, first + k, 0, (len(places), *t.shape), t.dtype))
    for k, (taken, row, t) in enumerate(exits, 1):
        results.append((k, first + taken, row * t.nbytes, t.shape, t.dtype))
    for k, (_, count, t) in enumerate(there.ids):
        block = first + len(there.types) + k
        results.append((1 + len(exits) + k, block, 0, (count,), t.dtype))
    leaves = [there.leaves + k for k in program.read.whole]
    arguments = [*leaves, *range(FIRST, first)]
    zeros = [
        (number(VALUES), begin, end - begin) for begin, end in program.values.unused
    ]
    return _program(there.table, arguments, results, {}, zeros)


def backward(
    program: ForestProgram, seeds: Sequence[Any], order: Sequence[tuple[int, bool]]
) -> Any:
    """The way back for cotangents of some values, of all values, what rows share, and
    these: by the numbers of an `order` what each source gets, or the rows of a table.
    """
    back, places = program.backward(seeds), program.cotangents
    first = FIRST + len(program.shared) + len(seeds)
    results: list[Result] = []
    zeros = _whole(places.grads) + _whole(places.leaves)
    zeros += _whole(places.fresh) if back.partial else _rest(places.fresh)
    sizes = {m.base: m.size for m in (places.grads, places.fresh)}
    leaves = number(places.leaves.base)
    results.append((-1, leaves, 0, (places.leaves.size,), np.dtype(np.uint8)))
    sizes |= {SINK: program.read.most, SPACE: back.space}
    totals = {serial: first + k for k, serial in enumerate(back.totals)}
    tables = {
        s: (first + len(totals) + k, n, t) for k, (s, n, t) in enumerate(back.sparse)
    }
    for k, (serial, sparse) in enumerate(order):
        if sparse:
            block, count, t = tables[serial]
            rows = size_bucket(count, COARSE)
            results.append((k, block, 0, (rows, *t.shape), t.dtype))
            zeros.append((block, count * t.nbytes, (rows - count) * t.nbytes))
        elif serial in totals:
            t = back.totals[serial]
            results.append((k, totals[serial], 0, t.shape, t.dtype))
        else:
            t, offset = places.leaves.find(back.leaves[serial], ("leaf", 0))
            results.append((k, leaves, offset, t.shape, t.dtype))
    arguments = [number(VALUES), *range(FIRST, first)]
    return _program(back.table, arguments, results, sizes, zeros)


def _whole(matrices: Matrices) -> list[tuple[int, int, int]]:
    return [(number(matrices.base), 0, matrices.size)]


def _rest(matrices: Matrices) -> list[tuple[int, int, int]]:
    """The rows of matrices that are none."""
    block = number(matrices.base)
    return [(block, begin, end - begin) for begin, end in matrices.unused]


def _program(
    table: StepTable | None,
    arguments: Sequence[int],
    results: Sequence[Result],
    sizes: Mapping[int, int],
    zeros: list[tuple[int, int, int]],
) -> Any:
    """The program of a table for the core; `sizes` of blocks that lie in its arena."""
    if native is None or table is None or not is_brief(table.records):
        return None
    placed, offsets, arena = [number(ARENA)], [0], aligned(table.arena)
    for base, size in sizes.items():
        placed.append(number(base))
        offsets.append(arena)
        arena += aligned(size)
    scratch = table.scratch * workers()
    if arena + scratch > BYTES:
        return None
    blocks = 1 + max([n for _, n, *_ in results], default=0)
    count = max(blocks, max(arguments, default=0) + 1, FIRST) + 2
    slots = indices_of(table.blocks)
    which = table.blocks[slots]
    which[which == number(SCRATCH)] = count - 2
    which[which == number(STATUS)] = count - 1
    numbers = (
        np.zeros(count, np.int64),
        table.table,
        slots,
        which,
        table.table[slots],
        table.records.ravel(),
        np.array(arguments, np.int64),
        np.array(placed, np.int64),
        np.array(offsets, np.int64),
    )
    every = [
        (k, block, at, -1, -1, tuple(shape), dtype, None)
        for k, block, at, shape, dtype in results
    ]
    rest = number(INDEX), table.index, zeros
    return native.program(numbers, every, arena, scratch, table, *rest)
