"""Expressions that overflow, or divide 0 by 0, where mathematics does not.

Softmax, sigmoid and their logarithms are recognized, in values and in gradients;
`products.py` has what cancels in them.
"""

from __future__ import annotations

from typing import Any

from treadle.autodiff.expressions import CHOOSES
from treadle.base.types import equal_shapes
from treadle.graph.tensor import Tensor
from treadle.ops.loss import CrossEntropy
from treadle.ops.softmax import LogSoftmax, Softmax
from treadle.ops.statistics import LogSumExp
from treadle.rewrite.pattern import captures, of
from treadle.rewrite.rule import Match, RuleSet, stable
from treadle.rewrite.rules.logistic import LOGISTIC
from treadle.rewrite.rules.products import PRODUCTS, folded_axis

x, y, t = captures("x y t")
exp, log, log1p, sum_ = of("Exp"), of("Log"), of("Log1p"), of("Sum")
sigmoid, log_sigmoid, softplus = of("Sigmoid"), of("LogSigmoid"), of("Softplus")
softmax, log_softmax, logaddexp = of("Softmax"), of("LogSoftmax"), of("LogAddExp")
tanh, reciprocal, logsumexp = of("Tanh"), of("Reciprocal"), of("LogSumExp")
sinh, cosh, sin, cos, tan = (of(n) for n in ("Sinh", "Cosh", "Sin", "Cos", "Tan"))
pick, square = of("PickLabel"), of("Square")


def _softmax(m: Match) -> Tensor | None:
    axis = folded_axis(m.t, m.root.inputs[0])
    return None if axis is None else Softmax(axis)(m.x)


def _log_sum(m: Match) -> Tensor:
    op: Any = m.t.op
    return LogSumExp(op.axes, op.keepdims)(m.x)


def _log_of_softmax(m: Match) -> Tensor:
    op: Any = m.y.op
    return LogSoftmax(op.axis)(m.x)


def _log_of_part(m: Match) -> Tensor | None:
    """Elements of a softmax that are only chosen and moved before the logarithm."""
    chain: list[Tensor] = []
    part = m.t
    while isinstance(part.op, CHOOSES):
        chain.append(part)
        part = part.inputs[0]
    if not chain or not isinstance(part.op, Softmax):
        return None
    result: Any = LogSoftmax(part.op.axis)(part.inputs[0])
    for node in reversed(chain):
        result = node.op(result, *node.inputs[1:])
    return result


def _softmax_of_log(m: Match) -> Tensor:
    op: Any = m.y.op
    return Softmax(op.axis)(m.x)


def _less_its_sum(m: Match) -> Tensor | None:
    """x - logsumexp(x) along one axis."""
    op: Any = m.y.op
    x, axes = m.x, op.axes
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.type.shape))
    fits = len(axes) == 1 and equal_shapes(m.y.type.shape, kept)
    return LogSoftmax(axes[0])(x) if fits else None


def _unshifted(m: Match) -> Tensor | None:
    """A softmax of x - y where y is the same along the axis."""
    op: Any = m.root.op
    k = m.root.type.ndim - op.axis
    shape = m.y.type.shape
    alike = len(shape) < k or shape[-k] == 1
    return (
        op(m.x) if alike and equal_shapes(m.x.type.shape, m.root.type.shape) else None
    )


def _labeled(m: Match) -> Tensor | None:
    """-log_softmax(x)[label]."""
    chosen: Any = m.t.op
    scores: Any = m.y.op
    return CrossEntropy(chosen.axis)(m.x, m.l) if chosen.axis == scores.axis else None


# -- the table ----------------------------------------------------------------------


def _shares(d: Any) -> Any:
    e = d.td.exp(d("x", (3, 4)))
    return e / e.sum(1, keepdims=True)


EXPANDED = RuleSet(
    "stability",
    [
        stable("softmax spelled out", exp(x) / t, _softmax, _shares),
        stable("sigmoid spelled out", reciprocal(exp(-x) + 1), sigmoid(x)),
        stable("sigmoid of a negative", reciprocal(exp(x) + 1), sigmoid(-x)),
        stable("sigmoid by an exponential", exp(x) / (exp(x) + 1), sigmoid(x)),
        stable("logarithm of a sigmoid", log(sigmoid(x)), log_sigmoid(x)),
        stable("logarithm of one less a sigmoid", log(1 - sigmoid(x)), log_sigmoid(-x)),
        stable("log1p of a negative sigmoid", log1p(-sigmoid(x)), log_sigmoid(-x)),
        stable("exponential of log-sigmoid", exp(log_sigmoid(x)), sigmoid(x)),
        stable("log-sigmoid is a softplus", -log_sigmoid(x), softplus(-x)),
        stable("softplus spelled out", log1p(exp(x)), softplus(x)),
        stable("softplus less its operand", softplus(x) - x, softplus(-x)),
        stable("softplus of a negative more", softplus(-x) + x, softplus(x)),
        stable(
            "logarithm of a softmax",
            log(softmax(x, label="y")),
            _log_of_softmax,
            lambda d: d.td.log(d.td.softmax(d("x", (3, 4)), 1)),
        ),
        stable(
            "logarithm of a part of a softmax",
            log(t),
            _log_of_part,
            lambda d: d.td.log(d.td.softmax(d("x", (3, 4)), 1)[:, 2]),
        ),
        stable(
            "exponential of log-softmax",
            exp(log_softmax(x, label="y")),
            _softmax_of_log,
            lambda d: d.td.exp(d.td.log_softmax(d("x", (3, 4)), 1)),
        ),
        stable(
            "logarithm of a sum of exponentials",
            log(sum_(exp(x), label="t")),
            _log_sum,
            lambda d: d.td.log(d.td.exp(d("x", (3, 4))).sum(1)),
        ),
        stable(
            "logarithm of a sum of two exponentials",
            log(exp(x) + exp(y)),
            logaddexp(x, y),
        ),
        stable(
            "less its logarithm of a sum",
            x - logsumexp(x, label="y"),
            _less_its_sum,
            lambda d: d("x", (3, 4)) - d.td.logsumexp(d("x", (3, 4)), 1, keepdims=True),
        ),
        stable(
            "softmax of a shift",
            softmax(x - y),
            _unshifted,
            lambda d: d.td.softmax(d("x", (3, 4)) - d("y", (3, 1)), 1),
        ),
        stable(
            "log-softmax of a shift",
            log_softmax(x - y),
            _unshifted,
            lambda d: d.td.log_softmax(d("x", (3, 4)) - d("y", (3, 1)), 1),
        ),
        stable(
            "cross entropy spelled out",
            -pick(log_softmax(x, label="y"), captures("l")[0], label="t"),
            _labeled,
            lambda d: d.td.nll_loss(
                d.td.log_softmax(d("x", (3, 4)), 1), d.labels(3, 4), reduction="none"
            ),
        ),
        stable(
            "hyperbolic tangent spelled out",
            (exp(x) - exp(-x)) / (exp(x) + exp(-x)),
            tanh(x),
        ),
        stable("hyperbolic tangent as a quotient", sinh(x) / cosh(x), tanh(x)),
        stable("tangent as a quotient", sin(x) / cos(x), tan(x)),
    ],
)

STABILITY = EXPANDED + LOGISTIC + PRODUCTS
