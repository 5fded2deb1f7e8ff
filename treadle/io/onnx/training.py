"""Importers of one step of an optimizer, as ONNX's preview of training has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import treadle as td
from treadle.graph.tensor import Tensor
from treadle.io.onnx.elements import number
from treadle.io.onnx.table import OnnxNode, row

_DOMAIN = "ai.onnx.preview.training"


def _parts(operands: tuple[Tensor, ...], count: int) -> list[tuple[Tensor, ...]]:
    """The tensors of each parameter: it, its gradient and what is kept of it."""
    if not operands or len(operands) % count:
        raise ValueError(f"{len(operands)} tensors, {count} of each parameter")
    size = len(operands) // count
    parts = [operands[k * size : (k + 1) * size] for k in range(count)]
    return list(zip(*parts, strict=True))


def _in_order(results: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return tuple(x for column in zip(*results, strict=True) for x in column)


@row(f"{_DOMAIN}.Adagrad", reads="decay_factor epsilon norm_coefficient")
def _adagrad(node: OnnxNode, rate: Tensor, step: Tensor, *xs: Tensor) -> Any:
    decay = 1 + td.astype(step, rate.type.dtype) * node.get("decay_factor", 0.0)
    pace, results = rate / decay, []
    for x, g, squares in _parts(xs, 3):
        slope = g + x * number(x, node.get("norm_coefficient", 0.0))
        total = squares + slope * slope
        size = td.sqrt(total) + number(x, node.get("epsilon", 0.0))
        results.append((x - pace * slope / size, total))
    return _in_order(results)


_ADAM = "alpha beta epsilon norm_coefficient norm_coefficient_post"


@row(f"{_DOMAIN}.Adam", reads=_ADAM)
def _adam(node: OnnxNode, rate: Tensor, step: Tensor, *xs: Tensor) -> Any:
    alpha, beta = node.get("alpha", 0.9), node.get("beta", 0.999)
    t, results = td.astype(step, rate.type.dtype), []
    far = td.sqrt(1 - number(rate, beta) ** t) / (1 - number(rate, alpha) ** t)
    pace = td.where(t > 0, rate * far, rate)
    for x, g, first, second in _parts(xs, 4):
        slope = g + x * number(x, node.get("norm_coefficient", 0.0))
        v = first * number(x, alpha) + slope * number(x, 1 - alpha)
        h = second * number(x, beta) + slope * slope * number(x, 1 - beta)
        new = x - pace * v / (td.sqrt(h) + number(x, node.get("epsilon", 0.0)))
        kept = number(x, 1 - node.get("norm_coefficient_post", 0.0))
        results.append((new * kept, v, h))
    return _in_order(results)


@row(f"{_DOMAIN}.Momentum", reads="alpha beta mode norm_coefficient")
def _momentum(node: OnnxNode, rate: Tensor, step: Tensor, *xs: Tensor) -> Any:
    mode = node.get("mode", "standard")
    if mode not in ("standard", "nesterov"):
        raise ValueError(f"mode is {mode[:20]!r}")
    first = td.astype(step == 0, rate.type.dtype)
    share = first + (1 - first) * np.float32(node.get("beta", 1.0))
    alpha, results = node.get("alpha", 1.0), []
    for x, g, past in _parts(xs, 3):
        slope = g + x * number(x, node.get("norm_coefficient", 0.0))
        v = past * number(x, alpha) + slope * share
        way = slope + v * number(x, alpha) if mode == "nesterov" else v
        results.append((x - rate * way, v))
    return _in_order(results)
