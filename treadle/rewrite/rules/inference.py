"""Scales and shifts folded into weights: for a model that only runs, by request.

These rules are not in the standard set: they make a product again where its result is
also read elsewhere, and move a center behind a scale, which rounds worse where the
center is large.
"""

from __future__ import annotations

from typing import Any

from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach
from treadle.ops.contract import Contract, letters
from treadle.ops.families import Elementwise, Movement
from treadle.ops.movement import Reshape
from treadle.rewrite.facts import is_wide
from treadle.rewrite.pattern import captures, of
from treadle.rewrite.rule import Match, Rule, RuleSet
from treadle.rewrite.rules.contraction import placed

x, s, b, p, w = captures("x s b p w")
contract, conv = of("Contract"), of("Conv")
FEW = 64  # nodes a parameter's expression may have


def is_parameter(v: Tensor) -> bool:
    """Whether a value is made from leaves by ops on elements alone."""
    nodes = reach([v])
    return len(nodes) <= FEW and all(
        not n.inputs or isinstance(n.op, (Elementwise, Movement)) for n in nodes
    )


def _smaller(*names: str) -> Any:
    def holds(m: Match) -> bool:
        nodes = [m.captures[n] for n in names]
        return is_wide(m.root) and all(
            v.type.size < m.x.type.size and is_parameter(v) for v in nodes
        )

    return holds


def _along(v: Tensor, ndim: int) -> int | None:
    """The one dimension, of `ndim`, along which a value is not the same."""
    lead = ndim - v.type.ndim
    axes = [k + lead for k, n in enumerate(v.type.shape) if n != 1]
    return axes[0] if len(axes) == 1 else None


def _into_weights(m: Match) -> Tensor | None:
    """A product times a number for each of its columns, as one with scaled weights."""
    op: Any = m.y.op
    p, w = m.y.inputs
    a, weights, out = letters(op.spec)
    k = _along(m.s, m.y.type.ndim)
    if k is None or out[k] in a or not is_parameter(w) or not is_parameter(m.s):
        return None
    if w.type.size >= m.y.type.size or not is_wide(m.root):
        return None
    column = Reshape((m.s.type.size,))(m.s)
    return Contract(op.spec)(p, w * placed(column, out[k], weights))


def _into_filters(m: Match) -> Tensor | None:
    """A convolution times a number for each channel, as one with scaled filters."""
    p, w = m.y.inputs
    k = _along(m.s, m.y.type.ndim)
    if k != 1 or not is_parameter(w) or not is_parameter(m.s):
        return None
    op: Any = m.y.op
    column = Reshape((m.s.type.size, *[1] * (w.type.ndim - 1)))(m.s)
    return op(p, w * column)


def _conv(d: Any) -> Any:
    return d.td.conv2d(d("x", (2, 3, 5, 5)), d("w", (4, 3, 2, 2)))


INFERENCE = RuleSet(
    "inference",
    [
        Rule("join scales", x * s * b, x * (s * b), _smaller("s", "b"), False,
             takes="float",
             example=lambda d: d("x", (4, 3)) * d("s", (3,)) * d("b", (3,))),
        Rule("scale before the center", (x - b) * s, x * s - b * s, _smaller("s", "b"),
             False, enables=True, takes="float",
             example=lambda d: (d("x", (4, 3)) - d("b", (3,))) * d("s", (3,))),
        Rule("scale before the shift", (x + b) * s, x * s + b * s, _smaller("s", "b"),
             False, enables=True, takes="float",
             example=lambda d: (d("x", (4, 3)) + d("b", (3,))) * d("s", (3,))),
        Rule("join a shift and a center", x + s - b, x + (s - b), _smaller("s", "b"),
             False, takes="float",
             example=lambda d: d("x", (4, 3)) + d("s", (3,)) - d("b", (3,))),
        Rule("join shifts", x - s + b, x + (b - s), _smaller("s", "b"), False,
             takes="float",
             example=lambda d: d("x", (4, 3)) - d("s", (3,)) + d("b", (3,))),
        Rule("scale folded into weights", contract(p, w, label="y") * s, _into_weights,
             exact=False, takes="float",
             example=lambda d: (d("x", (9, 2)) @ d("w", (2, 3))) * d("s", (3,))),
        Rule("scale folded into filters",
             conv(p, w, label="y") * s, _into_filters,
             exact=False, takes="float",
             example=lambda d: _conv(d) * d("s", (4, 1, 1))),
    ],
)  # fmt: skip
