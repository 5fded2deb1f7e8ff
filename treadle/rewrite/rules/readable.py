"""Shorter formulas, for `td.simplify` alone.

In a program these would cost where what they look into is also read elsewhere.
"""

from __future__ import annotations

from treadle.rewrite.pattern import captures, of
from treadle.rewrite.rule import Rule, RuleSet, stable

x, y = captures("x y")
sigmoid, reciprocal = of("Sigmoid"), of("Reciprocal")

READABLE = RuleSet(
    "readable",
    [
        stable("one less a sigmoid", 1 - sigmoid(x), sigmoid(-x)),
        stable("multiple of one less a sigmoid", x - x * sigmoid(y), x * sigmoid(-y)),
        stable("less a multiple by a sigmoid", x * sigmoid(y) - x, -(x * sigmoid(-y))),
        Rule(
            "multiply by a reciprocal", x * reciprocal(y), x / y, exact=False,
            enables=True,
        ),
    ],
)  # fmt: skip
