"""Conversions of half floats, for hosts that have no instructions for them.

LLVM calls these functions by the names the compilers' run-time libraries give them;
no library that is sure to be loaded has them. Ties round to even, NaNs turn quiet.
"""

from __future__ import annotations

# Widening: a subnormal is its integer times 2^-24. Narrowing a number below 2^-14:
# adding a power of two whose last bit counts 2^-24 rounds it; one above: add half a
# unit less one, plus the last bit that stays, and cut the rest.
_NARROW = """
define half @{name}({type} %x) {{
  %u = bitcast {type} %x to {int}
  %signed = lshr {int} %u, {to_sign}
  %sign = and {int} %signed, 32768
  %a = and {int} %u, {all_but_sign}
  %nan = icmp ugt {int} %a, {infinite}
  %huge = icmp uge {int} %a, {overflow}
  %small = icmp ult {int} %a, {normal}
  %cut = lshr {int} %a, {drop}
  %payload = and {int} %cut, 511
  %quiet = or {int} %payload, 32256
  %odd = and {int} %cut, 1
  %rebased = sub {int} %a, {rebase}
  %lifted = add {int} %rebased, {almost_half}
  %even = add {int} %lifted, %odd
  %common = lshr {int} %even, {drop}
  %positive = bitcast {int} %a to {type}
  %magic = bitcast {int} {shifter} to {type}
  %shifted = fadd {type} %positive, %magic
  %bits = bitcast {type} %shifted to {int}
  %tiny = sub {int} %bits, {shifter}
  %one = select i1 %small, {int} %tiny, {int} %common
  %two = select i1 %huge, {int} 31744, {int} %one
  %three = select i1 %nan, {int} %quiet, {int} %two
  %all = or {int} %three, %sign
  %short = trunc {int} %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}}
"""

_WIDEN = """
define float @__extendhfsf2(half %x) {
  %short = bitcast half %x to i16
  %u = zext i16 %short to i32
  %signed = and i32 %u, 32768
  %sign = shl i32 %signed, 16
  %a = and i32 %u, 32767
  %small = icmp ult i32 %a, 1024
  %special = icmp uge i32 %a, 31744
  %nan = icmp ugt i32 %a, 31744
  %moved = shl i32 %a, 13
  %common = add i32 %moved, 939524096
  %top = or i32 %moved, 2139095040
  %quiet = or i32 %top, 4194304
  %count = sitofp i32 %a to float
  %scaled = fmul float %count, 0x3E70000000000000
  %tiny = bitcast float %scaled to i32
  %one = select i1 %small, i32 %tiny, i32 %common
  %two = select i1 %special, i32 %top, i32 %one
  %three = select i1 %nan, i32 %quiet, i32 %two
  %all = or i32 %three, %sign
  %result = bitcast i32 %all to float
  ret float %result
}
"""


def _narrow(name: str, kind: str, width: int, mantissa: int, bias: int) -> str:
    """half from a float of `width` bits, `mantissa` of them behind the point."""
    drop = mantissa - 10  # bits that a half does not have
    return _NARROW.format(
        name=name,
        type=kind,
        int=f"i{width}",
        to_sign=width - 16,
        all_but_sign=(1 << width - 1) - 1,
        infinite=(2 * bias + 1) << mantissa,
        overflow=(bias + 16 << mantissa) - (1 << drop - 1),  # 65520 rounds to infinity
        normal=bias - 14 << mantissa,
        drop=drop,
        rebase=bias - 15 << mantissa,
        almost_half=(1 << drop - 1) - 1,
        shifter=bias + mantissa - 24 << mantissa,
    )


TEXTS = {
    "__extendhfsf2": _WIDEN,
    "__truncsfhf2": _narrow("__truncsfhf2", "float", 32, 23, 127),
    "__truncdfhf2": _narrow("__truncdfhf2", "double", 64, 52, 1023),
}
