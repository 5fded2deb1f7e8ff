"""Parts put into tensors, and ops that matter to derivatives alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.types import equal_shapes
from treadle.graph.tensor import Tensor
from treadle.ops.join import Concat
from treadle.ops.slice import Unslice
from treadle.rewrite.pattern import captures, of
from treadle.rewrite.rule import Match, Rule, RuleSet
from treadle.rewrite.rules.constants import constant

x, y, z = captures("x y z")
slice_, unslice, put = of("Slice"), of("Unslice"), of("SetSlice")
stop, scale, clip = of("StopGradient"), of("ScaleGradient"), of("ClipGradient")


def _same_place(a: Any, b: Any) -> bool:
    return bool((a.starts, a.stops, a.steps) == (b.starts, b.stops, b.steps))


def _apart(a: Any, b: Any) -> bool:
    """Whether two slices have no element in common."""
    pairs = zip(
        zip(a.starts, a.stops, a.steps, strict=True),
        zip(b.starts, b.stops, b.steps, strict=True),
        strict=True,
    )
    return any(p[2] == q[2] == 1 and (p[1] <= q[0] or q[1] <= p[0]) for p, q in pairs)


def _taken(m: Match) -> Any:
    """A slice of a tensor into which a part was put."""
    if _same_place(m.root.op, m.t.op):
        return m.y
    return m.root.op(m.x) if _apart(m.root.op, m.t.op) else None


def _given_back(m: Match) -> Any:
    """A slice of zeros with a part in them."""
    if _same_place(m.root.op, m.t.op):
        return m.x
    if _apart(m.root.op, m.t.op):
        return constant(np.zeros((), m.root.type.dtype))
    return None


def _whole(m: Match) -> Any:
    """A part that fills all of what it is put into, front to back."""
    op: Any = m.root.op
    same = equal_shapes(m.root.inputs[-1].type.shape, m.root.type.shape)
    return m.root.inputs[-1] if same and all(c > 0 for c in op.steps) else None


def _adjacent(m: Match) -> Tensor | None:
    """Two parts of zeros that lie side by side, as one."""
    a: Any = m.t.op
    b: Any = m.u.op
    left, right = m.x, m.y
    if a.starts > b.starts:
        a, b, left, right = b, a, right, left
    pairs = zip(a.starts, a.stops, b.starts, b.stops, strict=True)
    other = [k for k, (i, j, p, q) in enumerate(pairs) if (i, j) != (p, q)]
    if (
        not equal_shapes(a.shape, b.shape)
        or len(other) != 1
        or {*a.steps, *b.steps} != {1}
    ):
        return None
    (k,) = other
    if a.stops[k] != b.starts[k]:
        return None
    return Unslice(a.shape, a.starts, b.stops, a.steps)(Concat(k)(left, right))


def _over(m: Match) -> Tensor | None:
    """The last of two parts put into the same place."""
    return m.root.op(m.x, m.z) if _same_place(m.root.op, m.t.op) else None


def _unchanged(m: Match) -> Tensor | None:
    return m.x if _same_place(m.root.op, m.t.op) else None


def _row(d: Any) -> Any:
    return d("x", (4, 3)).at[1:3].set(d("y", (2, 3)))


STATE = RuleSet(
    "state",
    [
        Rule("slice of what was put there", slice_(put(x, y, label="t")), _taken,
             takes="any", example=lambda d: _row(d)[1:3]),
        Rule("slice of zeros filled there", slice_(unslice(x, label="t")), _given_back,
             takes="any",
             example=lambda d: d.unslice(d("x", (2, 3)))[1:3]),
        Rule("put over everything", put(x, y), _whole, takes="any",
             example=lambda d: d.put(d("x", (4, 3)), d("y", (4, 3)))),
        Rule("zeros filled everywhere", unslice(x), _whole, takes="any",
             example=lambda d: d.unslice(d("x", (4, 3)))),
        Rule("zeros filled side by side", unslice(x, label="t") + unslice(y, label="u"),
             _adjacent, takes="any", exact=False,
             example=lambda d: d.part(0, 1) + d.part(1, 3)),
        Rule("put over what was put", put(put(x, y, label="t"), z), _over, takes="any",
             example=lambda d: _row(d).at[1:3].set(d("z", (2, 3)))),
        Rule("put back what was there", put(x, slice_(x, label="t")), _unchanged,
             takes="any",
             example=lambda d: d("x", (4, 3)).at[1:3].set(d("x", (4, 3))[1:3])),
    ],
)  # fmt: skip

# Only once every derivative is taken.
FORWARD = RuleSet(
    "forward",
    [
        Rule("stopped gradient", stop(x), x, takes="any",
             example=lambda d: d.td.stop_gradient(d())),
        Rule("scaled gradient", scale(x, y), x, takes="any",
             example=lambda d: d.td.scale_gradient(d(), 2.0)),
        Rule("clipped gradient", clip(x, y), x, takes="any",
             example=lambda d: d.td.clip_gradient(d(), 2.0)),
    ],
)  # fmt: skip
