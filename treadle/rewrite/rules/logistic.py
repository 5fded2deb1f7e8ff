"""Sums of products in which a sigmoid's exponentials cancel, as polynomials.

With s = sigmoid(x) and c = 1 - s = sigmoid(-x) are exp(x) = s / c, 1 + exp(x) = 1 / c,
and a term is a product of other things with powers of s and c. Terms of opposite sign
that differ by one factor s are one term with a c more: u - u s = u c. So go negative
powers, which overflow in the gradient of exp(x) / (1 + exp(x)).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from treadle.graph.leaves import literal_node
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.ops.activation import Sigmoid
from treadle.ops.elementary import Exp
from treadle.ops.elementwise import Add, Divide, Multiply, Negative, Subtract
from treadle.ops.power import Reciprocal, Square
from treadle.rewrite.facts import is_number, number_of
from treadle.rewrite.index import Within
from treadle.rewrite.rule import Match, Rule, RuleSet, stable
from treadle.rewrite.rules.products import Products

DEPTH = 8  # levels of an expression that are looked into
NEAR = 5  # levels in which there must be an exponential or a divisor
TERMS = 12  # of a sum
Powers = tuple[int, int]
_SUMS = (Add, Subtract)
_OPEN = (Add, Subtract, Multiply, Divide, Negative, Reciprocal, Square)


@dataclass(frozen=True)
class LogisticTerm:
    """scale * s**ones * c**others * factors / divisors."""

    scale: float = 1.0
    ones: int = 0
    others: int = 0
    factors: tuple[Tensor, ...] = ()
    divisors: tuple[Tensor, ...] = ()

    def __mul__(self, other: LogisticTerm) -> LogisticTerm:
        return LogisticTerm(
            self.scale * other.scale,
            self.ones + other.ones,
            self.others + other.others,
            self.factors + other.factors,
            self.divisors + other.divisors,
        )

    @property
    def rest(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The term without its powers, for comparison."""
        parts = self.factors, self.divisors
        top, below = (tuple(sorted(x.serial for x in part)) for part in parts)
        return top, below


def _base(u: Tensor) -> tuple[Tensor, int]:
    """u as a sign times something."""
    return (u.inputs[0], -1) if type(u.op) is Negative else (u, 1)


class _Terms:
    """Expressions as sums of terms in the sigmoid of one x."""

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self.seen = False  # a sigmoid of it

    def atom(self, node: Tensor) -> LogisticTerm | None:
        """s, c, exp(x), exp(-x) or 1 + exp(x), 1 + exp(-x) as a term."""
        kind = type(node.op)
        if kind is Sigmoid or kind is Exp:
            x, sign = _base(node.inputs[0])
            if x is not self.x:
                return None
            if kind is Exp:
                return LogisticTerm(1, sign, -sign)
            self.seen = True
            return LogisticTerm(1, 1, 0) if sign > 0 else LogisticTerm(1, 0, 1)
        if kind is Subtract and is_number(node.inputs[0], 1):
            one = self.atom(node.inputs[1])
            if one in (LogisticTerm(1, 1, 0), LogisticTerm(1, 0, 1)):
                return LogisticTerm(1, one.others, one.ones)
        if kind is Add:
            for unit, e in (node.inputs, node.inputs[::-1]):
                if is_number(unit, 1) and type(e.op) is Exp:
                    x, sign = _base(e.inputs[0])
                    if x is self.x:
                        return (
                            LogisticTerm(1, 0, -1)
                            if sign > 0
                            else LogisticTerm(1, -1, 0)
                        )
        return None

    def of(self, node: Tensor, depth: int = DEPTH) -> list[LogisticTerm] | None:
        """The terms of a node; None where there are too many."""
        atom = self.atom(node)
        if atom is not None:
            return [atom]
        kind = type(node.op)
        number = number_of(node)
        if number is not None:
            return [LogisticTerm(float(number))]
        if not depth or kind not in _OPEN:
            return [LogisticTerm(factors=(node,))]
        if kind is Reciprocal:
            return [self._below(node.inputs[0])]
        parts = [self.of(v, depth - 1) for v in node.inputs[: 1 + (kind is not Divide)]]
        if any(part is None for part in parts):
            return None
        first, *more = [part for part in parts if part is not None]
        if kind is Negative:
            return [replace(t, scale=-t.scale) for t in first]
        if kind in _SUMS:
            sign = 1 if kind is Add else -1
            terms = first + [replace(t, scale=sign * t.scale) for t in more[0]]
        elif kind is Divide:
            below = self._below(node.inputs[1])
            terms = [t * below for t in first]
        else:
            terms = [t * u for t in first for u in (more[0] if more else first)]
        return terms if len(terms) <= TERMS else None

    def _below(self, d: Tensor) -> LogisticTerm:
        """The term 1 / d."""
        atom = self.atom(d)
        if atom is None:
            return LogisticTerm(divisors=(d,))
        return LogisticTerm(1, -atom.ones, -atom.others)

    def build(self, terms: list[LogisticTerm]) -> Any:
        """The sum of terms, positive ones first."""
        total: Any = None
        for t in sorted(terms, key=lambda t: -t.scale):
            powers = [Sigmoid()(self.x)] * t.ones + [Sigmoid()(-self.x)] * t.others
            one: Any = None
            for v in (*t.factors, *powers):
                one = v if one is None else one * v
            for v in t.divisors:
                one = (1 if one is None else one) / v
            size = abs(t.scale)
            if one is None or size != 1:
                number = literal_node(size, self.x.type.dtype)
                one = number if one is None else one * number
            if total is None:
                total = one if t.scale > 0 else -one
            else:
                total = total + one if t.scale > 0 else total - one
        return 0 if total is None else total


def _collected(terms: list[LogisticTerm]) -> list[LogisticTerm]:
    """The terms with u - u s as u c, u - u c as u s, and opposite ones gone."""
    groups: dict[Any, dict[Powers, float]] = {}
    sample: dict[Any, LogisticTerm] = {}
    for t in terms:
        scales = groups.setdefault(t.rest, {})
        scales[t.ones, t.others] = scales.get((t.ones, t.others), 0.0) + t.scale
        sample.setdefault(t.rest, t)
    result: list[LogisticTerm] = []
    for rest, powers in groups.items():
        while _joined(powers):
            pass
        for (ones, others), scale in powers.items():
            if scale:
                one = replace(sample[rest], ones=ones, others=others, scale=scale)
                result.append(one)
    return result


def _joined(powers: dict[Powers, float]) -> bool:
    """Join two terms of opposite sign, if there are such."""
    for (a, b), scale in list(powers.items()):
        for other, result in (((a + 1, b), (a, b + 1)), ((a, b + 1), (a + 1, b))):
            against = powers.get(other, 0.0)
            if scale * against < 0:
                part = min(abs(scale), abs(against)) * (1 if scale > 0 else -1)
                powers[a, b] -= part
                powers[other] += part
                powers[result] = powers.get(result, 0.0) + part
                return True
    return False


def _overflows(node: Tensor) -> Tensor | None:
    """The x of an exponential, or of a sigmoid that a node divides by."""
    kind = type(node.op)
    if kind is Divide or kind is Reciprocal:
        d = node.inputs[-1]
        if type(d.op) is Subtract:  # one less a sigmoid
            d = d.inputs[1]
        if type(d.op) is Sigmoid:
            return _base(d.inputs[0])[0]
    return _base(node.inputs[0])[0] if kind is Exp else None


def _danger(root: Tensor) -> Tensor | None:
    """The x of an exponential or a divisor near the root that overflows, if any."""
    level = [root]
    for _ in range(NEAR):
        below: list[Tensor] = []
        for node in level:
            x = _overflows(node)
            if x is not None:
                return x
            if type(node.op) in _OPEN:
                below += node.inputs
        level = below[: 2 * TERMS]
    return None


def _logistic(m: Match) -> Any:
    """The polynomial, where exponentials and divisions by s and c go by it."""
    x = _danger(m.root)
    if x is None:
        return None
    terms = _Terms(x)
    expanded = terms.of(m.root)
    if expanded is None or not terms.seen:
        return None
    collected = _collected(expanded)
    if any(t.ones < 0 or t.others < 0 for t in collected):
        return None
    return terms.build(collected)


# -- the table -----------------------------------------------------------------------


def _slope(d: Any) -> Any:
    """The cross entropy's slope by exp(x) / (1 + exp(x)), as it is derived."""
    x = d("x", (3, 4))
    s, e, t = d.td.sigmoid(x), d.td.exp(x), d("t", (3, 4))
    return t * e - t * e * s


def _slope_sum(d: Any) -> Any:
    x = d("x", (3, 4))
    s, e, t = d.td.sigmoid(x), d.td.exp(x), d("t", (3, 4))
    return t * (e * s) * -1.0 + t * e


def _product(d: Any) -> Any:
    s = d.td.sigmoid(d("x", (3, 4)))
    return (s * d("t", (3, 4)) / (1 - s)) * (1 - s)


# Most products in a sigmoid, as in a gate, have nothing that overflows in them.
_DANGER = Within(
    (Divide, Reciprocal, Exp), _OPEN, lambda node: _overflows(node) is not None
)


def _rule(name: str, root: type[Op], example: Any) -> Rule:
    inside = Products(root, Divide, Exp, Sigmoid)
    return stable(name, inside, _logistic, example, within=_DANGER)


LOGISTIC = RuleSet(
    "logistic",
    [
        _rule("sum in a sigmoid", Add, _slope_sum),
        _rule("difference in a sigmoid", Subtract, _slope),
        _rule("product in a sigmoid", Multiply, _product),
    ],
)
