"""The remainder of floats as C's fmod has it: exact, with the sign of x.

Significands are integers: that of x is doubled as often as its exponent is above that
of y, many times at once, and divided each time. What is left is below y, and so it and
its exponent are a float exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from treadle.engines.native.codegen.builder import F32, F64, I32, I64, Builder, Value


@dataclass(frozen=True)
class _Format:
    """How a float lies in bits; `step`: doublings that 64 bits have room for."""

    integer: str
    digits: int
    exponents: int  # bits of the exponent
    step: int

    @property
    def infinite(self) -> int:
        """The bits of infinity."""
        return ((1 << self.exponents) - 1) << self.digits

    @property
    def bias(self) -> int:
        """The exponent of an integer significand of 1, as it is stored."""
        return (1 << self.exponents - 1) - 1 + self.digits


_FORMATS = {F32: _Format(I32, 23, 8, 40), F64: _Format(I64, 52, 11, 11)}


def remainder(b: Builder, x: Value, y: Value) -> Value:
    """x - y trunc(x / y), without rounding; NaN where x is infinite or y is 0."""
    form = _FORMATS[x.type]
    number = partial(b.constant, form.integer)
    bits = [b.bitcast(v, form.integer) for v in (x, y)]
    sizes = [b.and_(v, number((1 << form.digits + form.exponents) - 1)) for v in bits]
    above = b.compare("uge", *sizes)
    finite = b.compare("ult", sizes[0], number(form.infinite))
    counted = b.compare("ule", sizes[1], number(form.infinite))
    valid = b.and_(finite, b.and_(counted, b.compare("ne", sizes[1], number(0))))
    ordinary = b.and_(above, valid)
    (high, p), (low, q) = (_parts(b, form, v) for v in sizes)
    low = b.select(ordinary, low, b.i64(1))
    count = b.select(ordinary, b.sub(p, q), b.i64(0))
    rest = b.urem(high, low)
    with b.loop(b.i64(0), count, b.i64(form.step), [rest]) as turn:
        few = b.intrinsic("smin", b.sub(count, turn.index), b.i64(form.step))
        turn.next([b.urem(b.shl(turn.values[0], few), low)])
    result = _float(b, form, turn.values[0], q, x.type)
    result = b.intrinsic("copysign", result, x)
    result = b.select(above, result, x)
    return b.select(valid, result, b.constant(x.type, float("nan")))


def _parts(b: Builder, form: _Format, size: Value) -> tuple[Value, Value]:
    """The significand and the exponent of a float without its sign, as i64."""
    wide = b.convert("zext", size, I64) if form.integer == I32 else size
    exponent = b.lshr(wide, b.i64(form.digits))
    fraction = b.and_(wide, b.i64((1 << form.digits) - 1))
    normal = b.compare("ne", exponent, b.i64(0))
    whole = b.or_(fraction, b.i64(1 << form.digits))
    return b.select(normal, whole, fraction), b.select(normal, exponent, b.i64(1))


def _float(b: Builder, form: _Format, rest: Value, exponent: Value, kind: str) -> Value:
    """A significand at an exponent: by two powers of 2, as one may be too small."""
    power = b.sub(exponent, b.i64(form.bias))
    first = b.ashr(power, b.i64(1))
    value = b.convert("uitofp", rest, F64)
    for part in (first, b.sub(power, first)):
        bits = b.shl(b.add(part, b.i64(1023)), b.i64(52))
        value = b.fmul(value, b.bitcast(bits, F64))
    return value if kind == F64 else b.convert("fptrunc", value, F32)
