"""Truth values, comparisons of whole numbers, limits."""

from __future__ import annotations

from collections.abc import Callable
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


def _limit(closer: Callable[[float, float], float]) -> Callable[[Match], Tensor]:
    """x limited by that of two numbers which `closer` chooses."""
    return lambda m: m.root.op(
        m.x, m.a if closer(a := m.number("a"), m.number("b")) == a else m.b
    )


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
        Rule("inverted truth", invert(x), logical_not(x),
             lambda m: m.root.type.dtype.kind == "b", takes="any",
             example=lambda d: ~(d("x") > 0)),
        Rule("lower limit of two", minimum(minimum(x, a), b), _limit(min)),
        Rule("higher limit of two", maximum(maximum(x, a), b), _limit(max)),
        Rule("greatest of two negatives", maximum(-x, -y), -minimum(x, y), exact=False),
        Rule("least of two negatives", minimum(-x, -y), -maximum(x, y), exact=False),
    ],
)  # fmt: skip
