"""Products of dequantized bytes by instructions for bytes, quotients in fewer digits.

Not in the standard set. Where whole numbers are multiplied one by one, floats are
faster; the standard rules would take a rounded quotient in twice the digits apart: two
become one, and round otherwise.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from treadle.base.dtypes import float32, float64, int8, int32, int64, uint8
from treadle.base.types import equal_shapes
from treadle.graph.leaves import literal_node
from treadle.graph.tensor import Tensor
from treadle.ops.cast import Cast
from treadle.ops.contract import Contract, letters
from treadle.ops.convolution import Conv
from treadle.ops.elementwise import Divide, Multiply, Subtract
from treadle.ops.families import Movement
from treadle.ops.movement import BroadcastTo, Reshape
from treadle.ops.padding import Pad
from treadle.ops.reduce import Sum
from treadle.ops.window import Unfold
from treadle.rewrite.pattern import Over, captures, of
from treadle.rewrite.rule import Match, Rule, RuleSet
from treadle.rewrite.rules.contraction import placed

BYTES = (int8, uint8)
WIDE = (float32, float64, int32, int64)
TERMS = (1 << 31) // (255 * 255)  # whose sum int32 holds
SPREAD = 4  # operations that finish a result: offsets, scales, a cast
COPY = 10  # operations in whose time a byte of a window is copied


class _Bytes(NamedTuple):
    """An operand as (q - zero) scale, with q and zero of bytes, zero cast to int32;
    None is no offset, no scale.
    """

    q: Tensor
    zero: Tensor | None = None
    scale: Tensor | None = None


def _is_kept(v: Tensor, axes: str, out: str) -> bool:
    """Return True if a value is the same along dimensions that are summed over."""
    pairs = zip(reversed(axes), reversed(v.type.shape), strict=False)
    return all(n == 1 or c in out for c, n in pairs)


def _cast_bytes(v: Tensor) -> Tensor | None:
    """The bytes that a node is a cast of."""
    x = v.inputs[0] if type(v.op) is Cast else None
    return x if x is not None and x.type.dtype in BYTES else None


def _int32(v: Tensor) -> Tensor:
    return v if v.type.dtype == int32 else Cast(int32)(v)


def _whole(v: Tensor, axes: str, out: str) -> _Bytes | None:
    """Bytes, or a difference of two in a wider type that has a sign, cast or not."""
    q = _cast_bytes(v)
    if q is not None:
        return _Bytes(q)
    v = v.inputs[0] if type(v.op) is Cast else v
    if type(v.op) is not Subtract or v.type.dtype.kind == "u":
        return None
    q, zero = _cast_bytes(v.inputs[0]), v.inputs[1]
    inner = zero
    while isinstance(inner.op, Movement):
        inner = inner.inputs[0]
    if (
        q is None
        or _cast_bytes(inner) is None
        or not equal_shapes(q.type.shape, v.type.shape)
    ):
        return None
    return _Bytes(q, _int32(zero)) if _is_kept(zero, axes, out) else None


def _dequantized(v: Tensor, axes: str, out: str) -> _Bytes | None:
    """An operand of these dimensions as bytes; None where it is none."""
    if type(v.op) is not Multiply:
        return _whole(v, axes, out)
    for x, scale in (v.inputs, v.inputs[::-1]):
        whole = _whole(x, axes, out)
        if whole is None or not equal_shapes(x.type.shape, v.type.shape):
            continue
        if _is_kept(scale, axes, out):
            return whole._replace(scale=scale)
    return None


def _signed(x: _Bytes, dtype: Any) -> _Bytes:
    """The same numbers with bytes of the other sign, 128 further up or down."""
    shift = literal_node(128 if dtype == uint8 else -128, int32)
    zero = shift if x.zero is None else x.zero + shift
    return x._replace(q=Cast(dtype)(Cast(int32)(x.q) + shift), zero=zero)


def _as_bytes(m: Match) -> Tensor | None:
    """The product in int32 of one operand of uint8 and one of int8, and its scales."""
    root, op = m.root, m.root.op
    assert isinstance(op, Contract)
    a, b, out = letters(op.spec)
    named = any(x.type.axes is not None for x in root.inputs)
    if named or root.type.dtype not in WIDE:
        return None
    x, y = (
        _dequantized(v, axes, out) for v, axes in zip(root.inputs, (a, b), strict=True)
    )
    if x is None or y is None or set(a) - set(out) != set(b) - set(out):
        return None
    size = dict(zip(a, root.inputs[0].type.shape, strict=True))
    terms = math.prod(size[c] for c in a if c not in out)
    if not _pays(terms, root.type.size, sum(v.type.size for v in root.inputs)):
        return None
    if x.q.type.dtype != y.q.type.dtype:
        plain = x.zero is y.zero is x.scale is y.scale is None
        if plain and root.type.dtype == int32:
            return None  # it is one
    elif x.q.type.dtype == uint8:
        y = _signed(y, int8)
    else:
        x = _signed(x, uint8)
    return _product(op.spec, x, y, root.type.dtype)


def _windows_as_bytes(m: Match) -> Tensor | None:
    """A convolution of bytes of one scale as the product of their windows."""
    root, op = m.root, m.root.op
    assert isinstance(op, Conv)
    rank = root.type.ndim - 2
    places, taps = "xyz"[:rank], "ijk"[:rank]
    named = any(x.type.axes is not None for x in root.inputs)
    if named or op.groups != 1 or rank > 3 or root.type.dtype not in WIDE:
        return None
    x = _dequantized(root.inputs[0], f"nc{places}", "")
    w = _dequantized(root.inputs[1], f"oc{taps}", "o")
    if x is None or w is None:
        return None
    (images, channels, *_), (_, _, *kernel) = x.q.type.shape, w.q.type.shape
    counts = root.type.shape[2:]
    terms = channels * math.prod(kernel)
    pixels = {*kernel, *op.stride} <= {1} and not any(map(any, op.padding))
    copied = images * terms * math.prod(counts) * (1 if pixels else COPY)
    if not _pays(terms, root.type.size, copied + w.q.type.size):
        return None
    if x.q.type.dtype == int8:
        x = _signed(x, uint8)
    if w.q.type.dtype == uint8:
        w = _signed(w, int8)
    x = _Bytes(x.q, *(v if v is None else Reshape(())(v) for v in (x.zero, x.scale)))
    windows = x.q
    if any(map(any, op.padding)):  # around an image are zeros, which the offset is
        border = literal_node(0, int32) if x.zero is None else x.zero
        padded = Pad(((0, 0), (0, 0), *op.padding))(Cast(int32)(windows), border)
        windows = Cast(uint8)(padded)
    if not pixels:
        unfold = Unfold(tuple(kernel), op.stride, ((0, 0),) * rank, op.dilation)
        windows = unfold(windows)
    windows = Reshape((images, channels, *kernel, *counts))(windows)
    x, shared = x._replace(q=windows), ""
    if images > 1:  # whose filters are the same
        w, shared = w._replace(q=BroadcastTo((images, *w.q.type.shape))(w.q)), "n"
    spec = f"nc{taps}{places},{shared}oc{taps}->no{places}"
    return _product(spec, x, w, root.type.dtype)


def _product(spec: str, x: _Bytes, y: _Bytes, dtype: Any) -> Tensor:
    """A product of bytes with their offsets and scales, in a dtype."""
    a, b, out = letters(spec)
    product = Contract(spec)(Cast(int32)(x.q), Cast(int32)(y.q))
    # (q - z) (p - w) = q p - z p - w (q - z), summed
    if x.zero is not None:
        product = product - _placed(x.zero, a, out) * _sum(Cast(int32)(y.q), b, out)
    if y.zero is not None:
        centered = Cast(int32)(x.q)
        if x.zero is not None:
            centered = centered - x.zero
        product = product - _placed(y.zero, b, out) * _sum(centered, a, out)
    scales = [
        _placed(v.scale, axes, out)
        for v, axes in ((x, a), (y, b))
        if v.scale is not None
    ]
    if dtype != int32:
        product = Cast(dtype)(product)
    return product * math.prod(scales[1:], start=scales[0]) if scales else product


def _pays(terms: int, size: int, operands: int) -> bool:
    """Return True if a quarter of the work, with that on both operands and what
    finishes a result of that size, is less than the work; and sums of the terms fit.
    """
    return bool(terms <= TERMS) and bool(
        3 * terms * size > 4 * (operands + SPREAD * size)
    )


def _placed(v: Tensor, axes: str, out: str) -> Tensor:
    """A value that broadcasts against an operand as one that does so against `out`."""
    short = axes[len(axes) - v.type.ndim :]
    kept = [k for k, c in enumerate(short) if c in out]
    if len(kept) != len(short):
        v = v.reshape(tuple(v.type.shape[k] for k in kept))
    return placed(v, "".join(short[k] for k in kept), out) if kept else v


def _sum(v: Tensor, axes: str, out: str) -> Tensor:
    """The sums of an operand, placed in the result."""
    summed = tuple(k for k, c in enumerate(axes) if c not in out)
    return _placed(Sum(summed, True)(v), axes, out)


def _example(d: Any) -> Any:
    x, y = d.whole("x", (16, 24)), d.whole("y", (24, 12))
    z, w = d.whole("z", ()), d.whole("w", (12,))
    first = x.astype("uint8").astype("int32") - z.astype("uint8").astype("int32")
    second = y.astype("int8").astype("int32") - w.astype("int8").astype("int32")
    return (first.astype(d.type) * d("s", ())) @ (second.astype(d.type) * d("t", (12,)))


def _filtered(d: Any) -> Any:
    x, w = d.whole("x", (1, 8, 6, 6)), d.whole("w", (16, 8, 3, 3))
    z = d.whole("z", ())
    first = x.astype("uint8").astype("int32") - z.astype("uint8").astype("int32")
    second = w.astype("int8").astype(d.type) * d("t", (16, 1, 1, 1))
    return d.td.conv2d(first.astype(d.type) * d("s", ()), second, padding=1)


QUANTIZED = RuleSet(
    "quantized",
    [
        Rule("convolution of dequantized bytes", Over(Conv, Multiply, Cast, Subtract),
             _windows_as_bytes, exact=False, takes="numeric", example=_filtered),
        Rule("product of dequantized bytes", Over(Contract, Multiply, Cast, Subtract),
             _as_bytes, exact=False, takes="numeric", example=_example),
    ],
)  # fmt: skip


x, y = captures("x y")
cast, divide = of("Cast"), of("Divide")


def _once(m: Match) -> Tensor | None:
    """A quotient of float32: 53 digits are more than 2 x 24 + 2, so that the second
    rounding decides alone (Figueroa 1995, When is double rounding innocuous?).
    """
    wide = m.f.type.dtype == float64 and m.root.type.dtype == float32
    narrow = m.x.type.dtype == m.y.type.dtype == float32
    return Divide()(m.x, m.y) if wide and narrow else None


ROUNDING = RuleSet(
    "rounding",
    [
        Rule("quotient in twice the digits", cast(divide(cast(x), cast(y), label="f")),
             _once, takes="float",
             example=lambda d: (d("x", (5,)).astype("float32").astype("float64")
             / d.above(0.5, (5,)).astype("float32").astype("float64"))
             .astype("float32")),
    ],
)  # fmt: skip
