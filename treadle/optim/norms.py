"""Running mean and deviation of the gradient's norm, and gradients held near it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.dtypes import float64
from treadle.base.errors import ArgumentError
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable


class NormAverage:
    """Averages the global norm of the gradients over about `window` steps.

    With `deviations`, a gradient whose norm lies further above the mean than so many
    standard deviations is scaled to the mean, once `window` steps are known; `log`
    takes both of the norm's logarithm (Marian's --gradient-norm-average-window and
    --dynamic-gradient-scaling). The mean m and variance v move by a = 2 / (n + 1),
    n = min(steps, window): d = norm - m, m = m + a d, v = (1 - a) (v + a d²).

    >>> x = td.param("x", init=2.0)
    >>> opt = td.optim.SGD(lr=0.0, norms=td.optim.NormAverage(window=10))
    >>> _ = opt.step(3.0 * x), opt.step(3.0 * x)
    >>> opt.norms.last, opt.norms.mean, opt.norms.deviation
    (3.0, 3.0, 0.0)
    """

    def __init__(
        self, window: int = 100, deviations: Any = None, log: bool = False
    ) -> None:
        if window < 1:
            raise ArgumentError(f"norms are averaged over 1 step or more, not {window}")
        self.window, self.deviations, self.log = window, deviations, log
        self._states = {
            name: Variable(np.zeros((), np.float64), name=f"norm_{name}", dtype=float64)
            for name in ("steps", "last", "mean", "variance")
        }

    @property
    def last(self) -> float:
        """The norm of the last step's gradient, before it was scaled or clipped."""
        return float(self._states["last"])

    @property
    def mean(self) -> float:
        """The running mean of the norm, geometric with `log`."""
        mean = float(self._states["mean"])
        return math.exp(mean) if self.log else mean

    @property
    def deviation(self) -> float:
        """The running standard deviation of the norm, or of its logarithm."""
        return math.sqrt(float(self._states["variance"]))

    def states(self) -> dict[str, Variable]:
        """The states that are kept, by name."""
        return {v.name: v for v in self._states.values()}

    def next(self, norm: Tensor) -> tuple[list[tuple[Variable, Any]], Tensor | None]:
        """The states after a step, and the factor of its gradients if any."""
        steps, _, mean, variance = (v.node() for v in self._states.values())
        norm = norm.astype(float64)
        seen = functions.log(norm) if self.log else norm
        # A norm of 0 or one that is not finite tells nothing about the others.
        usable = functions.isfinite(seen)
        count = functions.minimum(steps + 1.0, self.window)
        part = functions.where(usable, 2.0 / (count + 1.0), 0.0)
        away = functions.where(usable, seen - mean, 0.0)
        new = [
            steps + 1.0,
            norm,
            mean + part * away,
            (1.0 - part) * (variance + part * away * away),
        ]
        changes = list(zip(self._states.values(), new, strict=True))
        if self.deviations is None:
            return changes, None
        far = away > functions.sqrt(variance) * self.deviations
        far = far & (steps >= self.window)
        usual = functions.exp(mean) if self.log else mean
        return changes, functions.where(far, usual / norm, 1.0)
