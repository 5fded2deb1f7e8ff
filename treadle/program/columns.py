"""Folds of columns done beside the rows that their unit reads or writes.

The gradient of a bias, say, is a sum over the rows of an array that another unit has in
registers. Blocks of rows, which `cut_folds` has made of a long fold, are then done side
by side; within each the rows follow each other, and each joins the sums of its columns.
The order of a fold is what it is in a kernel of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from treadle.loops.index import Axis
from treadle.loops.lower import Strides, is_virtual, wide
from treadle.loops.nest import kernel_of
from treadle.loops.region import Region
from treadle.loops.schedule import folds_in_lanes
from treadle.program.places import sources
from treadle.program.units import MEMBERS, Unit, absorb, between, compatible, rebase

__all__ = ["fold_columns_beside"]

BLOCKS = 16  # of rows: fewer keep too few threads busy


def fold_columns_beside(
    units: Sequence[Unit],
    finishes: Iterable[Unit],
    strides: Strides,
) -> list[Unit]:
    """The units, with folds of columns in those that pass over the same rows.

    Those that products finish themselves stay as they are. Nodes lie in memory by
    `strides`.
    """
    taken = {u.number for u in finishes}
    count = 1 + max((u.number for u in units), default=0)
    by_number = [Unit(k, []) for k in range(count)]
    for unit in units:
        by_number[unit.number] = unit
    holders: dict[int, list[Unit]] = {}  # units that read or compute a value
    for unit in units:
        if unit.region is not None and unit.number not in taken:
            for serial in unit.operands | {n.serial for n in unit.nodes}:
                holders.setdefault(serial, []).append(unit)
    for unit in units:
        if unit.number in taken or not _folds_columns(unit):
            continue
        if not _in_rows(unit, strides):
            continue
        for other in _beside(unit, holders):
            region = _over_blocks(other, unit)
            if region is None or len(unit.nodes) + len(other.nodes) > MEMBERS:
                continue
            own, other.region = other.region, region
            if _independent(unit, other, by_number) and compatible(unit, other):
                assert unit.region is not None
                region.turns = unit.region.inner
                absorb(by_number, other, unit)
                break
            other.region = own
    return [u for u in units if u.nodes]


def _parts(unit: Unit) -> tuple[tuple[Axis, ...], tuple[Axis, ...], tuple[Axis, ...]]:
    """The axes of blocks of rows, of the rows of a block, and of columns."""
    region = unit.region
    assert region is not None
    places = [k for k, a in enumerate(region.axes) if a in region.inner]
    first, last = places[0], places[-1]
    return region.axes[:first], region.axes[first : last + 1], region.axes[last + 1 :]


def _folds_columns(unit: Unit) -> bool:
    """Whether all that a unit does is to fold columns, over blocks of rows."""
    region = unit.region
    if region is None or not region.inner or region.turns:
        return False
    if any(not region.folds(n) for n in unit.nodes):
        return False
    if any(wide(n.type.dtype) != n.type.dtype for n in unit.nodes):
        return False  # sums are kept in a wider type than they are stored in
    blocks, rows, columns = _parts(unit)
    many = math.prod(a.extent for a in blocks) >= BLOCKS
    return many and len(rows) == 1 and bool(columns)


def _in_rows(unit: Unit, strides: Strides) -> bool:
    """Whether a unit by itself folds row after row, its columns side by side."""
    assert unit.region is not None
    made, _ = kernel_of(unit.region, unit.nodes, lambda n: not is_virtual(n), strides)
    return folds_in_lanes(made)


def _beside(unit: Unit, holders: dict[int, list[Unit]]) -> list[Unit]:
    """The units that read or compute a large operand of a unit, the newest first."""
    region = unit.region
    assert region is not None
    size = math.prod(a.extent for a in region.axes)
    found = {}
    for node in unit.nodes:
        for x, _ in sources(node.inputs[0], None):
            if not isinstance(x.type, tuple) and x.type.size >= size:
                for other in holders.get(x.serial, ()):
                    if other is not unit and other.nodes:
                        found[other.number] = other
    return [found[k] for k in sorted(found, reverse=True)]


def _over_blocks(unit: Unit, columns: Unit) -> Region | None:
    """The loops of a unit as blocks, rows and columns of another, if they are such."""
    region, like = unit.region, columns.region
    if region is None or like is None or not unit.nodes:
        return None
    made = replace(
        region,
        nodes=list(region.nodes),
        reads=dict(region.reads),
        placement=dict(region.placement),
    )
    if made.axes != like.axes:
        rebase(made, tuple(a.extent for a in like.axes))
    if made.axes != like.axes or made.turns not in (frozenset(), like.inner):
        return None
    inner = frozenset(_parts(columns)[2])
    if not made.inner:
        made.inner = inner
    return made if made.inner == inner else None


def _independent(unit: Unit, other: Unit, units: Sequence[Unit]) -> bool:
    """Whether neither needs what the other has only after all rows of a block."""
    if between(units, unit, other) or between(units, other, unit):
        return False
    region = other.region
    assert region is not None
    late = {n.serial for n in other.nodes if region.gathers(n)}
    late |= {n.serial for n in unit.nodes}
    return not late & (unit.operands | other.operands)
