"""Loss scaling: gradients of a multiple of the loss, which short floats can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable


class LossScale:
    """The factor of the loss while it is derived; gradients are divided by it again.

    After `interval` finite steps it grows by `growth`, within `largest`; a step whose
    gradients are not finite multiplies it by `backoff`, down to `smallest`, and changes
    nothing else. `growth=1, backoff=1` keeps it. Micikevicius et al., Mixed precision
    training, 2018.

    >>> x = td.param("x", init=2.0)
    >>> opt = td.optim.SGD(lr=0.25, loss_scale=td.optim.LossScale(1024.0))
    >>> float(opt.step(x * x)), float(x), opt.loss_scale.value
    (4.0, 1.0, 1024.0)
    """

    def __init__(
        self,
        initial: float = 65536.0,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        smallest: float = 1.0,
        largest: float = 2.0**24,
    ) -> None:
        if not 0.0 < smallest <= initial <= largest:
            raise ArgumentError(
                f"a loss scale lies within {smallest} and {largest}, not {initial}"
            )
        if not (growth >= 1.0 and 0.0 < backoff <= 1.0 and interval >= 1):
            raise ArgumentError(
                "a loss scale grows by at least 1, backs off by at most 1, "
                f"after 1 step or more; got {growth}, {backoff}, {interval}"
            )
        self.growth, self.backoff, self.interval = growth, backoff, interval
        self.smallest, self.largest = smallest, largest
        self.scale = Variable(np.float32(initial), name="loss_scale")
        self.steps = Variable(np.zeros((), np.int64), name="loss_scale_steps")

    @property
    def value(self) -> float:
        """The factor of the next step."""
        return float(self.scale)

    def states(self) -> dict[str, Variable]:
        """The states that are kept, by name."""
        return {"loss_scale": self.scale, "loss_scale_steps": self.steps}

    def next(self, finite: Tensor) -> list[tuple[Variable, Any]]:
        """The scale and the count after a step."""
        scale, steps = self.scale.node(), self.steps.node() + 1
        due = steps >= self.interval
        up = functions.minimum(scale * self.growth, self.largest)
        down = functions.maximum(scale * self.backoff, self.smallest)
        after = functions.where(due, up, scale)
        kept = functions.where(due, 0, steps)
        return [
            (self.scale, functions.where(finite, after, down)),
            (self.steps, functions.where(finite, kept, 0)),
        ]
