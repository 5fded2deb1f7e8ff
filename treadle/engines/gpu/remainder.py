"""The remainder of floats as C's fmod has it: exact, with the sign of x.

Significands are integers: that of x is doubled as often as its exponent is above that
of y, many times at once, and divided each time. What is left is below y, and so it and
its exponent are a float exactly.
"""

from __future__ import annotations

from treadle.engines.native.codegen.builder import F32, I64, Builder, Value
from treadle.engines.native.codegen.elementary.terms import (
    FORMATS,
    FloatFormat,
    Term,
    where,
)


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """x - y trunc(x / y), without rounding; NaN where x is infinite or y is 0."""
    form, number, step = FORMATS[x.type], Term(b, x), 63 - FORMATS[x.type].digits
    infinite = (1 << form.width - 1) - (1 << form.digits)
    size, other = (Term(b, v).bits() & ~form.sign for v in (x, y))
    above = size >= other
    valid = (size < infinite) & (other <= infinite) & other.differs(0)
    ordinary = above & valid
    (high, p), (low, q) = (_parts(form, v) for v in (size, other))
    low = where(ordinary, low, 1)
    count = where(ordinary, p - q, 0)
    rest = b.urem(high.value, low.value)
    with b.loop(b.i64(0), count.value, b.i64(step), [rest]) as turn:
        left = count - Term(b, turn.index)
        few = b.intrinsic("smin", left.value, b.i64(step))
        turn.next([b.urem(b.shl(turn.values[0], few), low.value)])
    result = _float(form, Term(b, turn.values[0]), q)
    result = result.single() if x.type == F32 else result
    result = where(above, result.signed(number), number)
    return where(valid, result, float("nan")).value


def _parts(form: FloatFormat, size: Term) -> tuple[Term, Term]:
    """The significand and the exponent of a float without its sign, as i64."""
    wide = Term(size.b, size.b.convert("zext", size.value, I64))
    exponent, fraction = wide >> form.digits, wide & (1 << form.digits) - 1
    normal = exponent.differs(0)
    whole = where(normal, fraction | 1 << form.digits, fraction)
    return whole, where(normal, exponent, 1)


def _float(form: FloatFormat, rest: Term, exponent: Term) -> Term:
    """A significand at an exponent: by two powers of 2, as one may be too small."""
    power = exponent - (form.bias + form.digits)
    first = power >> 1
    value = rest.to_float()
    for part in (first, power - first):
        value = value * ((part + 1023) << 52).as_float()
    return value
