"""Random numbers as expressions: Philox4x32-10 on the number of an element."""

from __future__ import annotations

import math
from collections.abc import Sequence

from treadle.base.caches import cached
from treadle.base.dtypes import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    uint32,
    uint64,
)
from treadle.graph.op import Op
from treadle.loops.index import Index
from treadle.loops.kernel import Apply, Const, Counter, Expression
from treadle.ops.bitwise import BitwiseAnd, BitwiseOr, BitwiseXor, LeftShift, RightShift
from treadle.ops.cast import Cast
from treadle.ops.compare import Equal
from treadle.ops.elementary import Cos
from treadle.ops.elementwise import Add, Multiply, Negative, Subtract
from treadle.ops.power import Log1p, Sqrt
from treadle.ops.rounding import Round
from treadle.ops.select import Select

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_WIDE, _NARROW = Cast(uint64), Cast(uint32)
_BITS = {bfloat16: 8, float16: 11, float32: 24}


@cached(1024)
def _number(value: float, dtype: DType) -> Expression:
    """A literal; each is one object, as equal ones are soonest found equal."""
    return Const(value, dtype)


def _apply(op: Op, *xs: Expression) -> Expression:
    return Apply(op, xs, xs[0].dtype)


def _product(x: Expression, factor: int) -> tuple[Expression, Expression]:
    """The high and the low word of a word times a constant."""
    long = _apply(Multiply(), Apply(_WIDE, (x,), uint64), _number(factor, uint64))
    high = _apply(RightShift(), long, _number(32, uint64))
    return Apply(_NARROW, (high,), uint32), Apply(_NARROW, (long,), uint32)


def halves(word: Expression) -> tuple[Expression, Expression]:
    """The low and the high 32 bits of a word of 64."""
    high = _apply(RightShift(), word, _number(32, uint64))
    return Apply(_NARROW, (word,), uint32), Apply(_NARROW, (high,), uint32)


def philox(
    counter: Sequence[Expression], seed: Sequence[Expression]
) -> list[Expression]:
    """Ten rounds of Philox4x32 on four counter words and two key words."""
    c0, c1, c2, c3 = counter
    k0, k1 = seed
    for _ in range(10):
        high0, low0 = _product(c0, _MULTIPLIERS[0])
        high1, low1 = _product(c2, _MULTIPLIERS[1])
        c0 = _apply(BitwiseXor(), _apply(BitwiseXor(), high1, c1), k0)
        c2 = _apply(BitwiseXor(), _apply(BitwiseXor(), high0, c3), k1)
        c1, c3 = low1, low0
        k0 = _apply(Add(), k0, _number(_STEPS[0], uint32))
        k1 = _apply(Add(), k1, _number(_STEPS[1], uint32))
    return [c0, c1, c2, c3]


def block(number: Expression, draw: Sequence[Expression]) -> list[Expression]:
    """The four random words of a block, of a draw's four words (seed, number)."""
    return philox([*halves(number), *draw[2:]], draw[:2])


def unit(words: Sequence[Expression], dtype: DType) -> Expression:
    """A number in [0, 1) from one word, or from two for float64."""
    if dtype == float64:
        first, second = (Apply(_WIDE, (w,), uint64) for w in words)
        joined = _apply(
            BitwiseOr(), _apply(LeftShift(), first, _number(32, uint64)), second
        )
        bits = _apply(RightShift(), joined, _number(11, uint64))
        real = Apply(Cast(float64), (bits,), float64)
        return _apply(Multiply(), real, _number(2.0**-53, float64))
    kept = _BITS[dtype]
    bits = _apply(RightShift(), words[0], _number(32 - kept, uint32))
    real = Apply(Cast(float32), (bits,), float32)
    scaled = _apply(Multiply(), real, _number(2.0**-kept, float32))
    return scaled if dtype == float32 else Apply(Cast(dtype), (scaled,), dtype)


def _chosen(words: Sequence[Expression], place: Expression) -> Expression:
    """The word at a place known only when the loop runs."""
    chosen = words[0]
    for k, word in enumerate(words[1:], 1):
        hit = Apply(Equal(), (place, _number(k, uint32)), bool_)
        chosen = Apply(Select(), (hit, word, chosen), uint32)
    return chosen


def uniform_bits(
    element: Index, draw: Sequence[Expression], dtype: DType
) -> Expression:
    """The number of element `element` of a draw, as `td.random.uniform` defines it."""
    # Shifts and masks of the element's number: a block makes 4 words, or 2 numbers.
    number = Counter(element, uint64)
    many = 1 if dtype == float64 else 2
    words = block(_apply(RightShift(), number, _number(many, uint64)), draw)
    low = Apply(_NARROW, (number,), uint32)
    place = _apply(BitwiseAnd(), low, _number(2**many - 1, uint32))
    if dtype == float64:
        pairs = [_chosen([words[k], words[k + 2]], place) for k in range(2)]
        return unit(pairs, dtype)
    return unit([_chosen(words, place)], dtype)


def normal_bits(element: Index, draw: Sequence[Expression], dtype: DType) -> Expression:
    """The number of element `element` of a draw, as `td.random.normal` defines it."""
    wide = float64 if dtype == float64 else float32
    number = Counter(element, uint64)
    pairs = 1 if wide == float64 else 2  # of uniform numbers in a block
    words = block(_apply(RightShift(), number, _number(pairs, uint64)), draw)
    low = Apply(_NARROW, (number,), uint32)
    if wide == float64:
        first, second = unit(words[:2], wide), unit(words[2:], wide)
    else:
        place = _apply(RightShift(), low, _number(1, uint32))
        place = _apply(BitwiseAnd(), place, _number(1, uint32))
        first, second = (unit([_chosen(words[k::2], place)], wide) for k in range(2))
    radius = _apply(Log1p(), _apply(Negative(), first))
    radius = _apply(Sqrt(), _apply(Multiply(), radius, _number(-2.0, wide)))
    # The sine of a turn is the cosine a quarter earlier; both steps are exact.
    odd = Apply(Cast(wide), (_apply(BitwiseAnd(), low, _number(1, uint32)),), wide)
    revolutions = _apply(
        Subtract(), second, _apply(Multiply(), odd, _number(0.25, wide))
    )
    revolutions = _apply(Subtract(), revolutions, _apply(Round(), revolutions))
    angle = _apply(Multiply(), revolutions, _number(2.0 * math.pi, wide))
    scaled = _apply(Multiply(), radius, _apply(Cos(), angle))
    return scaled if dtype == wide else Apply(Cast(dtype), (scaled,), dtype)
