"""Formulas by infix: `Term` wraps a value so that `x * y + 1.0` appends instructions.

Every operation rounds once, as written; nothing is contracted or reordered. Numbers
become constants of the type of the other operand. Comparisons are false on NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from treadle.engines.native.codegen.builder import (
    BITS,
    F32,
    F64,
    I1,
    I32,
    I64,
    Builder,
    Value,
    element,
    lanes,
    vector,
)

Number = int | float
FLOATS = (F32, F64)
INTEGERS = {F32: I32, F64: I64}
OWN_FLOATS = {I32: F32, I64: F64}
PART = 1024  # bits: wider vectors are computed in parts, to keep values in registers


class FloatFormat(NamedTuple):
    """The layout of a float type: bits of the fraction, and the exponent of 1.0."""

    digits: int
    bias: int

    @property
    def rounder(self) -> float:
        """Adding it rounds to an integer, which is then in the last bits."""
        return 1.5 * 2.0**self.digits

    @property
    def width(self) -> int:
        """All bits."""
        return 32 if self.digits == 23 else 64

    @property
    def sign(self) -> int:
        """The bits of -0.0, as a signed integer."""
        return -(2 ** (self.width - 1))


FORMATS = {F32: FloatFormat(23, 127), F64: FloatFormat(52, 1023)}


class Term:
    """A value in a formula: floats, integers or truth values, in one or many lanes."""

    __slots__ = ("b", "value")

    def __init__(self, b: Builder, value: Value) -> None:
        self.b = b
        self.value = value

    @property
    def kind(self) -> str:
        """The type of one lane."""
        return element(self.value.type)

    @property
    def is_float(self) -> bool:
        return self.kind in FLOATS

    @property
    def format(self) -> FloatFormat:
        """The layout of a float type, or of the one whose bits an integer is."""
        return FORMATS[OWN_FLOATS.get(self.kind, self.kind)]

    def like(self, number: Number) -> Term:
        """A constant of the same type."""
        return Term(self.b, self.b.constant(self.value.type, number))

    def lift(self, other: Term | Number) -> Value:
        """An operand: a term as it is, a number as a constant."""
        return other.value if isinstance(other, Term) else self.like(other).value

    def _binary(self, op: str, x: Term | Number, y: Term | Number) -> Term:
        return Term(self.b, self.b.binary(op, self.lift(x), self.lift(y)))

    def _either(self, floats: str, integers: str) -> str:
        return floats if self.is_float else integers

    def __add__(self, other: Term | Number) -> Term:
        return self._binary(self._either("fadd", "add"), self, other)

    def __radd__(self, other: Number) -> Term:
        return self._binary(self._either("fadd", "add"), other, self)

    def __sub__(self, other: Term | Number) -> Term:
        return self._binary(self._either("fsub", "sub"), self, other)

    def __rsub__(self, other: Number) -> Term:
        return self._binary(self._either("fsub", "sub"), other, self)

    def __mul__(self, other: Term | Number) -> Term:
        return self._binary(self._either("fmul", "mul"), self, other)

    def __rmul__(self, other: Number) -> Term:
        return self._binary(self._either("fmul", "mul"), other, self)

    def __truediv__(self, other: Term | Number) -> Term:
        return self._binary("fdiv", self, other)

    def __rtruediv__(self, other: Number) -> Term:
        return self._binary("fdiv", other, self)

    def __neg__(self) -> Term:
        return Term(self.b, self.b.fneg(self.value))

    def __lshift__(self, bits: int) -> Term:
        return self._binary("shl", self, bits)

    def __rshift__(self, bits: int) -> Term:
        """Shift keeping the sign."""
        return self._binary("ashr", self, bits)

    def __and__(self, other: Term | Number) -> Term:
        return self._binary("and", self, other)

    def __or__(self, other: Term | Number) -> Term:
        return self._binary("or", self, other)

    def __xor__(self, other: Term | Number) -> Term:
        return self._binary("xor", self, other)

    def __invert__(self) -> Term:
        return self._binary("xor", self, -1)

    # -- comparisons -----------------------------------------------------------------

    def _compare(self, floats: str, integers: str, other: Term | Number) -> Term:
        how = self._either(floats, integers)
        return Term(self.b, self.b.compare(how, self.value, self.lift(other)))

    def __lt__(self, other: Term | Number) -> Term:
        return self._compare("olt", "slt", other)

    def __gt__(self, other: Term | Number) -> Term:
        return self._compare("ogt", "sgt", other)

    def __le__(self, other: Term | Number) -> Term:
        return self._compare("ole", "sle", other)

    def __ge__(self, other: Term | Number) -> Term:
        return self._compare("oge", "sge", other)

    def equals(self, other: Term | Number) -> Term:
        return self._compare("oeq", "eq", other)

    def differs(self, other: Term | Number) -> Term:
        """Unequal or unordered."""
        return self._compare("une", "ne", other)

    # -- functions -------------------------------------------------------------------

    def _intrinsic(self, name: str, *others: Term | Number) -> Term:
        terms = [self.lift(other) for other in others]
        return Term(self.b, self.b.intrinsic(name, self.value, *terms))

    def abs(self) -> Term:
        return self._intrinsic("fabs")

    def sqrt(self) -> Term:
        return self._intrinsic("sqrt")

    def rounded(self) -> Term:
        """The nearest integer, an even one of two, still a float."""
        return self._intrinsic("roundeven")

    def signed(self, sign: Term) -> Term:
        """The magnitude of this with the sign of the other."""
        return self._intrinsic("copysign", sign)

    def at_most(self, limit: Number) -> Term:
        """The lesser of the two; NaN stays."""
        bound = self.like(limit)
        return where(bound < self, bound, self)

    def at_least(self, limit: Number) -> Term:
        """The greater of the two; NaN stays."""
        bound = self.like(limit)
        return where(bound > self, bound, self)

    # -- conversions -----------------------------------------------------------------

    def _convert(self, how: str, kind: str) -> Term:
        return Term(self.b, self.b.convert(how, self.value, kind))

    def bits(self) -> Term:
        """A float as the integer of its bits."""
        return self._convert("bitcast", INTEGERS[self.kind])

    def as_float(self) -> Term:
        """An integer as the float of those bits."""
        return self._convert("bitcast", OWN_FLOATS[self.kind])

    def to_float(self) -> Term:
        """A signed integer as a float of the same width."""
        return self._convert("sitofp", OWN_FLOATS[self.kind])

    def double(self) -> Term:
        """A float32 as a float64."""
        return self._convert("fpext", F64)

    def single(self) -> Term:
        """A float64 rounded to a float32."""
        return self._convert("fptrunc", F32)

    def short(self) -> Term:
        """The low half of the bits of 64-bit integers."""
        return self._convert("trunc", I32)


def fma(x: Term | Number, y: Term | Number, z: Term | Number) -> Term:
    """x y + z, rounded once; one of them at least is a term."""
    one = next(t for t in (x, y, z) if isinstance(t, Term))
    return Term(one.b, one.b.fma(one.lift(x), one.lift(y), one.lift(z)))


def where(condition: Term, x: Term | Number, y: Term | Number) -> Term:
    """x where the condition holds, else y; one of them at least is a term."""
    one = x if isinstance(x, Term) else y
    assert isinstance(one, Term)
    return Term(one.b, one.b.select(condition.value, one.lift(x), one.lift(y)))


def polynomial(x: Term, coefficients: Sequence[Number]) -> Term:
    """c0 + c1 x + c2 x**2 + ..., by Horner's scheme."""
    total = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(total, x, c)
    return total


def lookup(name: str, table: Sequence[float], index: Term) -> Term:
    """The entry of a table of float64 for each index, a 64-bit integer."""
    b, kind = index.b, index.value.type
    pointers = b.offset(b.table(name, table), index.value, F64)
    if not lanes(kind):
        return Term(b, b.load(F64, pointers))
    every = b.constant(vector(I1, lanes(kind)), True)
    return Term(b, b.gather(vector(F64, lanes(kind)), pointers, every))


Formula = Callable[..., Term]
Function = Callable[..., Value]


def formula(rule: Formula) -> Function:
    """A function on values from its formula, which looks at the kind of its terms."""

    def function(b: Builder, *values: Value) -> Value:
        return _in_parts(b, rule, values)

    function.__doc__ = rule.__doc__
    return function


def _in_parts(b: Builder, rule: Formula, values: Sequence[Value]) -> Value:
    """The formula on each half of a vector wider than a register, over and over."""
    kind = element(values[0].type)
    count = lanes(values[0].type)
    if count * BITS[kind] <= PART or count % 2:
        return rule(*(Term(b, v) for v in values)).value
    half = count // 2
    low = _in_parts(b, rule, [b.part(v, 0, half) for v in values])
    high = _in_parts(b, rule, [b.part(v, half, half) for v in values])
    places = ", ".join(f"i32 {k}" for k in range(count))
    line = f"shufflevector {low}, {high}, <{count} x i32> <{places}>"
    return b.define(vector(kind, count), line)
