"""Elements of each dtype: how they lie in memory, and how they are computed with.

Bools are bytes in memory and i1 in registers; 16-bit floats are float32 in registers,
rounded after every op as the reference rounds them.
"""

from __future__ import annotations

from treadle.base.dtypes import DType, bfloat16, float16
from treadle.engines.native.codegen.builder import (
    F16,
    F32,
    F64,
    I1,
    I8,
    I16,
    I32,
    I64,
    Builder,
    Value,
)

_FLOATS = {"float32": F32, "float64": F64, "float16": F32, "bfloat16": F32}
_INTEGERS = {1: I8, 2: I16, 4: I32, 8: I64}


def compute_type(dtype: DType) -> str:
    """The LLVM type in which values of a dtype are computed."""
    if dtype.name in _FLOATS:
        return _FLOATS[dtype.name]
    return I1 if dtype.kind == "b" else _INTEGERS[dtype.itemsize]


def load_type(dtype: DType) -> str:
    """The LLVM type of an element in memory."""
    if dtype == float16:
        return F16
    if dtype == bfloat16:
        return I16
    return I8 if dtype.kind == "b" else compute_type(dtype)


def from_memory(b: Builder, x: Value, dtype: DType) -> Value:
    """A loaded element as it is computed with."""
    if dtype.kind == "b":
        return b.compare("ne", x, b.constant(x.type, 0))
    if dtype == float16:
        return b.convert("fpext", x, F32)
    if dtype == bfloat16:
        bits = b.convert("zext", x, I32)
        high = b.shl(bits, b.constant(bits.type, 16))
        return b.convert("bitcast", high, F32)
    return x


def to_memory(b: Builder, x: Value, dtype: DType) -> Value:
    """A computed value as it is stored; a 16-bit float has been rounded before."""
    if dtype.kind == "b":
        return b.convert("zext", x, I8)
    if dtype == float16:
        return b.convert("fptrunc", x, F16)
    if dtype == bfloat16:
        bits = b.convert("bitcast", x, I32)
        high = b.lshr(bits, b.constant(bits.type, 16))
        return b.convert("trunc", high, I16)
    return x


def rounded(b: Builder, x: Value, dtype: DType) -> Value:
    """A float32 rounded to a 16-bit type, as a float32 again."""
    if dtype == float16:
        return b.convert("fpext", b.convert("fptrunc", x, F16), F32)
    if dtype != bfloat16:
        return x
    bits = b.convert("bitcast", x, I32)

    def number(n: int) -> Value:
        return b.constant(bits.type, n)

    odd = b.and_(b.lshr(bits, number(16)), number(1))
    near = b.add(b.add(bits, number(0x7FFF)), odd)
    quiet = b.or_(bits, number(0x400000))
    nan = b.compare("uno", x, x)
    kept = b.and_(b.select(nan, quiet, near), number(-0x10000))
    return b.convert("bitcast", kept, F32)


def is_float(dtype: DType) -> bool:
    return dtype.name in _FLOATS
