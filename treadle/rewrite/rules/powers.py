"""Powers, roots, exponentials and logarithms."""

from __future__ import annotations

from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.power import Square
from treadle.rewrite.facts import is_nonnegative, is_positive, is_wide
from treadle.rewrite.pattern import captures, numbers, of
from treadle.rewrite.rule import Match, Rule, RuleSet, stable

x, y = captures("x y")
a, c = numbers("a c")
exp, log, sqrt, abs_ = of("Exp"), of("Log"), of("Sqrt"), of("Abs")
square, rsqrt, reciprocal = of("Square"), of("Rsqrt"), of("Reciprocal")
log1p, expm1 = of("Log1p"), of("Expm1")
sin, cos = of("Sin"), of("Cos")


def _power(m: Match) -> Tensor | None:
    """A small whole power by squaring, or a root."""
    exponent = float(m.number("c"))
    x = m.x
    if exponent == 0.5:  # of -inf the power is inf and the root is NaN
        return functions.sqrt(x) if is_nonnegative(x) else None
    if exponent not in (2.0, 3.0, 4.0, 5.0, 6.0, 8.0, -1.0, -2.0):
        return None
    if exponent < 0:
        if m.root.type.dtype.kind in "iu":
            return None
        below = x if exponent == -1.0 else Square()(x)
        return functions.reciprocal(below)
    power, factor, left = None, x, int(exponent)
    while left:
        if left & 1:
            power = factor if power is None else power * factor
        left >>= 1
        if left:
            factor = Square()(factor)
    return power


def _not_negative(m: Match) -> bool:
    return is_nonnegative(m.x)


def _safe_exponents(m: Match) -> bool:
    """Whether a power of a power is one power: whole exponents, or no negative x."""
    both = m.number("a"), m.number("c")
    whole = all(float(n).is_integer() and n > 0 for n in both)
    return is_wide(m.root) and (whole or is_positive(m.x))


POWERS = RuleSet(
    "powers",
    [
        Rule("power of one", x**1, x, example=lambda d: d.td.pow(d(), d.one())),
        Rule("power of zero", x**0, 1),  # also of NaN, by IEEE 754
        Rule("one to a power", 1**x, 1, takes="float"),
        Rule(
            "small power",
            x**c,
            _power,
            exact=False,
            example=lambda d: d() ** 4.0,
        ),
        Rule("square root of a square", sqrt(square(x)), abs_(x), exact=False),
        Rule(
            "square of a square root",
            square(sqrt(x)),
            x,
            when=_not_negative,
            exact=False,
            example=lambda d: d.td.square(d.td.sqrt(d.td.sigmoid(d()))),
        ),
        Rule(
            "power of a power",
            (x**a) ** c,
            x ** (a * c),
            when=_safe_exponents,
            exact=False,
            takes="float",
            example=lambda d: (d.td.sigmoid(d()) ** 1.5) ** 3.5,
        ),
        Rule("one by a square root", reciprocal(sqrt(x)), rsqrt(x), takes="float"),
        Rule("one by a reciprocal root", reciprocal(rsqrt(x)), sqrt(x), exact=False),
        Rule("square of an exponential", square(exp(x)), exp(x * 2), exact=False),
        stable("logarithm of an exponential", log(exp(x)), x),
        Rule(
            "exponential of a logarithm",
            exp(log(x)),
            x,
            when=_not_negative,
            exact=False,
            example=lambda d: d.td.exp(d.td.log(d.td.abs(d()))),
        ),
        stable(
            "logarithm of a quotient with an exponential",
            log(exp(x) / y),
            x - log(y),
            lambda d: d.td.log(d.td.exp(d("x")) / d.above(0.5)),
        ),
        stable(
            "logarithm of a product with an exponential",
            log(exp(x) * y),
            x + log(y),
            lambda d: d.td.log(d.td.exp(d("x")) * d.above(0.5)),
        ),
        stable("product of exponentials", exp(x) * exp(y), exp(x + y)),
        stable("quotient of exponentials", exp(x) / exp(y), exp(x - y)),
        stable("reciprocal of an exponential", reciprocal(exp(x)), exp(-x)),
        Rule("square root of an exponential", sqrt(exp(x)), exp(x * 0.5), exact=False),
        Rule(
            "power of an exponential",
            exp(x) ** c,
            exp(x * c),
            when=lambda m: is_wide(m.root),
            exact=False,
        ),
        Rule("logarithm of a square root", log(sqrt(x)), log(x) * 0.5, exact=False),
        Rule("logarithm of a reciprocal", log(reciprocal(x)), -log(x), exact=False),
        stable(
            "logarithm of a power",
            log(x**c),
            log(x) * c,
            lambda d: d.td.log(d.td.sigmoid(d()) ** 7.0),
            when=lambda m: is_positive(m.x),
        ),
        stable("logarithm of one and more", log(x + 1), log1p(x)),
        stable("exponential less one", exp(x) - 1, expm1(x)),
        stable("one less an exponential", 1 - exp(x), -expm1(x)),
        stable("log1p of expm1", log1p(expm1(x)), x),
        stable("expm1 and one", expm1(x) + 1, exp(x)),
    ],
)
