"""Importers of normalizations and matrix products."""

from __future__ import annotations

from typing import Any

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.elements import number
from treadle.io.onnx.table import Node, axis_of, row


def _eps(node: Node, x: Tensor, default: float = 1e-5) -> Tensor:
    return number(x, node.get("epsilon", default))


def _stashed(node: Node) -> None:
    """Refuse statistics in another dtype than float32, or that of the values."""
    if node.get("stash_type", 1) != 1:
        raise ValueError(f"statistics in dtype {node.get('stash_type')} (stash_type)")


@row("BatchNormalization", reads="epsilon momentum spatial training_mode")
def _batch_norm(
    node: Node, x: Tensor, scale: Tensor, b: Tensor, mean: Tensor, var: Tensor
) -> Any:
    if not node.get("spatial", 1):
        raise ValueError("statistics for each place of an image (spatial 0)")
    if not node.get("training_mode", 0):
        return td.batch_norm(x, mean, var, scale, b, 1, _eps(node, x))
    axes = tuple(k for k in range(x.type.ndim) if k != 1)
    seen = td.mean(x, axes), td.var(x, axes)
    y = td.batch_norm(x, *seen, scale, b, 1, _eps(node, x))
    share = node.get("momentum", 0.9)
    pairs = zip((mean, var), seen, strict=True)
    running = [
        old * number(old, share)
        + td.astype(new, old.type.dtype) * number(old, 1 - share)
        for old, new in pairs
    ]
    return (y, *running)[: max(len(node.outputs), 1)]


@row("InstanceNormalization", reads="epsilon")
def _instance_norm(node: Node, x: Tensor, scale: Tensor, b: Tensor) -> Tensor:
    return td.instance_norm(x, scale, b, _eps(node, x))


@row("GroupNormalization", reads="epsilon num_groups stash_type", first=21)
def _group_norm(node: Node, x: Tensor, scale: Tensor, b: Tensor) -> Tensor:
    _stashed(node)
    return td.group_norm(x, node.get("num_groups", 1), scale, b, _eps(node, x))


def _behind(node: Node, x: Tensor) -> tuple[int, ...]:
    _stashed(node)
    return tuple(range(axis_of(node.get("axis", -1), x), x.type.ndim))


def _plain(message: Any) -> bool:
    """Whether a normalization gives out its result alone."""
    return not any(message.output[1:])


@row("LayerNormalization", reads="axis epsilon stash_type", takes=_plain)
def _layer_norm(node: Node, x: Tensor, scale: Tensor, b: Any = None) -> Tensor:
    y = td.standardize(x, _behind(node, x), _eps(node, x)) * scale
    return y if b is None else y + b


@row("RMSNormalization", reads="axis epsilon stash_type")
def _rms_norm(node: Node, x: Tensor, scale: Tensor) -> Tensor:
    return td.rms_norm(x, None, _behind(node, x), _eps(node, x)) * scale


@row("LRN", reads="alpha beta bias size")
def _response(node: Node, x: Tensor) -> Tensor:
    size = node.get("size", 1)
    if size % 2 == 0:
        raise ValueError(f"an even number of channels: {size}")
    alpha, beta = node.get("alpha", 1e-4), node.get("beta", 0.75)
    return td.local_response_norm(x, size, alpha, beta, node.get("bias", 1.0))


@row("Gemm", reads="alpha beta transA transB")
def _gemm(node: Node, a: Tensor, b: Tensor, c: Any = None) -> Tensor:
    a = td.matrix_transpose(a) if node.get("transA", 0) else a
    b = td.matrix_transpose(b) if node.get("transB", 0) else b
    y = td.matmul(a, b)
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    y = y if alpha == 1.0 else y * number(y, alpha)
    if c is None:
        return y
    return y + (c if beta == 1.0 else c * number(c, beta))


@row("Einsum", reads="equation")
def _einsum(node: Node, *xs: Tensor) -> Tensor:
    return td.einsum(node.get("equation", ""), *xs)
