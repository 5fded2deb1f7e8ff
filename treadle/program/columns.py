"""Folds of columns done beside the rows that their unit reads or writes.

The gradient of a bias, say, is a sum over the rows of an array that another unit has in
registers. Blocks of rows, which `cut_folds` has made of a long fold, are then done side
by side; within each the rows follow each other, and each joins the sums of its columns.
The order of a fold is what it is in a kernel of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from treadle.base.symbolic import stays_below
from treadle.base.types import TupleType
from treadle.graph.tensor import Tensor
from treadle.loops.index import LoopAxis
from treadle.loops.lower import Strides, is_virtual, wide
from treadle.loops.nest import kernel_of
from treadle.loops.region import Nodes, Region
from treadle.loops.schedule import folds_in_lanes
from treadle.program.places import sources
from treadle.program.units import MEMBERS, Unit, absorb, between, compatible, rebase
from treadle.rewrite.cut import STEPS, WIDE

BLOCKS = 16  # of rows: fewer keep too few threads busy


def fold_columns_together(
    units: Sequence[Unit],
    finishes: Iterable[Unit],
    written: Callable[[], Collection[int]],
    strides: Strides,
) -> list[Unit]:
    """The units, with folds of columns in those that pass over the same rows.

    Those that products finish themselves stay as they are. `written` tells the nodes
    that are read outside of their unit; they lie in memory by `strides`.
    """
    taken = {u.number for u in finishes}
    free = [u for u in units if u.region is not None and u.number not in taken]
    folding = [u for u in free if _folds_columns(u)]
    if not folding:
        return list(units)
    stored = written()
    folding = [u for u in folding if _in_rows(u, stored, strides)]
    alone = []
    for unit in folding:
        if any(n.serial in stored and not _is_fold(unit, n) for n in unit.nodes):
            _pass_over_rows(unit)
        else:
            alone.append(unit)
    holders: dict[int, list[Unit]] = {}  # units that read or compute a value
    for unit in free:
        for serial in unit.operands | {n.serial for n in unit.nodes}:
            holders.setdefault(serial, []).append(unit)
    for unit in alone:
        _join(unit, _neighbors(unit, holders))
    return [u for u in units if u.nodes]


def _join(unit: Unit, others: Sequence[Unit]) -> None:
    """Have the first of some units that can do it fold what a unit folds."""
    for other in others:
        region = _over_blocks(other, unit)
        if region is None or len(unit.nodes) + len(other.nodes) > MEMBERS:
            continue
        previous, other.region = other.region, region
        if _independent(unit, other) and compatible(unit, other):
            assert unit.region is not None
            region.turns = unit.region.inner
            absorb(other, unit)
            return
        other.region = previous


def _pass_over_rows(unit: Unit) -> None:
    """Have a unit that also stores what it folds do so row after row."""
    assert unit.region is not None
    columns = _parts(unit)[2]
    unit.region.turns, unit.region.inner = unit.region.inner, frozenset(columns)


def _is_fold(unit: Unit, node: Tensor) -> bool:
    return unit.region is not None and unit.region.folds(node)


def _parts(
    unit: Unit,
) -> tuple[tuple[LoopAxis, ...], tuple[LoopAxis, ...], tuple[LoopAxis, ...]]:
    """The axes of blocks of rows, of the rows of a block, and of columns."""
    region = unit.region
    assert region is not None
    places = [k for k, a in enumerate(region.axes) if a in region.inner]
    first, last = places[0], places[-1]
    return region.axes[:first], region.axes[first : last + 1], region.axes[last + 1 :]


def _folds_columns(unit: Unit) -> bool:
    """Whether a unit folds columns over blocks of rows, and needs no fold itself."""
    region = unit.region
    if region is None or not region.inner or region.turns:
        return False
    folds = [n for n in unit.nodes if region.folds(n)]
    if any(wide(n.type.dtype) != n.type.dtype for n in folds):
        return False  # sums are kept in a wider type than they are stored in
    if unit.operands & {n.serial for n in folds}:
        return False
    if not all(n in Nodes(folds) or region.is_full(n) for n in unit.nodes):
        return False
    blocks, rows, columns = _parts(unit)
    if len(rows) != 1 or not stays_below(rows[0].extent, STEPS):
        return False  # sums are done in blocks
    many = math.prod(a.extent for a in blocks) >= BLOCKS
    return many and math.prod(a.extent for a in columns) >= WIDE


def _in_rows(unit: Unit, stored: Collection[int], strides: Strides) -> bool:
    """Whether a unit by itself folds row after row, its columns side by side."""
    assert unit.region is not None
    stored_nodes = [n for n in unit.nodes if n.serial in stored]
    kernel, _ = kernel_of(
        unit.region, stored_nodes, lambda n: not is_virtual(n), strides
    )
    return folds_in_lanes(kernel)


def _neighbors(unit: Unit, holders: dict[int, list[Unit]]) -> list[Unit]:
    """The units that read or compute a large operand of a unit, the newest first."""
    region = unit.region
    assert region is not None
    size = math.prod(a.extent for a in region.axes)
    units = {}
    for node in unit.nodes:
        for x in (x for operand in node.inputs for x, _ in sources(operand, None)):
            if not isinstance(x.type, TupleType) and x.type.size >= size:
                for other in holders.get(x.serial, ()):
                    if other is not unit and other.nodes:
                        units[other.number] = other
    return [units[k] for k in sorted(units, reverse=True)]


def _over_blocks(unit: Unit, columns: Unit) -> Region | None:
    """The loops of a unit as blocks, rows and columns of another, if they are such."""
    region, like = unit.region, columns.region
    if region is None or like is None or not unit.nodes:
        return None
    rebased = replace(
        region,
        nodes=list(region.nodes),
        reads=dict(region.reads),
        placement=dict(region.placement),
    )
    if rebased.axes != like.axes:
        rebase(rebased, like.axes)
    if rebased.axes != like.axes or rebased.turns not in (frozenset(), like.inner):
        return None
    inner = frozenset(_parts(columns)[2])
    if not rebased.inner:
        rebased.inner = inner
    return rebased if rebased.inner == inner else None


def _independent(unit: Unit, other: Unit) -> bool:
    """Whether neither needs what the other has only after all rows of a block."""
    if between(unit, other) or between(other, unit):
        return False
    region = other.region
    assert region is not None
    late = {n.serial for n in other.nodes if region.gathers(n)}
    late |= {n.serial for n in unit.nodes if _is_fold(unit, n)}
    return not late & (unit.operands | other.operands)
