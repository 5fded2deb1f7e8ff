"""Importers of Fourier transforms and of what goes with them."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td
from treadle.base.arrays import Array
from treadle.graph.tensor import Tensor
from treadle.io.files import check_shape
from treadle.io.onnx.quantized import to_dtype
from treadle.io.onnx.shapes import MOST
from treadle.io.onnx.table import OnnxNode, axis_of, integers, row


def _transformed(
    x: Tensor, axis: int, length: int, inverse: bool, onesided: bool
) -> Tensor:
    """The transform of x[..., 1 or 2], real and imaginary parts, along `axis`."""
    if length < 1 or x.type.shape[-1] not in (1, 2) or axis == x.type.ndim - 1:
        raise ValueError(f"{length} frequencies of {x.type} along axis {axis}")
    re, im = x[..., 0], x[..., 1] if x.type.shape[-1] == 2 else None
    z = re if im is None else re + 1j * im
    if inverse and onesided:
        return td.expand_dims(td.fft.irfft(z, n=length, axis=axis), -1)
    if onesided and im is None:
        y = td.fft.rfft(z, n=length, axis=axis)
    else:
        y = (td.fft.ifft if inverse else td.fft.fft)(z, n=length, axis=axis)
    if onesided and im is not None:
        y = td.take(y, np.arange(length // 2 + 1), axis)
    return td.stack([td.real(y), td.imag(y)], -1)


@row("DFT", reads="axis inverse onesided", static=(1, 2))
def _dft(node: OnnxNode, x: Tensor, length: Any = None, axis: Any = None) -> Tensor:
    place = -2 if node.opset >= 20 else node.get("axis", 1)
    place = place if axis is None else integers(axis, "the axis")[0]
    k = axis_of(place, x)
    inverse, onesided = bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    n = x.type.shape[k]
    size = 2 * (n - 1) if inverse and onesided else n
    size = size if length is None else integers(length, "the length")[0]
    return _transformed(x, k, size, inverse, onesided)


@row("STFT", reads="onesided", static=(1, 3))
def _stft(
    node: OnnxNode, x: Tensor, step: Array, window: Any = None, length: Any = None
) -> Tensor:
    (hop,) = integers(step, "the step")
    x = x if x.type.ndim == 3 else td.expand_dims(x, -1)
    size = x.type.shape[1]
    size = size if window is None else window.type.shape[0]
    size = size if length is None else integers(length, "the length")[0]
    if hop < 1 or not 0 < size <= x.type.shape[1]:
        raise ValueError(f"frames of {size} in steps of {hop} of {x.type}")
    count = 1 + (x.type.shape[1] - size) // hop
    batch, _, parts = x.type.shape
    check_shape((batch, count, size, parts), x.type.dtype)
    columns = td.unfold(td.moveaxis(x, 2, 1), size, stride=hop)
    frames = td.reshape(columns, (batch, parts, size, count))
    frames = td.permute_dims(frames, (0, 3, 2, 1))
    if window is not None:
        frames = frames * td.expand_dims(window, -1)
    return _transformed(frames, 2, size, False, bool(node.get("onesided", 1)))


@row("MelWeightMatrix", reads="output_datatype", static=(-1,))
def _mel(
    node: OnnxNode, bins: Array, length: Array, rate: Array, low: Array, high: Array
) -> Array:
    count, size = int(bins.reshape(())), int(length.reshape(()))
    if not 0 < count * (size // 2 + 1) <= MOST:
        raise ValueError(f"{count} bins of {size} frequencies")
    ends = 2595 * np.log10(1 + np.array([float(low), float(high)]) / 700)
    mels = ends[0] + np.arange(count + 2) * (ends[1] - ends[0]) / (count + 2)
    hertz = 700 * (10 ** (mels / 2595) - 1)
    places = ((size + 1) * hertz // int(rate.reshape(()))).astype(int)
    at = np.arange(size // 2 + 1)[:, None]
    left, middle, right = places[:-2], places[1:-1], places[2:]
    rising = (at - left) / np.maximum(middle - left, 1)
    falling = (right - at) / np.maximum(right - middle, 1)
    rising = np.where(middle == left, (at == middle) * 1.0, rising)
    weights = np.where(at <= middle, np.where(at >= left, rising, 0), 0)
    down = (at >= middle) & (at < right)
    weights = np.where(down & (right > middle), falling, weights)
    return weights.astype(to_dtype(node.get("output_datatype", 1)))
