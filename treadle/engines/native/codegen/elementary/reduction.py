"""x = (pi / 2) n + r for any finite x, after Payne and Hanek (SIGNUM 18, 1983).

Of n only the last two bits matter. So a multiple of 4 may be taken from x (2 / pi), and
from 2/pi a number whose product with the last place of x is one. What is left of 2/pi
is not large against x, and its first few words give r.
"""

from __future__ import annotations

import functools
import math

from treadle.engines.native.codegen.elementary.terms import Term, fma, lookup, where

HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
BITS = 1280
TWO_OVER_PI = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)  # 2/pi times 2**BITS

# Where |x| reaches these powers of 2, float32 needs other words of 2/pi.
STEPS_32 = (50, 76, 102)
# Of float64 there are 32 classes: below 2**FIRST, and from there on in steps.
FIRST, STEP, CLASSES, WORDS = 64, 32, 32, 4
DOWN = 512  # from 2**DOWN on x is divided by it, and the words multiplied


def _words(exponent: int, digits: int, count: int, scale: int = 0) -> list[float]:
    """2/pi as a sum of floats, less what makes whole turns with x >= 2**exponent.

    digits: of the fraction of x. The words are multiplied by 2**scale.
    """
    rest = TWO_OVER_PI
    if exponent:
        period = 1 << (BITS + 2 - (exponent - digits))
        rest = (rest + period // 2) % period - period // 2
    rest <<= scale
    words = []
    for _ in range(count):
        word = rest / (1 << BITS)  # the nearest float
        numerator, denominator = word.as_integer_ratio()
        rest -= (numerator << BITS) // denominator
        words.append(word)
    return words


@functools.cache
def _table() -> tuple[float, ...]:
    """The words of all classes of float64."""
    values = _words(0, 52, WORDS)
    for k in range(CLASSES - 1):
        exponent = FIRST + STEP * k
        values += _words(exponent, 52, WORDS, DOWN if exponent >= DOWN else 0)
    return tuple(values)


def reduced32(x: Term) -> tuple[Term, Term]:
    """n and r of a float32 x >= 0: an integer with the right last bits, and a float32.

    |r| < 0.89: n is rounded before the second word is known.
    """
    wide = x.double()
    high, low = (wide.like(word) for word in _words(0, 23, 2))
    for exponent in STEPS_32:
        beyond = x >= 2.0**exponent
        first, second = _words(exponent, 23, 2)
        high = where(beyond, first, high)
        low = where(beyond, second, low)
    rounder = wide.format.rounder
    shifted = fma(wide, high, rounder)
    # The product is exact within the fma: only what is left of it is rounded.
    left = fma(wide, high, rounder - shifted)
    r = fma(wide, low, left) * HALF_PI[0]
    return shifted.bits().short(), r.single()


def reduced64(x: Term) -> tuple[Term, Term, Term]:
    """n and r, in two parts, of a float64 x >= 0: r is good to 2**-53 of itself.

    No float64 is nearer than 2**-61 to a multiple of pi / 2 (but 0), so 4 words do.
    """
    small = x < 0.785
    x, words = _class64(x)
    products = [x * word for word in words]
    first, second, third, fourth = products
    errors = [fma(x, w, -p) for w, p in zip(words, products, strict=True)]
    total, error = _sum(_turned(first), _turned(errors[0]))
    total, lost = _sum(total, _turned(second))
    n = total.rounded()
    rest, a = _sum(error, lost)
    rest, b = _sum(rest, errors[1])
    rest, c = _sum(rest, third)
    high, low = _sum(total - n, rest)
    low = low + ((a + b) + (c + (errors[2] + fourth)))
    r = high * HALF_PI[0]
    error = fma(high, HALF_PI[0], -r)
    error = error + fma(high, HALF_PI[1], low * HALF_PI[0])
    bits = (n + x.format.rounder).bits()
    return bits, where(small, x, r), where(small, x.like(0.0), error)


def _class64(x: Term) -> tuple[Term, list[Term]]:
    """x, divided by 2**DOWN where it is large, and its words of 2/pi."""
    layout = x.format
    exponent = (x.bits() >> layout.digits) - (layout.bias + FIRST - STEP)
    number = where(exponent > 0, exponent >> int(math.log2(STEP)), 0)
    words = [lookup("two_over_pi", _table(), number * WORDS + k) for k in range(WORDS)]
    return where(x >= 2.0**DOWN, x * 2.0**-DOWN, x), words


def _turned(x: Term) -> Term:
    """x less whole turns, of 4 quarters: exact, and at most 2."""
    return fma((x * 0.25).rounded(), -4.0, x)


def _sum(x: Term, y: Term) -> tuple[Term, Term]:
    """x + y and its rounding error (Knuth's TwoSum)."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)
