"""WeightNorm: a layer whose weight has its length and its direction apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.graph.operators import functions
from treadle.graph.variable import Parameter
from treadle.nn.module import Module

__all__ = ["WeightNorm"]


class WeightNorm(Module):
    """A layer whose `weight` is g v / |v|, with v's norm over all but its first
    dimension. Salimans and Kingma 2016.

    >>> layer = td.nn.WeightNorm(td.nn.Linear(3, 2))
    >>> sorted(name for name, _ in layer.named_parameters())
    ['layer.bias', 'weight_g', 'weight_v']
    """

    def __init__(self, layer: Module, name: str = "weight") -> None:
        parameter = vars(layer).get(name)
        if not isinstance(parameter, Parameter) or not parameter.shape:
            raise ArgumentError(f"{type(layer).__name__} has no parameter {name!r}")
        self.layer, self.weight_name = layer, name
        array = parameter.numpy()
        axes = tuple(range(1, array.ndim))
        wide = array.astype(np.float64)
        norm = np.sqrt((wide * wide).sum(axes, keepdims=True))
        setattr(self, f"{name}_g", Parameter(norm.astype(array.dtype)))
        setattr(self, f"{name}_v", Parameter(array))
        delattr(layer, name)
        setattr(layer, name, None)

    def forward(self, *args: Any) -> Any:
        g = getattr(self, f"{self.weight_name}_g")
        v = getattr(self, f"{self.weight_name}_v")
        norm = functions.l2_norm(v, tuple(range(1, v.ndim)), keepdims=True)
        object.__setattr__(self.layer, self.weight_name, v * (g / norm))
        try:
            return self.layer(*args)
        finally:
            object.__setattr__(self.layer, self.weight_name, None)
