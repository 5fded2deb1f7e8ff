"""Numbers of fewer than 8 bits, and floats of 8: files store them, nothing computes."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from treadle.base.arrays import Array

# By the number that ONNX has for each dtype, and how many bits one element has.
STORED: dict[int, np.dtype[Any]] = {
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    18: np.dtype(ml_dtypes.float8_e4m3fnuz),
    19: np.dtype(ml_dtypes.float8_e5m2),
    20: np.dtype(ml_dtypes.float8_e5m2fnuz),
    21: np.dtype(ml_dtypes.uint4),
    22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn),
    24: np.dtype(ml_dtypes.float8_e8m0fnu),
    25: np.dtype(ml_dtypes.uint2),
    26: np.dtype(ml_dtypes.int2),
    27: np.dtype(ml_dtypes.float6_e2m3fn),
    28: np.dtype(ml_dtypes.float6_e3m2fn),
}
BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2, 27: 6, 28: 6}


def packed_bytes(code: int, shape: tuple[int, ...]) -> int:
    """The bytes of an array whose elements are packed bit by bit."""
    return -(-math.prod(shape) * BITS.get(code, 8) // 8)


def unpack(raw: Array, code: int, shape: tuple[int, ...]) -> Array:
    """The array of packed bytes, the lowest bits first."""
    if code in BITS:
        width, count = BITS[code], math.prod(shape)
        bits = np.unpackbits(raw, bitorder="little")[: count * width]
        powers = (1 << np.arange(width)).astype(np.uint8)
        raw = (bits.reshape(count, width) * powers).sum(-1, dtype=np.uint8)
    return raw.view(STORED[code]).reshape(shape)
