"""Exponentiated gradient: descent for what is positive and sums to 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from treadle.optim import rules
from treadle.optim.groups import Rate
from treadle.optim.moves import exponentiated
from treadle.optim.optimizer import Optimizer
from treadle.optim.transform import Transform


def exponentiated_gradient(momentum: Any) -> Transform:
    """The rule of ExponentiatedGradient."""
    return replace(rules.trace(momentum), move=exponentiated)


class ExponentiatedGradient(Optimizer):
    """v = momentum v + g; p = p e^(-lr v) / sum of the same: for mixture weights.

    Each parameter starts positive; it is one distribution and stays one. Defaults of
    DyNet's EGTrainer. Kivinen and Warmuth, Exponentiated gradient versus gradient
    descent for linear predictors, 1997.

    >>> w = td.param("w", init=[0.5, 0.5])
    >>> opt = td.optim.ExponentiatedGradient(lr=1.0)
    >>> _ = opt.step((w * td.log(td.asarray([2.0, 4.0]))).sum())
    >>> [round(x, 4) for x in w.tolist()]
    [0.6667, 0.3333]
    """

    def __init__(
        self,
        params: Any = None,
        lr: Rate = 0.1,
        momentum: Any = 0.9,
        **controls: Any,
    ) -> None:
        settings = {"momentum": momentum}
        super().__init__(params, lr, exponentiated_gradient, settings, **controls)
