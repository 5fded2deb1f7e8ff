"""The arrays that samples of ops stand for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base.dtypes import kind
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Input, Sample
from treadle.graph.tensor import Tensor

__all__ = ["drawn", "replace_shape", "tensors_of"]


def drawn(x: Any, seed: int = 0) -> Array:
    """The array a sample's Input stands for; arrays and scalars pass through."""
    if not isinstance(x, Input):
        return np.asarray(x)
    rng = np.random.default_rng(seed + math.prod(x.shape) * 7919)
    k = kind(x.dtype)
    if k == "bool":
        return np.asarray(rng.integers(0, 2, x.shape).astype(bool))
    if k == "integer":
        low = max(int(x.low), 0) if x.dtype.kind == "u" else int(x.low)
        return np.asarray(rng.integers(low, int(x.high) + 1, x.shape), dtype=x.dtype)
    if x.apart:
        # Distinct values off zero: a shuffled grid of midpoints with a small jitter.
        n = math.prod(x.shape)
        steps = np.arange(n) + 0.5 + rng.uniform(-0.1, 0.1, n)
        grid = x.low + (x.high - x.low) * steps / max(n, 1)
        grid = np.where(np.abs(grid) < x.apart, grid + 2 * x.apart, grid)
        return np.asarray(rng.permutation(grid).reshape(x.shape), dtype=x.dtype)
    values = rng.uniform(x.low, x.high, x.shape)
    if k == "complex":
        values = values + 1j * rng.uniform(x.low, x.high, x.shape)
    return np.asarray(values, dtype=x.dtype)


def tensors_of(sample: Sample) -> list[Tensor]:
    """Constants for the inputs of a sample."""
    return [as_tensor(np.array(drawn(x, k))) for k, x in enumerate(sample.inputs)]


def replace_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """A sample's input in another shape."""
    return replace(x, shape=shape) if isinstance(x, Input) else np.resize(x, shape)
