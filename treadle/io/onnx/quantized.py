"""Importers of casts and of quantized values, dtypes that are only stored included.

What is stored in fewer than 8 bits, or as a float of 8, is an array while a graph is
built: a cast from it is exact and gives a tensor, a cast to it needs values.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import treadle as td
from treadle.base.arrays import Array
from treadle.base.extras import extra
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.tensor import Tensor
from treadle.io.onnx.build import Value, value_of
from treadle.io.onnx.file import DTYPES, STORED
from treadle.io.onnx.networks import WINDOWS, convolved
from treadle.io.onnx.table import OnnxNode, row

_NARROW = set(STORED.values())
_SATURATED = {STORED[k] for k in (17, 18, 19, 20)}


def to_dtype(code: int) -> Any:
    """The dtype with a number in a file."""
    dtype = {**DTYPES, **STORED}.get(code)
    if dtype is None:
        raise ValueError(f"the dtype with the number {code} is not read")
    return dtype


def _dtype_of(x: Value) -> Any:
    assert x is not None and not isinstance(x, tuple)
    return x.dtype


def cast(x: Value, dtype: Any, saturate: int = 1, rounding: str = "up") -> Any:
    """x in another dtype, through an array where one of the two is only stored."""
    if x is None or isinstance(x, tuple):
        raise ValueError("it takes a tensor")
    if dtype in _NARROW:
        return _narrowed(_wide(value_of(x, 0)), dtype, saturate, rounding)
    if x.dtype in _NARROW:
        wide = _wide(value_of(x, 0))
        return np.asarray(wide.astype(dtype))
    if isinstance(x, np.ndarray):
        return np.asarray(td.astype(constant_node(x), dtype).numpy())
    return td.astype(as_tensor(x), dtype)


def _wide(x: Array) -> Array:
    """An array of a dtype that NumPy computes with; all stored ones fit float32."""
    return x.astype(np.float32) if x.dtype in _NARROW else x


def _narrowed(x: Array, dtype: Any, saturate: int, rounding: str) -> Array:
    if dtype == STORED[24]:
        helper = extra("onnx.numpy_helper", "onnx")
        return np.asarray(
            helper.to_float8e8m0(x.astype(np.float32), bool(saturate), rounding)
        ).astype(dtype)
    if dtype in _SATURATED:
        wide = x.astype(np.float32)
        if saturate:
            limits: Any = ml_dtypes.finfo
            most = float(limits(dtype).max)
            wide = np.clip(wide, -most, most)
        return np.asarray(wide.astype(dtype))
    return np.asarray(x.astype(dtype))


@row("Cast", reads="to saturate round_mode", raw=True)
def _cast(node: OnnxNode, x: Value) -> tuple[Any]:
    dtype = to_dtype(node.get("to", 0))
    return (cast(x, dtype, node.get("saturate", 1), node.get("round_mode", "up")),)


@row("CastLike", reads="saturate round_mode", raw=True)
def _cast_like(node: OnnxNode, x: Value, like: Value) -> tuple[Any]:
    dtype = _dtype_of(like)
    return (cast(x, dtype, node.get("saturate", 1), node.get("round_mode", "up")),)


@row("BitCast", reads="to", raw=True)
def _bit_cast(node: OnnxNode, x: Value) -> tuple[Any]:
    array, dtype = value_of(x, 0), to_dtype(node.get("to", 0))
    if array.dtype.itemsize != dtype.itemsize:
        raise ValueError(f"the bits of {array.dtype} as {dtype}")
    return (np.asarray(array).view(dtype),)


# -- scales ------------------------------------------------------------------------


def _spread(s: Tensor, node: OnnxNode, shape: tuple[int, ...]) -> Tensor:
    """Scales or zero points for each element: of all, along an axis, or of blocks."""
    if s.type.ndim == 0 or s.type.shape == (1,):
        return td.reshape(s, ())
    block = node.get("block_size", 0) if "block_size" in node.attributes else 0
    axis = node.get("axis", 1) % max(len(shape), 1)
    if block:
        if block < 0 or s.type.ndim != len(shape):
            raise ValueError(f"blocks of {block} with scales {s.type}")
        whole = td.repeat(s, block, axis)
        key = tuple(slice(0, n) for n in shape)
        return whole[key]
    if s.type.ndim != 1 or s.type.shape[0] != shape[axis]:
        raise ValueError(f"scales {s.type} along axis {axis} of {shape}")
    return td.reshape(s, tuple(-1 if k == axis else 1 for k in range(len(shape))))


def _tensor(x: Value, dtype: Any = None) -> Tensor:
    """A tensor of an operand, of a stored dtype too."""
    if x is not None and not isinstance(x, tuple) and x.dtype in _NARROW:
        x = _wide(value_of(x, 0))
    node: Tensor = as_tensor(x)
    return node if dtype is None else td.astype(node, dtype)


_WIDER = {td.float16: td.float32, td.bfloat16: td.float32, td.float32: td.float64}


def _quotient(x: Tensor, y: Tensor) -> Tensor:
    """x / y rounded once: taken in twice the digits, it stays apart from rules that
    turn quotients of quotients, which would move a tie of what is rounded next. A rule
    that comes after those has it in single precision."""
    dtype = x.type.dtype
    wide = _WIDER.get(dtype, dtype)
    return td.astype(td.astype(x, wide) / td.astype(y, wide), dtype)


_QUANTIZE = "axis saturate block_size output_dtype precision"


@row("QuantizeLinear", reads=_QUANTIZE, raw=True)
def _quantize(node: OnnxNode, x: Value, scale: Value, zero: Value = None) -> tuple[Any]:
    code = node.get("output_dtype", 0)
    dtype = to_dtype(code) if code else np.dtype(np.uint8)
    dtype = dtype if zero is None else _dtype_of(zero)
    data, scales = _tensor(x), _tensor(scale)
    precision = node.get("precision", 0)
    wide = to_dtype(precision) if precision else scales.type.dtype
    shape = data.type.shape
    y = _quotient(td.astype(data, wide), td.astype(_spread(scales, node, shape), wide))
    if dtype.kind == "f" or dtype.name.startswith("float"):
        if zero is not None and not value_of(zero, 2).astype(np.float32).any():
            zero = None
        if zero is not None:
            raise ValueError(f"a zero point of {dtype} that is not 0")
        return (cast(y, dtype, node.get("saturate", 1)),)
    y = td.astype(td.round(y), td.float32)
    if zero is not None:
        y = y + _spread(_tensor(zero, td.float32), node, shape)
    limits: Any = ml_dtypes.iinfo
    info = limits(dtype)
    y = td.clip(y, float(info.min), float(info.max))
    return (cast(y, dtype),)


@row("DequantizeLinear", reads="axis block_size output_dtype", raw=True)
def _dequantize(
    node: OnnxNode, x: Value, scale: Value, zero: Value = None
) -> tuple[Any]:
    code, scales = node.get("output_dtype", 0), _tensor(scale)
    data = _tensor(x, td.float32 if _dtype_of(x) in _NARROW else None)
    shape = data.type.shape
    zero = _offset(zero)
    if zero is not None:
        wide = td.int32 if data.type.dtype.kind in "iu" else td.float32
        point = _spread(_tensor(zero, wide), node, shape)
        data = td.astype(data, wide) - point
    steps = _spread(scales, node, shape)
    y = td.astype(data, steps.type.dtype) * steps
    return (td.astype(y, to_dtype(code)) if code else y,)


# -- products ----------------------------------------------------------------------


def _offset(zero: Value) -> Value:
    """A zero point; None where it is known to be 0."""
    none = isinstance(zero, np.ndarray) and not zero.astype(np.float32).any()
    return None if none else zero


def _centered(x: Value, zero: Value, axis: int | None, dtype: Any) -> Tensor:
    """Integers without their zero point; one of several stands along an axis."""
    whole, zero = td.astype(as_tensor(x), dtype), _offset(zero)
    if zero is None:
        return whole
    point = td.astype(as_tensor(zero), dtype)
    return whole - _lined(point, axis, whole.type.ndim)


def _lined(s: Tensor, axis: int | None, ndim: int) -> Tensor:
    """Numbers of rows, columns or channels, to be broadcast against `ndim` axes."""
    if s.type.size == 1:
        return td.reshape(s, ())
    if s.type.ndim > 1 or axis is None:
        return s
    return td.reshape(s, tuple(-1 if k == axis % ndim else 1 for k in range(ndim)))


def _product(a: Value, b: Value, zero_a: Value = None, zero_b: Value = None) -> Tensor:
    wide = td.int32
    return td.matmul(_centered(a, zero_a, -2, wide), _centered(b, zero_b, -1, wide))


@row("MatMulInteger", raw=True)
def _integer_product(node: OnnxNode, *xs: Value) -> tuple[Tensor]:
    return (_product(*xs),)


def _requantized(y: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """round(y scale) + zero in the dtype of the zero point, cut at its ends."""
    info = np.iinfo(zero.type.dtype)
    y = td.astype(td.round(td.astype(y, td.float32) * scale), td.float32)
    y = y + td.astype(td.reshape(zero, ()), td.float32)
    return td.astype(td.clip(y, float(info.min), float(info.max)), zero.type.dtype)


@row("QLinearMatMul", raw=True)
def _quantized_product(node: OnnxNode, *xs: Value) -> tuple[Tensor]:
    a, scale_a, zero_a, b, scale_b, zero_b, scale, zero = xs
    y = _product(a, b, zero_a, zero_b)
    first, second, scale = (_tensor(s, td.float32) for s in (scale_a, scale_b, scale))
    ndim = y.type.ndim
    factor = _lined(first, -2, ndim) * _lined(second, -1, ndim) / scale
    return (_requantized(y, factor, as_tensor(zero)),)


def _conv(
    node: OnnxNode, x: Value, w: Value, zero_x: Value = None, zero_w: Value = None
) -> Tensor:
    # Products of bytes and their sums are exact in float64.
    wide = td.float64
    y = convolved(node, _centered(x, zero_x, None, wide), _centered(w, zero_w, 0, wide))
    return td.astype(y, td.int32)


@row("ConvInteger", reads=f"{WINDOWS} group", raw=True)
def _integer_conv(node: OnnxNode, *xs: Value) -> tuple[Tensor]:
    return (_conv(node, *xs),)


@row("QLinearConv", reads=f"{WINDOWS} group", raw=True)
def _quantized_conv(node: OnnxNode, *xs: Value) -> tuple[Tensor]:
    x, scale_x, zero_x, w, scale_w, zero_w, scale, zero, *bias = xs
    y = _conv(node, x, w, zero_x, zero_w)
    if bias and bias[0] is not None:
        y = y + _lined(as_tensor(bias[0]), 1, y.type.ndim)
    scale_x, scale_w, scale = map(as_tensor, (scale_x, scale_w, scale))
    factor = scale_x * _lined(scale_w, 1, y.type.ndim) / scale
    return (_requantized(y, factor, as_tensor(zero)),)
