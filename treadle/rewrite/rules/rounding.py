"""Quotients in twice the digits, rounded, as ones in the digits of the result.

After the standard rules, which leave such an expression whole and would take its result
apart: two quotients become one, and round otherwise.
"""

from __future__ import annotations

from treadle.base.dtypes import float32, float64
from treadle.graph.tensor import Tensor
from treadle.ops.elementwise import Divide
from treadle.rewrite.pattern import captures, of
from treadle.rewrite.rule import Match, Rule, RuleSet

x, y = captures("x y")
cast, divide = of("Cast"), of("Divide")


def _once(m: Match) -> Tensor | None:
    """A quotient of float32: 53 digits are more than 2 x 24 + 2, so that the second
    rounding decides alone (Figueroa 1995, When is double rounding innocuous?).
    """
    wide = m.f.type.dtype == float64 and m.root.type.dtype == float32
    narrow = m.x.type.dtype == m.y.type.dtype == float32
    return Divide()(m.x, m.y) if wide and narrow else None


ROUNDING = RuleSet(
    "rounding",
    [
        Rule("quotient in twice the digits", cast(divide(cast(x), cast(y), label="f")),
             _once, takes="float",
             example=lambda d: (d("x", (5,)).astype("float32").astype("float64")
             / d.above(0.5, (5,)).astype("float32").astype("float64"))
             .astype("float32")),
    ],
)  # fmt: skip
