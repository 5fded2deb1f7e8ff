"""Movement rules: reshapes, permutations, broadcasts, slices, casts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from treadle.base.slices import SliceRange
from treadle.base.types import equal_shapes
from treadle.graph.tensor import Tensor
from treadle.ops.cast import Cast
from treadle.ops.families import Elementwise
from treadle.ops.join import Concat
from treadle.ops.movement import BroadcastTo, PermuteDims, Reshape
from treadle.ops.repeat import Flip, Roll
from treadle.ops.slice import Slice
from treadle.rewrite.facts import is_lossless, number_of
from treadle.rewrite.pattern import Pattern, captures, numbers, of
from treadle.rewrite.rule import Match, Rule, RuleSet

(x,) = captures("x")
(c,) = numbers("c")
cast, reshape, permute = of("Cast"), of("Reshape"), of("PermuteDims")
broadcast, slice_, flip, roll = of("BroadcastTo"), of("Slice"), of("Flip"), of("Roll")


class Joined(Pattern):
    """A concatenation of any number of parts."""

    def could(self, shape: Any) -> bool:
        return shape[0] is Concat

    def match(self, node: Tensor, captured: Any) -> Any:
        if type(node.op) is Concat:
            yield captured

    def __repr__(self) -> str:
        return "concat(...)"


class OnBroadcast(Pattern):
    """An op on elements with an operand that is broadcast, and is no number."""

    def could(self, shape: Any) -> bool:
        cls, inputs = shape
        if not issubclass(cls, Elementwise) or cls.traits.effect:
            return False
        return inputs is None or any(s[0] is BroadcastTo for s in inputs)

    def match(self, node: Tensor, captured: Any) -> Any:
        if isinstance(node.op, Elementwise) and any(
            type(v.op) is BroadcastTo for v in node.inputs
        ):
            yield captured

    def __repr__(self) -> str:
        return "f(broadcast_to(x), ...)"


def _is_same(m: Match) -> bool:
    return bool(m.root.type == m.x.type)


def _bare_operands(m: Match) -> Tensor | None:
    """The op on operands that are broadcast by it anyway."""
    op: Any = m.root.op
    inputs = [v.inputs[0] if type(v.op) is BroadcastTo else v for v in m.root.inputs]
    if all(number_of(v) is not None for v in m.root.inputs):
        return None
    if m.root.type.axes is not None or any(v.type.axes for v in inputs):
        return None
    result: Tensor = op(*inputs)
    # Where the type of an operand alone decides (its dtype does not), nothing is lost.
    return result if result.type.dtype == m.root.type.dtype else None


def _reshaped(m: Match) -> Tensor:
    op: Any = m.root.op
    return Reshape(op.shape, op.axes)(m.x)


def _permuted(m: Match) -> Tensor:
    outer: Any = m.root.op
    inner: Any = m.y.op
    order = tuple(inner.order[k] for k in outer.order)
    return m.x if order == tuple(range(len(order))) else PermuteDims(order)(m.x)


def _broadcast_twice(m: Match) -> Tensor:
    op: Any = m.root.op
    return BroadcastTo(op.shape, op.axes)(m.x)


def _reshape_of_broadcast(m: Match) -> Tensor | None:
    """A broadcast that a reshape only gives other dimensions of extent 1."""
    if m.x.type.size != 1 or m.root.type.axes:
        return None
    bare = m.x if not m.x.type.shape else Reshape(())(m.x)
    return BroadcastTo(m.root.type.shape)(bare)


def _permute_of_broadcast(m: Match) -> Tensor | None:
    """A permutation of a broadcast as a broadcast of a permutation."""
    op: Any = m.root.op
    if m.root.type.axes or m.x.type.axes:
        return None
    lead = m.y.type.ndim - m.x.type.ndim
    shape = (1,) * lead + m.x.type.shape
    wide = m.x if not lead else Reshape(shape)(m.x)
    return BroadcastTo(m.root.type.shape)(PermuteDims(op.order)(wide))


def _cut(parts: Any, op: Any) -> Any:
    """A slice of a slice, dimension by dimension: (start, stop, step) of the source."""
    starts, stops, steps = [], [], []
    outer = zip(op.starts, op.stops, op.steps, strict=True)
    inner = zip(parts.starts, parts.stops, parts.steps, strict=True)
    for (a, b, c), (p, _, s) in zip(outer, inner, strict=True):
        count = SliceRange(a, b, c).count
        start, step = p + a * s, c * s
        stop = start + step * count
        starts.append(start if count else 0)
        steps.append(step)
        stops.append(max(stop, -1) if count else 0)
    return Slice(tuple(starts), tuple(stops), tuple(steps))


def _slice_of_broadcast(m: Match) -> Tensor | None:
    """A part of a broadcast as a broadcast of a part."""
    op: Any = m.root.op
    if m.root.type.axes or m.x.type.axes:
        return None
    lead = m.y.type.ndim - m.x.type.ndim
    ranges = []
    for k, n in enumerate(m.x.type.shape, lead):
        whole = n == 1
        ranges.append((0, 1, 1) if whole else (op.starts[k], op.stops[k], op.steps[k]))
    if all(n == 1 for n in m.x.type.shape):
        return BroadcastTo(m.root.type.shape)(m.x)
    part = Slice(*(tuple(s) for s in zip(*ranges, strict=True)))(m.x)
    return BroadcastTo(m.root.type.shape)(part)


def _slice_of_join(m: Match) -> Tensor | None:
    """A part of a concatenation that lies within one of the parts joined."""
    op: Any = m.root.op
    join = m.root.inputs[0]
    axis = join.op.axis  # type: ignore[attr-defined]
    places = SliceRange(op.starts[axis], op.stops[axis], op.steps[axis])
    if not places.count:
        return None
    low, high = places.low, places.high
    start = 0
    for v in join.inputs:
        end = start + v.type.shape[axis]
        if start <= low and high < end:
            starts = _with(op.starts, axis, op.starts[axis] - start)
            stop = op.stops[axis] - start
            if op.steps[axis] < 0:
                stop = max(stop, -1)
            part = Slice(starts, _with(op.stops, axis, stop), op.steps)
            return part(v)
        start = end
    return None


def _slice_of_stack(m: Match) -> Tensor | None:
    """Some rows of a reshaped concatenation as rows of that, reshaped."""
    op: Any = m.root.op
    put = m.root.inputs[0]
    (join,) = put.inputs
    shape, source = put.type.shape, join.type.shape
    whole = all(
        (start, stop, step) == (0, n, 1)
        for start, stop, step, n in zip(
            op.starts[1:], op.stops[1:], op.steps[1:], shape[1:], strict=True
        )
    )
    row, source_row = math.prod(shape[1:]), math.prod(source[1:])
    if (
        not whole
        or op.steps[0] != 1
        or not source_row
        or put.type.axes
        or join.type.axes
    ):
        return None
    ends = op.starts[0] * row, op.stops[0] * row
    if any(end % source_row for end in ends):
        return None
    starts = (ends[0] // source_row, *[0] * (len(source) - 1))
    part = Slice(starts, (ends[1] // source_row, *source[1:]), (1,) * len(source))(join)
    return Reshape(m.root.type.shape)(part)


def _with(values: Sequence[int], k: int, value: int) -> tuple[int, ...]:
    return (*values[:k], value, *values[k + 1 :])


def _is_whole(m: Match) -> bool:
    op: Any = m.root.op
    return equal_shapes(m.root.type.shape, m.x.type.shape) and all(
        c > 0 for c in op.steps
    )


def _joined(m: Match) -> Tensor | None:
    """A concatenation with nested ones opened, empty parts dropped, pieces mended."""
    op: Any = m.root.op
    parts: list[Tensor] = []
    for v in m.root.inputs:
        nested = type(v.op) is Concat and v.op == op
        parts += v.inputs if nested else [v]
    parts = [v for v in parts if v.type.shape[op.axis]] or parts[:1]
    mended = [parts[0]]
    for v in parts[1:]:
        whole = _mended(mended[-1], v, op.axis)
        if whole is None:
            mended.append(v)
        else:
            mended[-1] = whole
    if len(mended) == len(m.root.inputs):
        return None
    return mended[0] if len(mended) == 1 else Concat(op.axis)(*mended)


def _mended(a: Tensor, b: Tensor, axis: int) -> Tensor | None:
    """Two neighboring slices of one tensor as one."""
    if type(a.op) is not Slice or type(b.op) is not Slice:
        return None
    if a.inputs[0] is not b.inputs[0]:
        return None
    one, two = a.op, b.op
    for k, (p, q) in enumerate(
        zip(
            zip(one.starts, one.stops, one.steps, strict=True),
            zip(two.starts, two.stops, two.steps, strict=True),
            strict=True,
        )
    ):
        if k != axis and p != q:
            return None
    if one.steps[axis] != 1 or two.steps[axis] != 1:
        return None
    if one.stops[axis] != two.starts[axis]:
        return None
    stops = _with(one.stops, axis, two.stops[axis])
    return Slice(one.starts, stops, one.steps)(a.inputs[0])


def _flipped(m: Match) -> Tensor:
    outer, inner = set(m.root.op.axes), set(m.y.op.axes)  # type: ignore[attr-defined]
    axes = tuple(sorted(outer ^ inner))
    return Flip(axes)(m.x) if axes else m.x


def _flip_of_little(m: Match) -> Tensor | None:
    """A flip without the dimensions of extent 1."""
    op: Any = m.root.op
    axes = tuple(k for k in op.axes if m.x.type.shape[k] > 1)
    if axes == op.axes:
        return None
    return Flip(axes)(m.x) if axes else m.x


def _rolled(m: Match) -> Tensor | None:
    outer: Any = m.root.op
    inner: Any = m.y.op
    if outer.axis != inner.axis:
        return None
    n = max(m.x.type.shape[outer.axis], 1)
    shift = (outer.shift + inner.shift) % n
    return Roll(shift, outer.axis)(m.x) if shift else m.x


def _still(m: Match) -> bool:
    op: Any = m.root.op
    return op.shift % max(m.x.type.shape[op.axis], 1) == 0


def _cast_back(m: Match) -> bool:
    source, between = m.x.type.dtype, m.y.type.dtype
    return is_lossless(source, between)


def _cast_once(m: Match) -> Tensor:
    dtype = m.root.type.dtype
    return m.x if m.x.type.dtype == dtype else Cast(dtype)(m.x)


def _cast_later(m: Match) -> Tensor | None:
    """A cast of a movement that makes more elements, done on fewer."""
    inner = m.root.inputs[0]
    op: Any = inner.op
    return op(Cast(m.root.type.dtype)(m.x)) if m.x.type.size < inner.type.size else None


def outward(m: Match) -> Any:
    """A negation moved out of an op."""
    result: Any = m.root.op(m.x)
    return -result


def _scaled_outward(m: Match) -> Any:
    """A number moved out of a reshape or permutation, which leaves its value alone."""
    if (
        not equal_shapes(m.x.type.shape, m.root.inputs[0].type.shape)
        or m.root.type.axes
    ):
        return None
    result: Any = m.root.op(m.x)
    number = m.c.inputs[0] if m.c.type.shape else m.c
    return result * number


MOVEMENT = RuleSet(
    "movement",
    [
        Rule("cast to the same", cast(x), x, _is_same, takes="any",
             example=lambda d: Cast(d.type)(d())),
        Rule("cast of a lossless cast", cast(cast(x, label="y")), _cast_once,
             _cast_back, takes="any",
             example=lambda d: d().astype("float64").astype("float16")),
        Rule("cast before it is broadcast", cast(broadcast(x)), _cast_later,
             example=lambda d: d.td.broadcast_to(d("x", (3,)), (2, 3)).astype("int64")),
        Rule("reshape to the same", reshape(x), x, _is_same, takes="any",
             example=lambda d: Reshape((2, 3))(d("x", (2, 3)))),
        Rule("reshape of a reshape", reshape(reshape(x)), _reshaped, takes="any",
             example=lambda d: d("x", (2, 3)).reshape(6).reshape(3, 2)),
        Rule("reshape of one element broadcast", reshape(broadcast(x)),
             _reshape_of_broadcast, takes="any",
             example=lambda d: d.td.broadcast_to(d("x", ()), (2, 3)).reshape(6)),
        Rule("permutation of a permutation", permute(permute(x, label="y")), _permuted,
             takes="any", example=lambda d: d("x", (2, 3, 4)).transpose(1, 2, 0).T),
        Rule("permutation that changes nothing", permute(x), x,
             lambda m: m.root.op.order == tuple(range(m.root.type.ndim)),  # type: ignore[attr-defined]
             takes="any", example=lambda d: PermuteDims((0, 1))(d("x", (2, 3)))),
        Rule("permutation of a broadcast", permute(broadcast(x, label="y")),
             _permute_of_broadcast, takes="any",
             example=lambda d: d.td.broadcast_to(d("x", (3,)), (2, 3)).T),
        Rule("reshape of a negative", reshape(-x), outward, takes="numeric",
             example=lambda d: (-d("x", (2, 3))).reshape(6)),
        Rule("permutation of a negative", permute(-x), outward, takes="numeric",
             example=lambda d: (-d("x", (2, 3))).T),
        Rule("reshape of a multiple", reshape(x * c), _scaled_outward, takes="numeric",
             example=lambda d: (d("x", (2, 3)) * 3.0).reshape(6)),
        Rule("permutation of a multiple", permute(x * c), _scaled_outward,
             takes="numeric", example=lambda d: (d("x", (2, 3)) * 3.0).T),
        Rule("broadcast to the same", broadcast(x), x, _is_same, takes="any",
             example=lambda d: BroadcastTo((2, 3))(d("x", (2, 3)))),
        Rule("broadcast of a broadcast", broadcast(broadcast(x)), _broadcast_twice,
             takes="any",
             example=lambda d: d.td.broadcast_to(
                 d.td.broadcast_to(d("x", (3,)), (2, 3)), (4, 2, 3))),
        Rule("broadcast operands", OnBroadcast(), _bare_operands,
             example=lambda d: d("x", (2, 3))
             * d.td.broadcast_to(d("y", (3,)), (2, 3))),
        Rule("slice of everything", slice_(x), x, _is_whole, takes="any",
             example=lambda d: Slice((0, 0), (2, 3), (1, 1))(d("x", (2, 3)))),
        Rule("slice of a slice", slice_(slice_(x, label="y")),
             lambda m: _cut(m.y.op, m.root.op)(m.x), takes="any",
             example=lambda d: d("x", (7, 5))[1:6:2, ::-1][1:, 1:4]),
        Rule("slice of a broadcast", slice_(broadcast(x, label="y")),
             _slice_of_broadcast, takes="any",
             example=lambda d: d.td.broadcast_to(d("x", (3,)), (4, 3))[1:3, 1:]),
        Rule("slice of stacked rows", slice_(reshape(Joined())), _slice_of_stack,
             takes="any",
             example=lambda d: d.td.stack([d("x", (2, 3)), d("y", (2, 3))])[1:]),
        Rule("slice of a concatenation", slice_(Joined()), _slice_of_join, takes="any",
             example=lambda d: d.td.concat([d("x", (2, 3)), d("y", (4, 3))])[3:5]),
        Rule("concatenation", Joined(), _joined, takes="any",
             example=lambda d: d.td.concat([d("x", (4, 3))[:2], d("x", (4, 3))[2:]])),
        Rule("flip of a flip", flip(flip(x, label="y")), _flipped, takes="any",
             example=lambda d: d.td.flip(d.td.flip(d("x", (2, 3)), 0), (0, 1))),
        Rule("flip of one element", flip(x), _flip_of_little, takes="any",
             example=lambda d: d.td.flip(d("x", (1, 3)))),
        Rule("roll of a roll", roll(roll(x, label="y")), _rolled, takes="any",
             example=lambda d: d.td.roll(d.td.roll(d("x", (5,)), 2), 2)),
        Rule("roll by nothing", roll(x), x, _still, takes="any",
             example=lambda d: d.td.roll(d("x", (5,)), 5)),
    ],
)  # fmt: skip
