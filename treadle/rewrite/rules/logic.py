"""Truth values, comparisons of whole numbers, limits."""

from __future__ import annotations

from typing import Any

from treadle.graph.tensor import Tensor
from treadle.rewrite.pattern import captures, numbers, of
from treadle.rewrite.rule import Match, Rule, RuleSet

x, y = captures("x y")
a, b = numbers("a b")
equal, not_equal = of("Equal"), of("NotEqual")
less, greater = of("Less"), of("Greater")
less_equal, greater_equal = of("LessEqual"), of("GreaterEqual")
minimum, maximum = of("Minimum"), of("Maximum")
bitwise_xor, logical_xor = of("BitwiseXor"), of("LogicalXor")
invert, logical_not = of("BitwiseInvert"), of("LogicalNot")


def _counts(m: Match) -> bool:
    """Whether what is compared is whole: NaN is not even itself."""
    return m.x.type.dtype.kind in "biu"


def _is_truth(m: Match) -> bool:
    return m.root.type.dtype.kind == "b"


def _lower(m: Match) -> Tensor | None:
    return _limit(m, min(m.number("a"), m.number("b")))


def _higher(m: Match) -> Tensor | None:
    return _limit(m, max(m.number("a"), m.number("b")))


def _limit(m: Match, value: float) -> Tensor:
    """x held by one of the two numbers."""
    kept = m.a if m.number("a") == value else m.b
    return m.root.op(m.x, kept)


def _self(name: str) -> Any:
    """A whole number compared with itself."""
    return lambda d: getattr(d.td, name)(d.whole("x"), d.whole("x"))


# -- the table -----------------------------------------------------------------------

LOGIC = RuleSet(
    "logic",
    [
        Rule("equal to itself", equal(x, x), 1, _counts, example=_self("equal")),
        Rule("not equal to itself", not_equal(x, x), 0, _counts,
             example=_self("not_equal")),
        Rule("less than itself", less(x, x), 0, _counts, example=_self("less")),
        Rule("greater than itself", greater(x, x), 0, _counts,
             example=_self("greater")),
        Rule("at most itself", less_equal(x, x), 1, _counts,
             example=_self("less_equal")),
        Rule("at least itself", greater_equal(x, x), 1, _counts,
             example=_self("greater_equal")),
        Rule("bits that differ from themselves", bitwise_xor(x, x), 0, takes="any",
             example=_self("bitwise_xor")),
        Rule("either of the same", logical_xor(x, x), 0, takes="any",
             example=lambda d: d.td.logical_xor(d("x") > 0, d("x") > 0)),
        Rule("inverted truth", invert(x), logical_not(x), _is_truth, takes="any",
             example=lambda d: ~(d("x") > 0)),
        Rule("lower limit of two", minimum(minimum(x, a), b), _lower),
        Rule("higher limit of two", maximum(maximum(x, a), b), _higher),
        Rule("greatest of two negatives", maximum(-x, -y), -minimum(x, y), exact=False),
        Rule("least of two negatives", minimum(-x, -y), -maximum(x, y), exact=False),
    ],
)  # fmt: skip
