"""Conversions of half floats, for hosts that have no instructions for them.

LLVM calls these functions by the names the compilers' run-time libraries give them;
no library that is sure to be loaded has them. Ties round to even, NaNs turn quiet.
"""

from __future__ import annotations

from functools import partial

from treadle.engines.native.codegen.builder import F16, F32, F64, I16, I32, Builder

# Widening: a subnormal is its integer times 2^-24. Narrowing a number below 2^-14:
# adding a power of two whose last bit counts 2^-24 rounds it; one above: add half a
# unit less one, plus the last bit that stays, and cut the rest.


def _narrow(name: str, kind: str, width: int, mantissa: int, bias: int) -> str:
    """half from a float of `width` bits, `mantissa` of them behind the point."""
    b = Builder(name, [("x", kind)])
    whole = f"i{width}"
    n = partial(b.constant, whole)
    drop = mantissa - 10  # bits that a half does not have
    u = b.bitcast(b.arguments["x"], whole)
    sign = b.and_(b.lshr(u, n(width - 16)), n(32768))
    a = b.and_(u, n((1 << width - 1) - 1))
    cut = b.lshr(a, n(drop))
    lifted = b.add(b.sub(a, n(bias - 15 << mantissa)), n((1 << drop - 1) - 1))
    common = b.lshr(b.add(lifted, b.and_(cut, n(1))), n(drop))
    shifter = n(bias + mantissa - 24 << mantissa)
    shifted = b.fadd(b.bitcast(a, kind), b.bitcast(shifter, kind))
    tiny = b.sub(b.bitcast(shifted, whole), shifter)
    bits = b.select(b.compare("ult", a, n(bias - 14 << mantissa)), tiny, common)
    overflow = n((bias + 16 << mantissa) - (1 << drop - 1))  # 65520 rounds to infinity
    bits = b.select(b.compare("uge", a, overflow), n(31744), bits)
    quiet = b.or_(b.and_(cut, n(511)), n(32256))
    bits = b.select(b.compare("ugt", a, n((2 * bias + 1) << mantissa)), quiet, bits)
    b.ret(b.bitcast(b.convert("trunc", b.or_(bits, sign), I16), F16))
    return b.text()


def _widen(name: str) -> str:
    """float from a half."""
    b = Builder(name, [("x", F16)])
    n = partial(b.constant, I32)
    u = b.convert("zext", b.bitcast(b.arguments["x"], I16), I32)
    sign = b.shl(b.and_(u, n(32768)), n(16))
    a = b.and_(u, n(32767))
    moved = b.shl(a, n(13))
    top = b.or_(moved, n(2139095040))
    scaled = b.fmul(b.convert("sitofp", a, F32), b.constant(F32, 2.0**-24))
    tiny, common = b.bitcast(scaled, I32), b.add(moved, n(939524096))
    bits = b.select(b.compare("ult", a, n(1024)), tiny, common)
    bits = b.select(b.compare("uge", a, n(31744)), top, bits)
    bits = b.select(b.compare("ugt", a, n(31744)), b.or_(top, n(4194304)), bits)
    b.ret(b.bitcast(b.or_(bits, sign), F32))
    return b.text()


TEXTS = {
    "__extendhfsf2": _widen("__extendhfsf2"),
    "__truncsfhf2": _narrow("__truncsfhf2", F32, 32, 23, 127),
    "__truncdfhf2": _narrow("__truncdfhf2", F64, 64, 52, 1023),
}
