"""torch.nn.utils: gradients clipped in place, parameters as one vector, WeightNorm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError, RunError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter, Variable
from treadle.nn.module import Module
from treadle.ops.cast import astype
from treadle.ops.create import zeros
from treadle.ops.join import concat, stack
from treadle.ops.movement import reshape
from treadle.ops.norms import norm
from treadle.ops.select import clip, minimum

__all__ = [
    "WeightNorm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]


Parameters = Variable | Iterable[Variable]


def _each(parameters: Parameters) -> list[Variable]:
    return [parameters] if isinstance(parameters, Variable) else list(parameters)


def get_total_norm(
    tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """The norm of several tensors as if they were one vector; 0 of none.

    >>> float(get_total_norm([td.asarray([3.0]), td.asarray([[4.0]])]))
    5.0
    """
    norms = [norm(x, norm_type) for x in tensors]
    total = norm(stack(norms), norm_type) if norms else zeros(())
    if error_if_nonfinite and not np.isfinite(float(total)):
        raise RunError(f"the norm of all gradients is {float(total)}")
    return total


def clip_grad_norm_(
    parameters: Parameters,
    max_norm: Any,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale the gradients that `backward` left to a norm of at most `max_norm`, all by
    one factor, max_norm / (norm + 1e-6); the norm before is the result.

    >>> p = td.Parameter([3.0, 4.0])
    >>> (p * p).sum().backward()
    >>> float(clip_grad_norm_(p, 5.0)), p.grad.numpy().round(3).tolist()
    (10.0, [3.0, 4.0])
    """
    every = [p for p in _each(parameters) if p.grad is not None]
    total = get_total_norm([p.grad for p in every], norm_type, error_if_nonfinite)
    factor = minimum(max_norm / (total + 1e-6), 1.0)
    for p in every:
        g = as_tensor(p.grad)
        p.grad = g * astype(factor, g.dtype)
    return total


def clip_grad_value_(parameters: Parameters, clip_value: float) -> None:
    """Bring the elements of the gradients that `backward` left into [-c, c].

    >>> p = td.Parameter([3.0, -4.0])
    >>> (p * p).sum().backward()
    >>> clip_grad_value_([p], 7.0)
    >>> p.grad.tolist()
    [6.0, -7.0]
    """
    limit = float(clip_value)
    for p in _each(parameters):
        if p.grad is not None:
            p.grad = clip(p.grad, -limit, limit)


def parameters_to_vector(parameters: Iterable[Variable]) -> Tensor:
    """All elements of parameters, one after the other, with a gradient.

    >>> parameters_to_vector(td.nn.Linear(3, 2).parameters()).shape
    (8,)
    """
    return concat([reshape(p, (-1,)) for p in parameters])


def vector_to_parameters(vec: Any, parameters: Iterable[Variable]) -> None:
    """Assign the parts of a vector to parameters: `parameters_to_vector` back.

    >>> p, q = td.Parameter([0.0, 0.0]), td.Parameter(0.0)
    >>> vector_to_parameters([1.0, 2.0, 3.0], [p, q])
    >>> p.tolist(), float(q)
    ([1.0, 2.0], 3.0)
    """
    vector, every = as_tensor(vec), list(parameters)
    sizes = [p.type.size for p in every]
    if vector.shape != (sum(sizes),):
        raise ArgumentError(f"{sum(sizes)} elements of parameters from {vector.type}")
    start = 0
    for p, n in zip(every, sizes, strict=True):
        p.assign(reshape(vector[start : start + n], p.shape))
        start += n


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
