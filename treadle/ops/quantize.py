"""Numbers of few bits: int8 by channels, fixed point in int16, and values rounded to
grids of a few.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from treadle.base.dtypes import DType, accumulator, float64, int8, int16
from treadle.base.errors import ArgumentError, DTypeError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.loop import map as mapped
from treadle.ops.movement import permute_dims, reshape

__all__ = [
    "dequantize",
    "fixed_point",
    "int8_linear",
    "int16_linear",
    "quantize",
    "quantize_fixed",
    "quantize_log",
]

BLOCK = 1 << 18  # elements of int16 that are doubles at a time: two megabytes


def quantize(x: Any, axis: int | Sequence[int] = 0) -> tuple[Tensor, Tensor]:
    """(q, scale) with x about q scale: q int8, a scale for each place along `axis`.

    scale = max|x| / 127 over the other axes, which it keeps with length 1, and q =
    round(x / scale), so that |x - q scale| is at most scale / 2. Zeros have scale 1.

    >>> q, scale = td.quantize([[1.0, -127.0], [0.0, 254.0]])
    >>> q.tolist(), scale.tolist()
    ([[1, -127], [0, 127]], [[1.0], [2.0]])
    """
    node = as_float(x)
    kept = {axis} if isinstance(axis, int) else set(axis)
    ndim = node.type.ndim
    if not all(-ndim <= k < ndim for k in kept):
        raise ShapeError(f"axis {axis} of {node.type}").located(
            "quantize", repr(node.type), node.line
        )
    rest = tuple(k for k in range(ndim) if k not in kept and k - ndim not in kept)
    wide = astype(node, accumulator(node.type.dtype))
    top = functions.abs(wide).max(rest, keepdims=True) if rest else functions.abs(wide)
    scale = functions.where(top > 0.0, top / 127.0, 1.0)
    whole = functions.round(wide / scale)
    return astype(functions.clip(whole, -127.0, 127.0), int8), scale


def dequantize(q: Any, scale: Any) -> Tensor:
    """q scale, in the dtype of the scale.

    >>> td.dequantize(*td.quantize([[1.0, -127.0]])).tolist()
    [[1.0, -127.0]]
    """
    factor = as_float(scale)
    return astype(as_tensor(q), factor.type.dtype) * factor


def int8_linear(x: Any, weight: Any, scale: Any, bias: Any = None) -> Tensor:
    """x (W scale)ᵀ + b with W int8 (out, in) and a scale for each of `out`.

    Scales are applied to the result. What lies in memory is W alone: the product reads
    int8 and widens what it has in registers.

    >>> q, scale = td.quantize([[1.0, 2.0], [3.0, 4.0]])
    >>> td.int8_linear([[1.0, 1.0]], q, scale).numpy().round(1).tolist()
    [[3.0, 7.0]]
    """
    a, w = _meeting("int8_linear", x, weight, int8, "q, scale = td.quantize(weight)")
    product = functions.matmul(a, astype(w, a.type.dtype).mT)
    y = product * reshape(astype(as_tensor(scale), a.type.dtype), (-1,))
    return y if bias is None else y + bias


def fixed_point(x: Any, bits: int = 10) -> Tensor:
    """x as int16 in units of 2^-bits: round(x 2^bits), saturated at -2^15 and 2^15 - 1.

    What lies within 2^(15 - bits) of zero is off by at most half a unit.

    >>> td.fixed_point([1.0, -0.25, 100.0]).tolist()
    [1024, -256, 32767]
    """
    return astype(_whole(as_float(x), bits), int16)


def int16_linear(x: Any, weight: Any, bias: Any = None, bits: int = 10) -> Tensor:
    """x Wᵀ + b in fixed point: W int16 (out, in), x rounded to int16 as `fixed_point`.

    y = (sum_k round(x_k 2^bits) W_k) / 2^(2 bits) + b, in the dtype of x; the sum of
    whole numbers is exact. It is Marian's int16 product (--optimize, intgemm16), whose
    sum is of 32 bits and wraps where |y| reaches 2^(31 - 2 bits), 2048. The gradient
    passes the rounding of x, and stops where x saturates.

    >>> w = td.fixed_point([[1.0, 2.0], [3.0, 4.0]])
    >>> td.int16_linear([[1.0, 0.5]], w).tolist()
    [[2.0, 5.0]]
    """
    a, w = _meeting("int16_linear", x, weight, int16, "td.fixed_point(weight)")
    # Doubles hold sums of 2^23 products of two 16-bit numbers exactly.
    product = _product(_whole(a, bits), w) * 4.0**-bits
    y = astype(product, a.type.dtype)
    return y if bias is None else y + bias


def _whole(x: Tensor, bits: int) -> Tensor:
    """x in units of 2^-bits as whole doubles that int16 holds."""
    if isinstance(bits, bool) or not isinstance(bits, int) or not 0 <= bits <= 15:
        raise ArgumentError(f"a unit is 2^-bits with bits from 0 to 15, got {bits!r}")
    units = functions.clip(astype(x, float64) * 2.0**bits, -32768.0, 32767.0)
    return functions.round(units, "straight_through")


def _meeting(
    name: str, x: Any, weight: Any, dtype: DType, hint: str
) -> tuple[Tensor, Tensor]:
    """x [..., in] and a weight (out, in) of this dtype, or what is wrong with them."""
    a, w = as_float(x), as_tensor(weight)
    if w.type.dtype != dtype:
        raise DTypeError(
            f"takes a weight of {dtype.name}, got {w.type}", hint=hint
        ).located(name, repr(w.type), w.line)
    if w.type.ndim != 2 or not a.type.ndim or a.type.shape[-1] != w.type.shape[1]:
        raise ShapeError(
            f"x {a.type.shape} and a weight {w.type.shape} do not meet",
            hint="x is [..., in], the weight (out, in)",
        ).located(name, f"{a.type!r}, {w.type!r}", a.line)
    return a, w


def _product(x: Tensor, w: Tensor) -> Tensor:
    """x Wᵀ, with W as doubles in blocks of rows where it is long."""
    (rows, width), dtype = w.type.shape, x.type.dtype
    size = max(BLOCK // max(width, 1), 1)
    product: Tensor
    if rows <= 4 * size:
        product = functions.matmul(x, astype(w, dtype).mT)
        return product
    lead = x.type.shape[:-1]
    flat = reshape(x, (math.prod(lead), width))
    count = rows // size
    blocks = reshape(w[: count * size], (count, size, width))
    parts = mapped(
        lambda block: functions.matmul(flat, astype(block, dtype).mT), blocks
    )
    joined = [reshape(permute_dims(parts, (1, 0, 2)), (flat.shape[0], count * size))]
    if count * size < rows:
        joined.append(functions.matmul(flat, astype(w[count * size :], dtype).mT))
    product = functions.concat(joined, 1) if len(joined) > 1 else joined[0]
    return reshape(product, (*lead, rows))


def quantize_fixed(x: Any, bits: int = 8, scale: Any = None, steps: int = 0) -> Tensor:
    """x rounded to n = 2^(bits - 1) - 1 steps of S / n on either side of zero.

    q = round(clip(x, -S, S) n / S) S / n. S is max|x|, or `scale`; each of `steps`
    rounds replaces it by the factor of q / S that is nearest to x, sum(a x) / sum(a a).
    Aji and Heafield, Compressing neural machine translation models with 4-bit
    precision, 2020 (Marian's ModelQuantizer).

    >>> td.quantize_fixed([1.0, 0.6, 0.2], bits=2).tolist()
    [1.0, 1.0, 0.0]
    """
    return _on_grid(x, bits, scale, steps, _fixed)


def quantize_log(x: Any, bits: int = 8, scale: Any = None, steps: int = 0) -> Tensor:
    """x rounded to S times powers of two, 2^-n up to 1, and zero.

    q = sign(x) S 2^k with k = floor(log2(|x / S| 4 / 3)) clipped to [-n, 0] and n =
    2^(bits - 1) - 1: 4 / 3 makes it the nearest value. S is found as in
    `quantize_fixed`.

    >>> td.quantize_log([1.0, 0.7, 0.5, 0.2, -0.9], bits=4).tolist()
    [1.0, 0.5, 0.5, 0.25, -1.0]
    """
    return _on_grid(x, bits, scale, steps, _log)


def _fixed(x: Tensor, n: int, scale: Tensor) -> Tensor:
    steps: Tensor = functions.round(functions.clip(x, -scale, scale) / scale * n)
    return steps / n * scale


def _log(x: Tensor, n: int, scale: Tensor) -> Tensor:
    part = functions.minimum(functions.abs(x) / scale, 1.0)
    # Zero stays zero by its sign; its logarithm is never asked for.
    safe = functions.where(part > 0.0, part, 1.0)
    power = functions.floor(functions.log2(safe * (4.0 / 3.0)))
    power = functions.clip(power, -float(n), 0.0)
    return functions.sign(x) * scale * functions.pow(2.0, power)


def _on_grid(x: Any, bits: int, scale: Any, steps: int, f: Any) -> Tensor:
    if not 2 <= bits <= 16:
        raise ArgumentError(f"numbers are rounded to 2 to 16 bits, not {bits}")
    node = as_float(x)
    wide, n = astype(node, accumulator(node.type.dtype)), (1 << (bits - 1)) - 1
    top = functions.abs(wide).max() if scale is None else as_tensor(scale)
    size = astype(top, wide.type.dtype)
    size = functions.where(size > 0.0, size, 1.0)
    for _ in range(steps):
        a = f(wide, n, size) / size
        square = (a * a).sum()
        better = (a * wide).sum() / functions.where(square > 0.0, square, 1.0)
        size = functions.where(better > 0.0, better, size)
    return astype(f(wide, n, size), node.type.dtype)
