"""Penalties on parameters, to add to a loss."""

from __future__ import annotations

from typing import Any

from treadle.base.dtypes import accumulator
from treadle.base.errors import ArgumentError
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.optim.gradients import plain
from treadle.optim.groups import parameters_of

__all__ = ["elastic_net", "l1", "l2", "l2_norm"]


def _sum(params: Any, one: Any) -> Tensor:
    parameters = parameters_of(params)
    if not parameters:
        raise ArgumentError("a penalty is on parameters, there are none")
    nodes = [plain(p.node()) for p in parameters]
    # Squares of 16-bit floats are float32: they may be too large, or too small.
    parts = [one(x.astype(accumulator(x.dtype))) for x in nodes]
    total: Tensor = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def l1(params: Any, factor: Any = 1.0) -> Tensor:
    """factor sum |p|.

    >>> float(l1([td.param(init=[1.0, -2.0])], 0.5))
    1.5
    """
    return _sum(params, lambda p: functions.abs(p).sum()) * factor


def l2(params: Any, factor: Any = 1.0) -> Tensor:
    """factor sum p²; its gradient is that of a weight decay of twice the factor.

    >>> float(l2([td.param(init=[1.0, -2.0])], 0.5))
    2.5
    """
    return _sum(params, lambda p: (p * p).sum()) * factor


def l2_norm(params: Any, factor: Any = 1.0) -> Tensor:
    """factor times the sum of the parameters' norms, not squared (Owl's L2norm).

    A parameter that is all 0 has no gradient here, not one that is not a number.

    >>> float(l2_norm([td.param(init=[3.0, -4.0])], 0.5))
    2.5
    """

    def norm(p: Tensor) -> Tensor:
        return functions.norm_of((p * p).sum())

    return _sum(params, norm) * factor


def elastic_net(params: Any, factor: Any = 1.0, ratio: Any = 0.5) -> Tensor:
    """factor (ratio sum |p| + (1 - ratio) / 2 sum p²). Zou and Hastie 2005.

    >>> float(elastic_net([td.param(init=[1.0, -2.0])], 2.0, 0.5))
    5.5
    """
    return l1(params, factor * ratio) + l2(params, factor * (1.0 - ratio) * 0.5)
