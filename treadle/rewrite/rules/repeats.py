"""Repetitions: a tile or repeat is a broadcast that a reshape joins with its rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.base.slices import SliceRange
from treadle.graph.tensor import Tensor
from treadle.ops.movement import BroadcastTo, Reshape
from treadle.ops.slice import Slice
from treadle.rewrite.pattern import captures, of
from treadle.rewrite.rule import Match, Rule, RuleSet
from treadle.rewrite.rules.reduction import AnyFold, folded

x, y = captures("x y")
broadcast, reshape, slice_, pad = (
    of("BroadcastTo"),
    of("Reshape"),
    of("Slice"),
    of("Pad"),
)


def _groups(inner: Sequence[int], outer: Sequence[int]) -> list[list[int]] | None:
    """The dimensions that each dimension of a reshape joins; None if it splits one.

    >>> _groups((3, 4, 1), (12,)), _groups((6,), (2, 3))
    ([[0, 1]], None)
    """
    groups: list[list[int]] = []
    k = 0
    for n in outer:
        size, group = 1, []
        while size < n and k < len(inner):
            size *= inner[k]
            group.append(k)
            k += 1
        if size != n:
            return None
        groups.append(group)
    return groups if all(n == 1 for n in inner[k:]) else None


def _source(wide: Tensor) -> tuple[int, ...]:
    """The extents of what is broadcast, one for each dimension of the result."""
    shape = wide.inputs[0].type.shape
    return (1,) * (wide.type.ndim - len(shape)) + shape


def _joined(m: Match) -> Tensor | None:
    """A repetition that gives each dimension of its own extent, as a broadcast."""
    shape, inner = m.root.type.shape, m.y.type.shape
    groups = _groups(inner, shape) if m.root.type.size else None
    if groups is None or m.root.type.axes or m.x.type.axes:
        return None
    source = _source(m.y)
    extents = []
    for n, group in zip(shape, groups, strict=True):
        if all(source[k] == inner[k] for k in group):
            extents.append(n)
        elif all(source[k] == 1 for k in group):
            extents.append(1)
        else:
            return None
    return BroadcastTo(shape)(Reshape(tuple(extents))(m.x))


def _folded(m: Match) -> Tensor | None:
    """A fold along what is repeated: over the dimensions that are joined there."""
    outer, wide = m.root.inputs[0].type, m.y
    groups = _groups(wide.type.shape, outer.shape) if outer.size else None
    if groups is None or outer.axes or m.x.type.axes:
        return None
    op: Any = m.root.op
    axes = tuple(k for axis in op.axes for k in groups[axis])
    if all(_source(wide)[k] == wide.type.shape[k] for k in axes):
        return None
    return Reshape(m.root.type.shape)(folded(op, axes)(wide))


def _unpadded(m: Match) -> Tensor | None:
    """A part of a padded tensor that lies within the tensor."""
    op: Any = m.root.op
    widths: Any = m.y.op
    starts, stops = [], []
    for k, ((before, _), n) in enumerate(
        zip(widths.widths, m.x.type.shape, strict=True)
    ):
        places = SliceRange(op.starts[k], op.stops[k], op.steps[k])
        if not places.count or places.low < before or places.high >= before + n:
            return None
        stop = op.stops[k] - before
        starts.append(op.starts[k] - before)
        stops.append(stop if op.steps[k] > 0 else max(stop, -1))
    return Slice(tuple(starts), tuple(stops), op.steps)(m.x)


# -- the table -----------------------------------------------------------------------

REPEATS = RuleSet(
    "repeats",
    [
        Rule("reshape of a repetition", reshape(broadcast(x, label="y")), _joined,
             takes="any", example=lambda d: d.td.repeat(d("x", (4, 1)), 3, 1)),
        Rule("fold of a repetition", AnyFold(reshape(broadcast(x, label="y"))), _folded,
             exact=False, enables=True, takes="any",
             example=lambda d: d.td.tile(d("x", (4, 3)), (2, 1)).sum(0)),
        Rule("slice of a padding", slice_(pad(x, captures("z")[0], label="y")),
             _unpadded, takes="any",
             example=lambda d: d.td.pad(d("x", (4, 3)), ((1, 2), (0, 1)))[2:5, :2]),
    ],
)  # fmt: skip
