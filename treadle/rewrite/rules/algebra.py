"""Algebra on elements: signs, multiples, quotients, order, and what ops declare."""

from __future__ import annotations

from typing import Any

from treadle.base.dtypes import kind
from treadle.rewrite.facts import is_nonnegative, is_wide, number_of
from treadle.rewrite.pattern import Trait, captures, numbers, of
from treadle.rewrite.rule import Match, Rule, RuleSet

x, y, z = captures("x y z")
(w,) = captures("w", lambda n: number_of(n) is None)
a, c = numbers("a c")
abs_, square = of("Abs"), of("Square")
maximum, minimum = of("Maximum"), of("Minimum")
cos, sin, tanh, erf = of("Cos"), of("Sin"), of("Tanh"), of("Erf")
reciprocal, sign, relu = of("Reciprocal"), of("Sign"), of("Relu")
greater, less = of("Greater"), of("Less")
greater_equal, less_equal = of("GreaterEqual"), of("LessEqual")
logical_not, equal, not_equal = of("LogicalNot"), of("Equal"), of("NotEqual")


def _same_op(m: Match) -> bool:
    return bool(m.f.op == m.g.op)


def _two_or_half(m: Match) -> bool:
    """Other numbers may be sizes, which must not decide what code there is."""
    return abs(float(m.number("c"))) in (0.5, 2.0)


def _floats(m: Match) -> bool:
    """Whether the operands compared are floats: integers have a least one."""
    return kind(m.x.type.dtype) == "float"


def _counts(m: Match) -> bool:
    """Whether the operands compared are never NaN."""
    return kind(m.x.type.dtype) in ("bool", "integer")


SIGNS = RuleSet(
    "signs",
    [
        Rule(
            "involution",
            Trait(lambda t: t.involution, [Trait(lambda t: t.involution, [x], "g")]),
            x,
            when=_same_op,
            takes="any",
            example=lambda d: d.td.negative(-d()),
        ),
        Rule(
            "idempotence",
            Trait(
                lambda t: t.idempotent,
                [Trait(lambda t: t.idempotent, [x], "g")],
            ),
            lambda m: m.g,
            when=_same_op,
            example=lambda d: d.td.floor(d.td.floor(d())),
        ),
        Rule(
            "idempotence of two operands",
            Trait(lambda t: t.idempotent and t.commutative, (x, x)),
            x,
            example=lambda d: d.td.maximum(d("x"), d("x")),
        ),
        Rule(
            "absorption",
            Trait(
                lambda t: t.idempotent and t.commutative,
                (x, Trait(lambda t: t.idempotent and t.commutative, (x, y), "g")),
            ),
            lambda m: m.g,
            when=_same_op,
            example=lambda d: d.td.maximum(d("x"), d.td.maximum(d("x"), d("y"))),
        ),
        Rule("add a negative", x + -y, x - y, takes="numeric"),
        Rule("subtract a negative", x - -y, x + y, takes="numeric"),
        Rule("negative less", -x - y, -(x + y), exact=False, takes="numeric"),
        Rule(
            "negate a difference", -(x - y), y - x, exact=False, takes="numeric"
        ),  # of equal numbers 0.0, not -0.0
        Rule("multiply negatives", -x * -y, x * y, takes="numeric"),
        Rule("multiply a negative", -x * y, -(x * y), takes="numeric"),
        Rule("divide a negative", -x / y, -(x / y)),
        Rule("divide by a negative", x / -y, -(x / y)),
        Rule("negate a multiple", -(w * c), w * -c, takes="numeric"),
        Rule("negate a quotient by a number", -(w / c), w / -c),
        Rule("negate a quotient of a number", -(c / w), -c / w),
        Rule("absolute value of a negative", abs_(-x), abs_(x)),
        Rule("square of a negative", square(-x), square(x), takes="numeric"),
        Rule("square of an absolute value", square(abs_(x)), square(x)),
        Rule(
            "absolute value of what is not negative",
            abs_(x),
            x,
            when=lambda m: is_nonnegative(m.x),
            exact=False,  # -0.0
            example=lambda d: d.td.abs(d.td.exp(d())),
        ),
        Rule(
            "rectify what is not negative",
            relu(x),
            x,
            when=lambda m: is_nonnegative(m.x),
            exact=False,
            example=lambda d: d.td.relu(d.td.sigmoid(d())),
        ),
        Rule(
            "greater than 0 already",
            maximum(x, c),
            x,
            when=lambda m: m.number("c") <= 0 and is_nonnegative(m.x),
            exact=False,
            example=lambda d: d.td.maximum(d.td.square(d()), 0.0),
        ),
        Rule("cosine of a negative", cos(-x), cos(x), exact=False),
        Rule("sine of a negative", sin(-x), -sin(x), exact=False),
        Rule("hyperbolic tangent of a negative", tanh(-x), -tanh(x), exact=False),
        Rule("error function of a negative", erf(-x), -erf(x), exact=False),
        Rule("greater of negatives", greater(-x, -y), less(x, y), _floats),
        Rule("less of negatives", less(-x, -y), greater(x, y), _floats),
        Rule("negative above 0", greater(-x, 0), less(x, 0), _floats),
        Rule("negative below 0", less(-x, 0), greater(x, 0), _floats),
        Rule(
            "not equal",
            logical_not(equal(x, y)),
            not_equal(x, y),
            example=lambda d: d.td.logical_not(d("x") == d("y")),
        ),
        Rule(
            "equal",
            logical_not(not_equal(x, y)),
            equal(x, y),
            example=lambda d: d.td.logical_not(d("x") != d("y")),
        ),
        Rule(
            "not less",  # NaN is neither: only of whole numbers
            logical_not(less(x, y)),
            greater_equal(x, y),
            when=_counts,
            example=lambda d: d.td.logical_not(d.whole("x") < d.whole("y")),
        ),
        Rule(
            "not greater",
            logical_not(greater(x, y)),
            less_equal(x, y),
            when=_counts,
            example=lambda d: d.td.logical_not(d.whole("x") > d.whole("y")),
        ),
    ],
)


def _tame(m: Match) -> bool:
    """Whether numbers may be joined: neither overflow nor underflow is near."""
    if not is_wide(m.root):
        return False
    for n in m.captures.values():
        number = number_of(n)
        if number is not None and number and not 1e-9 <= abs(number) <= 1e9:
            return False
    return True


def _joined(name: str, left: Any, right: Any, takes: str = "numeric") -> Rule:
    """A rule that joins numbers, which rounds otherwise."""
    return Rule(name, left, right, _tame, exact=False, takes=takes)


def _alike(m: Match) -> bool:
    """Whether all operands have the size of the result, in a type with room."""
    size = m.root.type.size
    return is_wide(m.root) and all(n.type.size == size for n in m.captures.values())


MULTIPLES = RuleSet(
    "multiples",
    [
        Rule("twice", w + w, w * 2, takes="numeric"),
        Rule("product with itself", w * w, square(w), takes="numeric"),
        _joined("add up multiples", w * a + w * c, w * (a + c)),
        _joined("add to a multiple", w * c + w, w * (c + 1)),
        _joined("subtract multiples", w * a - w * c, w * (a - c)),
        _joined("subtract from a multiple", w * c - w, w * (c - 1)),
        _joined("subtract a multiple", w - w * c, w * (1 - c)),
        _joined("factor out a number", x * c + y * c, (x + y) * c),
        _joined("factor a number out of a difference", x * c - y * c, (x - y) * c),
        _joined("factor out a divisor", x / c + y / c, (x + y) / c),
        _joined("factor a divisor out of a difference", x / c - y / c, (x - y) / c),
        _joined("multiply by two numbers", w * a * c, w * (a * c)),
        _joined("add two numbers", w + a + c, w + (a + c)),
        _joined("add and subtract numbers", (w + a) - c, w + (a - c)),
        _joined("subtract and add numbers", (w - a) + c, w + (c - a)),
        _joined("subtract two numbers", w - a - c, w - (a + c)),
        _joined("subtract a sum from a number", c - (w + a), (c - a) - w),
        _joined("subtract a difference from a number", c - (a - w), w + (c - a)),
        _joined("add to a number less", (a - w) + c, (a + c) - w),
        _joined("divide a multiple", w * a / c, w * (a / c), "float"),
        _joined("multiply a quotient", w / a * c, w * (c / a), "float"),
        _joined("divide by two numbers", w / a / c, w / (a * c), "float"),
        _joined("multiply a number's quotient", a / w * c, a * c / w, "float"),
        _joined("divide a number's quotient", a / w / c, a / c / w, "float"),
        _joined("divide a number by a quotient", a / (w / c), a * c / w, "float"),
        _joined("divide a number by a multiple", a / (w * c), a / c / w, "float"),
        Rule(
            "number out of a product",
            w * c * x,
            w * x * c,
            when=lambda m: _tame(m) and m.w.type.size >= m.root.type.size,
            exact=False,
            takes="numeric",
        ),
        Rule(
            "number over a value in a product",
            a / w * x,
            x / w * a,
            when=lambda m: _tame(m) and m.w.type.size >= m.root.type.size,
            exact=False,
            takes="float",
        ),
        _joined("square of a multiple", square(w * c), square(w) * (c * c)),
    ],
)

QUOTIENTS = RuleSet(
    "quotients",
    [
        Rule("factor out", x * w + y * w, (x + y) * w, _alike, False, takes="numeric"),
        Rule(
            "factor out of a difference",
            x * w - y * w,
            (x - y) * w,
            _alike,
            False,
            takes="numeric",
        ),
        Rule(
            "divide by two or a half",
            w / c,
            lambda m: m.w * (1.0 / m.number("c")),
            when=_two_or_half,
            takes="float",
            example=lambda d: d() / 2.0,
        ),
        Rule("one divided", 1 / w, reciprocal(w), takes="float"),
        Rule("reciprocal of a reciprocal", reciprocal(reciprocal(x)), x, exact=False),
        Rule("reciprocal of a quotient", reciprocal(x / y), y / x, exact=False),
        Rule("divide by a reciprocal", x / reciprocal(y), x * y, exact=False),
        Rule("sign times absolute value", sign(x) * abs_(x), x, exact=False),
        Rule(
            "add what was subtracted",  # a float may lose x beside a large y
            (x - y) + y,
            x,
            takes="integer",
            example=lambda d: (d.whole("x") - d.whole("y")) + d.whole("y"),
        ),
        Rule(
            "subtract what was added",
            (x + y) - y,
            x,
            takes="integer",
            example=lambda d: (d.whole("x") + d.whole("y")) - d.whole("y"),
        ),
    ],
)

ALGEBRA = SIGNS + MULTIPLES + QUOTIENTS
