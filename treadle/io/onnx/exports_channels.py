"""Sums that end what ONNX has as one node: batch normalization, a bias of channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.graph.tensor import Tensor
from treadle.io.onnx.writer import Writer


def _line(node: Tensor, ndim: int) -> Tensor | None:
    """The vector that a node is with one element for each channel of [n, c, ...]."""
    if node.op.name != "Reshape" or node.inputs[0].type.ndim != 1:
        return None
    (vector,) = node.inputs
    shape = node.type.shape
    lined = (1, *vector.type.shape, *[1] * (ndim - 2))
    return vector if ndim >= 2 and shape in (lined, lined[1:]) else None


def _parts(node: Tensor, name: str, ndim: int) -> tuple[Tensor, Tensor] | None:
    """The operands of an op of this name whose second one is a line of channels."""
    if node.op.name != name:
        return None
    x, y = node.inputs
    line = _line(y, ndim)
    return None if line is None or x.type.shape != node.type.shape else (x, line)


def as_batch_norm(w: Writer, node: Tensor) -> str | None:
    """(x - mean) rsqrt(var + eps) scale + b as one node, None if it is not that."""
    ndim = node.type.ndim
    shifted = _parts(node, "Add", ndim)
    scaled = shifted and _parts(shifted[0], "Multiply", ndim)
    if not shifted or not scaled or scaled[0].op.name != "Multiply":
        return None
    centered, spread = scaled[0].inputs
    middle = _parts(centered, "Subtract", ndim)
    if middle is None or spread.op.name != "Rsqrt":
        return None
    total = spread.inputs[0]
    if total.op.name != "Add":
        return None
    variance, small = _line(total.inputs[0], ndim), total.inputs[1]
    if variance is None or small.stored is None or small.type.shape:
        return None
    (x, mean), vectors = middle, (scaled[1], shifted[1])
    if x.type.dtype != node.type.dtype or x.type.dtype.kind != "f":
        return None
    names = [w.name_of(v) for v in (x, *vectors, mean, variance)]
    return w.add("BatchNormalization", *names, epsilon=float(np.asarray(small.array)))


def with_channel_bias(w: Writer, node: Tensor, product: str) -> str | None:
    """A convolution with its bias, None if the sum is not that."""
    parts = _parts(node, "Add", node.type.ndim)
    if parts is None or parts[0].op.name not in ("Conv", "ConvInputGradient"):
        return None
    if not w.used_once(parts[0]):
        return None
    op: Any = parts[0].op
    kind = "Conv" if op.name == "Conv" else "ConvTranspose"
    return w.with_bias(product, w.name_of(parts[1]), kind)
