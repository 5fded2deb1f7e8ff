"""One row for each scalar op: how it is written on LLVM values of one type.

Bools are i1, integers keep their width and wrap, 16-bit floats are computed as float32
and rounded after every op. Meanings are NumPy's, special cases included.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import DType, bfloat16, float16
from treadle.engines.native.codegen.builder import (
    BITS,
    F32,
    I1,
    I32,
    I64,
    Builder,
    Value,
    element,
    lanes,
    vector,
)
from treadle.engines.native.codegen.elementary import FUNCTIONS
from treadle.engines.native.codegen.elements import compute_type, is_float, rounded
from treadle.graph.op import Op


def supports(op: Op, dtypes: Sequence[DType], result: DType) -> bool:
    """Whether there is a row for the op on operands of these dtypes."""
    if any(d.kind not in "biufV" or d.itemsize > 8 for d in (*dtypes, result)):
        return False
    if op.name in FUNCTIONS:
        return is_float(result)
    if op.name == "Cast" and result in (float16, bfloat16):
        return dtypes[0].name != "float64" and dtypes[0].itemsize <= 4
    return op.name in SCALARS


def apply(
    b: Builder, op: Op, values: Sequence[Value], dtypes: Sequence[DType], result: DType
) -> Value:
    """The op on computed values, rounded to its type."""
    if op.name in FUNCTIONS:
        value = FUNCTIONS[op.name](b, *values)
    else:
        value = SCALARS[op.name](ScalarContext(b, dtypes, result), *values)
    return rounded(b, value, result) if is_float(result) else value


class ScalarContext:
    """The builder, and the dtypes of an op's operands and result."""

    def __init__(self, b: Builder, dtypes: Sequence[DType], result: DType) -> None:
        self.b = b
        self.dtype = dtypes[0]
        self.result = result
        self.float = is_float(self.dtype)
        self.bool = self.dtype.kind == "b"
        self.signed = self.dtype.kind == "i"

    def constant(self, x: Value, number: Any) -> Value:
        return self.b.constant(x.type, number)


def _by_kind(floats: str, integers: str, bools: str) -> Callable[..., Value]:
    """The instruction of the operands' kind."""

    def row(r: ScalarContext, x: Value, y: Value) -> Value:
        return r.b.binary(floats if r.float else bools if r.bool else integers, x, y)

    return row


def _comparison(floats: str, signed: str, unsigned: str) -> Callable[..., Value]:
    def row(r: ScalarContext, x: Value, y: Value) -> Value:
        how = floats if r.float else signed if r.signed else unsigned
        return r.b.compare(how, x, y)

    return row


def _truth(r: ScalarContext, x: Value) -> Value:
    if element(x.type) == I1:
        return x
    return r.b.compare("une" if r.float else "ne", x, r.constant(x, 0))


def _logic(instruction: str) -> Callable[..., Value]:
    def row(r: ScalarContext, x: Value, y: Value) -> Value:
        return r.b.binary(instruction, _truth(r, x), _truth(r, y))

    return row


def _logical_not(r: ScalarContext, x: Value) -> Value:
    truth = _truth(r, x)
    return r.b.xor(truth, r.b.constant(truth.type, True))


def _negative(r: ScalarContext, x: Value) -> Value:
    return r.b.fneg(x) if r.float else r.b.sub(r.constant(x, 0), x)


def _abs(r: ScalarContext, x: Value) -> Value:
    if r.float:
        return r.b.intrinsic("fabs", x)
    if not r.signed:
        return x
    below = r.b.compare("slt", x, r.constant(x, 0))
    return r.b.select(below, r.b.sub(r.constant(x, 0), x), x)


def _sign(r: ScalarContext, x: Value) -> Value:
    b, zero = r.b, r.constant(x, 0)
    if r.bool:
        return x
    above = b.compare("ogt" if r.float else "sgt" if r.signed else "ugt", x, zero)
    rest = b.select(b.compare("uno", x, x), x, zero) if r.float else zero
    if r.float or r.signed:
        below = b.compare("olt" if r.float else "slt", x, zero)
        rest = b.select(below, r.constant(x, -1), rest)
    return b.select(above, r.constant(x, 1), rest)


def _rounding(name: str) -> Callable[..., Value]:
    def row(r: ScalarContext, x: Value) -> Value:
        return r.b.intrinsic(name, x) if r.float else x

    return row


def _extreme(floats: str, signed: str, unsigned: str) -> Callable[..., Value]:
    """The greater or lesser; NaN where either is (the second, if the first is not)."""

    def row(r: ScalarContext, x: Value, y: Value) -> Value:
        b = r.b
        how = floats if r.float else signed if r.signed else unsigned
        chosen = b.select(b.compare(how, x, y), x, y)
        return b.select(b.compare("uno", x, x), x, chosen) if r.float else chosen

    return row


def _select(r: ScalarContext, condition: Value, x: Value, y: Value) -> Value:
    return r.b.select(condition, x, y)


def _invert(r: ScalarContext, x: Value) -> Value:
    return r.b.xor(x, r.constant(x, True if r.bool else -1))


def _shift(left: bool) -> Callable[..., Value]:
    """A shift by as many bits as there are, or more, leaves nothing but the sign."""

    def row(r: ScalarContext, x: Value, y: Value) -> Value:
        b, bits = r.b, BITS[element(x.type)]
        few = b.compare("ult", y, r.constant(y, bits))
        if left or not r.signed:
            shifted = b.shl(x, y) if left else b.lshr(x, y)
            return b.select(few, shifted, r.constant(x, 0))
        return b.ashr(x, b.select(few, y, r.constant(y, bits - 1)))

    return row


def _whole(r: ScalarContext, x: Value, y: Value) -> tuple[Value, Value]:
    """The truncated quotient and remainder of integers; 0 and 0 where y is 0."""
    b = r.b
    none = b.compare("eq", y, r.constant(y, 0))
    if not r.signed:
        safe = b.select(none, r.constant(y, 1), y)
        quotient = b.udiv(x, safe)
    else:
        # Dividing by -1 is done by negating: the least integer has no quotient.
        minus = b.compare("eq", y, r.constant(y, -1))
        safe = b.select(b.or_(none, minus), r.constant(y, 1), y)
        quotient = b.select(minus, b.sub(r.constant(x, 0), x), b.sdiv(x, safe))
    quotient = b.select(none, r.constant(x, 0), quotient)
    rest = b.select(none, r.constant(x, 0), b.sub(x, b.mul(quotient, y)))
    return quotient, rest


def _uneven(r: ScalarContext, rest: Value, y: Value) -> Value:
    """The mask where a remainder is not 0 and has not the sign of y."""
    b, zero = r.b, r.constant(rest, 0)
    some = b.compare("une" if r.float else "ne", rest, zero)
    how = "olt" if r.float else "slt"
    return b.and_(some, b.xor(b.compare(how, rest, zero), b.compare(how, y, zero)))


def _floor_divide(r: ScalarContext, x: Value, y: Value) -> Value:
    b = r.b
    if not r.float:
        quotient, rest = _whole(r, x, y)
        if not r.signed:
            return quotient
        lower = b.sub(quotient, r.constant(quotient, 1))
        return b.select(_uneven(r, rest, y), lower, quotient)
    rest = b.frem(x, y)
    whole = b.fdiv(b.fsub(x, rest), y)
    lower = b.fsub(whole, r.constant(x, 1))
    whole = b.select(_uneven(r, rest, y), lower, whole)
    floor = b.intrinsic("floor", whole)
    half = b.compare("ogt", b.fsub(whole, floor), r.constant(x, 0.5))
    floor = b.select(half, b.fadd(floor, r.constant(x, 1)), floor)
    exact = b.fdiv(x, y)
    none = b.intrinsic("copysign", r.constant(x, 0), exact)
    value = b.select(b.compare("oeq", whole, r.constant(x, 0)), none, floor)
    return b.select(b.compare("oeq", y, r.constant(y, 0)), exact, value)


def _remainder(r: ScalarContext, x: Value, y: Value) -> Value:
    b = r.b
    if not r.float:
        _, rest = _whole(r, x, y)
        if not r.signed:
            return rest
        return b.select(_uneven(r, rest, y), b.add(rest, y), rest)
    rest = b.frem(x, y)
    none = b.intrinsic("copysign", r.constant(x, 0), y)
    zero = b.compare("oeq", rest, r.constant(rest, 0))
    return b.select(_uneven(r, rest, y), b.fadd(rest, y), b.select(zero, none, rest))


def _fmod(r: ScalarContext, x: Value, y: Value) -> Value:
    return r.b.frem(x, y) if r.float else _whole(r, x, y)[1]


def _is_inf(r: ScalarContext, x: Value) -> Value:
    if not r.float:
        return r.b.constant(vector(I1, lanes(x.type)), False)
    return r.b.compare("oeq", r.b.intrinsic("fabs", x), r.constant(x, float("inf")))


def _is_finite(r: ScalarContext, x: Value) -> Value:
    if not r.float:
        return r.b.constant(vector(I1, lanes(x.type)), True)
    return r.b.compare("one", r.b.intrinsic("fabs", x), r.constant(x, float("inf")))


def _is_nan(r: ScalarContext, x: Value) -> Value:
    if not r.float:
        return r.b.constant(vector(I1, lanes(x.type)), False)
    return r.b.compare("uno", x, x)


def _sign_bit(r: ScalarContext, x: Value) -> Value:
    if not r.float:
        if r.signed:
            return r.b.compare("slt", x, r.constant(x, 0))
        return r.b.constant(vector(I1, lanes(x.type)), False)
    bits = r.b.convert("bitcast", x, I32 if element(x.type) == F32 else I64)
    return r.b.compare("slt", bits, r.b.constant(bits.type, 0))


def _whole_number(r: ScalarContext, x: Value) -> Value:
    """A float as an integer: the nearest limit where it is outside, 0 where NaN."""
    b, target, limits = r.b, compute_type(r.result), np.iinfo(r.result)
    bits = BITS[target]
    # Narrow integers go through a signed one that is wide enough.
    middle = target if bits == 64 else I64 if bits == 32 and not limits.min else I32
    how = "fptoui" if bits == 64 and not limits.min else "fptosi"
    whole = b.convert(how, x, middle)
    for relation, limit in (("oge", limits.max), ("ole", limits.min)):
        outside = b.compare(relation, x, r.constant(x, limit))
        whole = b.select(outside, r.constant(whole, limit), whole)
    whole = b.select(b.compare("uno", x, x), r.constant(whole, 0), whole)
    return whole if middle == target else b.convert("trunc", whole, target)


def _cast(r: ScalarContext, x: Value) -> Value:
    b, target = r.b, compute_type(r.result)
    if r.result.kind == "b":
        return _truth(r, x)
    if is_float(r.result):
        if r.float:
            wider = BITS[target] > BITS[element(x.type)]
            return b.convert("fpext" if wider else "fptrunc", x, target)
        return b.convert("sitofp" if r.signed else "uitofp", x, target)
    if r.float:
        return _whole_number(r, x)
    if BITS[target] > BITS[element(x.type)]:
        return b.convert("sext" if r.signed else "zext", x, target)
    return b.convert("trunc", x, target)


def _first(r: ScalarContext, x: Value, *rest: Value) -> Value:
    return x


SCALARS: dict[str, Callable[..., Value]] = {
    "Add": _by_kind("fadd", "add", "or"),
    "Subtract": _by_kind("fsub", "sub", "xor"),
    "Multiply": _by_kind("fmul", "mul", "and"),
    "Divide": _by_kind("fdiv", "sdiv", "and"),
    "Negative": _negative,
    "Conj": _first,
    "Real": _first,
    "Imag": lambda r, x: r.constant(x, 0),
    "Abs": _abs,
    "Sign": _sign,
    "Sqrt": lambda r, x: r.b.intrinsic("sqrt", x),
    "Floor": _rounding("floor"),
    "Ceil": _rounding("ceil"),
    "Trunc": _rounding("trunc"),
    "Round": _rounding("roundeven"),
    "Maximum": _extreme("ogt", "sgt", "ugt"),
    "Minimum": _extreme("olt", "slt", "ult"),
    "Select": _select,
    "Equal": _comparison("oeq", "eq", "eq"),
    "NotEqual": _comparison("une", "ne", "ne"),
    "Less": _comparison("olt", "slt", "ult"),
    "LessEqual": _comparison("ole", "sle", "ule"),
    "Greater": _comparison("ogt", "sgt", "ugt"),
    "GreaterEqual": _comparison("oge", "sge", "uge"),
    "LogicalAnd": _logic("and"),
    "LogicalOr": _logic("or"),
    "LogicalXor": _logic("xor"),
    "LogicalNot": _logical_not,
    "BitwiseAnd": _by_kind("and", "and", "and"),
    "BitwiseOr": _by_kind("or", "or", "or"),
    "BitwiseXor": _by_kind("xor", "xor", "xor"),
    "BitwiseInvert": _invert,
    "LeftShift": _shift(True),
    "RightShift": _shift(False),
    "FloorDivide": _floor_divide,
    "Remainder": _remainder,
    "Fmod": _fmod,
    "CopySign": lambda r, x, y: r.b.intrinsic("copysign", x, y),
    "IsNan": _is_nan,
    "IsInf": _is_inf,
    "IsFinite": _is_finite,
    "SignBit": _sign_bit,
    "Cast": _cast,
    "StopGradient": _first,
    "ScaleGradient": _first,
    "ClipGradient": _first,
}
