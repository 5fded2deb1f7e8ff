"""Folds: of folds, of what is broadcast, of what is the same along the axes folded."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from treadle.base.symbolic import counted
from treadle.base.types import equal_shapes
from treadle.graph.tensor import Tensor
from treadle.ops.families import Reduction
from treadle.ops.movement import PermuteDims, Reshape, in_shape
from treadle.rewrite.facts import is_wide
from treadle.rewrite.pattern import Found, Pattern, captures, lift, of
from treadle.rewrite.rule import Match, Rule, RuleSet, stable
from treadle.rewrite.rules.movement import outward
from treadle.rewrite.rules.products import overflows

x, y = captures("x y")
sum_, prod, max_, min_ = of("Sum"), of("Prod"), of("Max"), of("Min")
mean, broadcast, reshape = of("Mean"), of("BroadcastTo"), of("Reshape")
permute = of("PermuteDims")
REPEATED = ("Max", "Min", "All", "Any_")  # folds in which repeating changes nothing


class AnyFold(Pattern):
    """Any fold of a pattern; the node is captured under `label`."""

    def __init__(self, inner: Any, label: str = "f") -> None:
        self.inner, self.label = lift(inner), label

    def could(self, shape: Any) -> bool:
        cls, inputs = shape
        if not issubclass(cls, Reduction):
            return False
        return inputs is None or self.inner.could(inputs[0])

    def match(self, node: Tensor, captured: Found) -> Any:
        if isinstance(node.op, Reduction):
            yield from self.inner.match(node.inputs[0], {**captured, self.label: node})

    def __repr__(self) -> str:
        return f"{self.label}({self.inner!r})"


def _axes(node: Tensor) -> tuple[int, ...]:
    op: Any = node.op
    return op.axes


def _keeps(node: Tensor) -> bool:
    op: Any = node.op
    return bool(op.keepdims)


def _refold(op: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    return replace(op, axes=axes, keepdims=keepdims)


def folded(op: Any, axes: tuple[int, ...]) -> Any:
    """The same fold over other axes, which go."""
    return _refold(op, axes, False)


def _fold_of_fold(m: Match) -> Tensor | None:
    """One fold over the axes of both, of the same kind."""
    outer, inner = m.root, m.g
    if type(outer.op) is not type(inner.op) or _keeps(outer) != _keeps(inner):
        return None
    first, second = _axes(inner), _axes(outer)
    if not _keeps(inner):
        left = [k for k in range(m.x.type.ndim) if k not in first]
        second = tuple(left[k] for k in second)
    axes = tuple(sorted({*first, *second}))
    return _refold(outer.op, axes, _keeps(outer))(m.x)


def _of_one(m: Match) -> Tensor | None:
    """A fold over extents of 1 moves nothing and adds nothing."""
    if any(m.x.type.shape[k] != 1 for k in _axes(m.root)):
        return None
    if m.x.type.dtype != m.root.type.dtype or m.x.type.axes:
        return None
    return in_shape(m.x, m.root.type.shape)


def _without_ones(m: Match) -> Tensor | None:
    """A fold without the axes of extent 1."""
    shape = m.x.type.shape
    axes = tuple(k for k in _axes(m.root) if shape[k] != 1)
    if axes == _axes(m.root) or not axes or m.x.type.axes:
        return None
    smaller: Tensor = _refold(m.root.op, axes, _keeps(m.root))(m.x)
    return in_shape(smaller, m.root.type.shape)


def _spread(m: Match) -> tuple[int, tuple[int, ...], Tensor] | None:
    """The count with which a fold meets each element of a broadcast, and the rest."""
    wide, inner = m.root.inputs[0], m.x
    if wide.type.axes or inner.type.axes or not wide.type.size:
        return None
    lead = wide.type.ndim - inner.type.ndim
    shape = (1,) * lead + inner.type.shape
    repeated = [k for k in _axes(m.root) if shape[k] != wide.type.shape[k]]
    if not repeated:
        return None
    count = math.prod(wide.type.shape[k] for k in repeated)
    rest = tuple(k for k in _axes(m.root) if k not in repeated)
    base = inner if not lead else Reshape(shape)(inner)
    if rest:
        base = _refold(m.root.op, rest, True)(base)
    extents = tuple(
        1 if k in _axes(m.root) else n for k, n in enumerate(base.type.shape)
    )
    kept = [n for k, n in enumerate(extents) if k not in _axes(m.root)]
    final = extents if _keeps(m.root) else tuple(kept)
    return count, rest, in_shape(base, final)


def _sum_of_broadcast(m: Match) -> Any:
    spread = _spread(m)
    return None if spread is None else spread[2] * counted(spread[0])


def _prod_of_broadcast(m: Match) -> Any:
    spread = _spread(m)
    return None if spread is None or spread[0] > 8 else spread[2] ** float(spread[0])


def _repeated(m: Match) -> Any:
    spread = _spread(m)
    if spread is None or type(m.root.op).__name__ not in REPEATED:
        return None
    return spread[2] if spread[2].type.dtype == m.root.type.dtype else None


def _mean_of_broadcast(m: Match) -> Any:
    spread = _spread(m)
    return None if spread is None else spread[2]


def _same_along(m: Match) -> Any:
    """A divisor that is the same along the axes, and may overflow, out of a sum."""
    inner, axes = m.root.inputs[0], _axes(m.root)
    if not is_wide(inner) or inner.type.axes or not axes or not overflows(m.y):
        return None
    lead = inner.type.ndim - m.y.type.ndim
    shape = (1,) * lead + m.y.type.shape
    if any(shape[k] != 1 for k in axes) or not equal_shapes(
        m.x.type.shape, inner.type.shape
    ):
        return None
    total: Any = _refold(m.root.op, axes, True)(m.x)
    quotient = total / (m.y if not lead else Reshape(shape)(m.y))
    return in_shape(quotient, m.root.type.shape)


def _of_permuted(m: Match) -> Tensor | None:
    """A fold of a permutation as the fold of what is permuted."""
    order = m.y.op.order  # type: ignore[attr-defined]
    axes = _axes(m.root)
    source_axes = tuple(sorted(order[k] for k in axes))
    total: Tensor = _refold(m.root.op, source_axes, _keeps(m.root))(m.x)
    if _keeps(m.root):
        return PermuteDims(order)(total)
    left = [k for k in range(len(order)) if k not in source_axes]
    rest = [left.index(order[k]) for k in range(len(order)) if k not in axes]
    same = rest == list(range(len(rest)))
    return total if same else PermuteDims(tuple(rest))(total)


def _of_reshaped(m: Match) -> Tensor | None:
    """A fold of everything reshaped as the fold of everything."""
    if len(_axes(m.root)) != m.y.type.ndim or m.root.type.axes:
        return None
    total: Tensor = _refold(m.root.op, tuple(range(m.x.type.ndim)), False)(m.x)
    return in_shape(total, m.root.type.shape)


def _opposite(m: Match) -> Any:
    """-max(x) for min(-x), and the other way round."""
    cls = OPPOSITE[type(m.root.op).__name__]
    return -cls(_axes(m.root), _keeps(m.root))(m.x)


OPPOSITE: dict[str, Any] = {"Max": min_(x).op, "Min": max_(x).op}


def _shared(d: Any) -> Any:
    total = d.td.exp(d("y", (4, 3))).sum(1, keepdims=True)
    return (d("x", (4, 3)) / total).sum(1)


REDUCTION = RuleSet(
    "reduction",
    [
        Rule("fold of a fold", AnyFold(AnyFold(x, "g")), _fold_of_fold, exact=False,
             example=lambda d: d("x", (2, 3, 4)).sum(1).sum(1)),
        Rule("mean of a mean", mean(mean(x, label="g")), _fold_of_fold, exact=False,
             takes="float", example=lambda d: d("x", (2, 3, 4)).mean(1).mean(1)),
        Rule("fold over one element", AnyFold(x), _of_one, exact=False,
             example=lambda d: d("x", (1, 3)).sum(0)),
        Rule("fold over some axes of one element", AnyFold(x), _without_ones,
             exact=False, example=lambda d: d("x", (1, 3)).sum((0, 1))),
        Rule("mean over one element", mean(x), _of_one, exact=False,
             example=lambda d: d("x", (3, 1)).mean(1)),
        Rule("sum of a broadcast", sum_(broadcast(x)), _sum_of_broadcast,
             lambda m: is_wide(m.root), False, takes="float",
             example=lambda d: d.td.broadcast_to(d("x", (3,)), (4, 3)).sum()),
        Rule("sum of a broadcast of whole numbers", sum_(broadcast(x)),
             _sum_of_broadcast, takes="integer",
             example=lambda d: d.td.broadcast_to(d.whole("x", (3,)), (4, 3)).sum(
                 dtype="int32")),
        Rule("product of a broadcast", prod(broadcast(x)), _prod_of_broadcast,
             exact=False, enables=True, takes="float",
             example=lambda d: d.td.broadcast_to(d("x", (3,)), (4, 3)).prod(0)),
        Rule("mean of a broadcast", mean(broadcast(x)), _mean_of_broadcast,
             exact=False,
             example=lambda d: d.td.broadcast_to(d("x", (3,)), (4, 3)).mean()),
        Rule("extremes of a broadcast", AnyFold(broadcast(x)), _repeated, takes="any",
             example=lambda d: d.td.broadcast_to(d("x", (3,)), (4, 3)).max(0)),
        stable("divisor the same along a sum", sum_(x / y), _same_along, _shared),
        Rule("fold of a permutation", AnyFold(permute(x, label="y")), _of_permuted,
             exact=False, takes="any",
             example=lambda d: d("x", (2, 3, 4)).transpose(2, 0, 1).sum(0)),
        Rule("fold of everything reshaped", AnyFold(reshape(x, label="y")),
             _of_reshaped, exact=False, takes="any",
             example=lambda d: d("x", (2, 3)).reshape(6).sum()),
        Rule("sum of a negative", sum_(-x), outward, exact=False, takes="numeric",
             example=lambda d: (-d("x", (2, 3))).sum(1)),
        Rule("mean of a negative", mean(-x), outward, exact=False,
             example=lambda d: (-d("x", (2, 3))).mean(1)),
        Rule("greatest of negatives", max_(-x), _opposite, takes="float",
             example=lambda d: (-d("x", (2, 3))).max(1)),
        Rule("least of negatives", min_(-x), _opposite, takes="float",
             example=lambda d: (-d("x", (2, 3))).min(1)),
    ],
)  # fmt: skip
