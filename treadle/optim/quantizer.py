"""Weights rounded to a few values after each step, with what was lost carried on."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.ops.quantize import quantize_fixed, quantize_log
from treadle.optim.average import ParameterCompanions
from treadle.optim.groups import parameters_of
from treadle.runtime.store import store


class WeightQuantizer(ParameterCompanions):
    """Keeps parameters at the 2^bits - 1 values of a grid: `update()` after each step.

    w = Q(p + e), e = p + e - w, p = w: what rounding takes now is given back before the
    next rounding, so that small steps add up (error feedback). Q is
    `td.quantize_fixed`, or with `log` `td.quantize_log`, whose scale is the largest
    element, improved in `steps` rounds by least squares. Vectors stay as they are
    unless `biases`. As in Marian the first update keeps no error. Aji and Heafield,
    Compressing neural machine translation models with 4-bit precision, 2020; Marian's
    --quantize-bits, --quantize-optimization-steps, --quantize-log-based,
    --quantize-biases.

    >>> w = td.param("w", init=[[0.96, 0.73], [-0.42, 0.1]])
    >>> rounded = td.optim.WeightQuantizer([w], bits=3)
    >>> rounded.update(); w.numpy().round(2).tolist()
    [[0.9599999785423279, 0.6399999856948853], [-0.3199999928474426, 0.0]]
    """

    def __init__(
        self,
        params: Any,
        bits: int = 8,
        steps: int = 0,
        log: bool = False,
        biases: bool = False,
    ) -> None:
        if not 2 <= bits <= 16:
            raise ArgumentError(f"weights are rounded to 2 to 16 bits, not {bits}")
        if steps < 0:
            raise ArgumentError(f"steps is a number of rounds, not {steps}")
        self.bits, self.steps, self.log = bits, steps, log
        every = parameters_of(params)
        rounded = [p for p in every if biases or len(p.shape) > 1]
        super().__init__(rounded, "error", "errors of rounding")
        self.errors = self._variables

    def update(self) -> None:
        """Round the parameters as they are now, after a step."""
        kept = self.count.node() > 0
        pairs: list[tuple[Variable, Any]] = []
        for p, e in zip(self.parameters, self.errors, strict=True):
            exact = p.node().astype(e.dtype) + e.node()
            stored = self.rounded(exact).astype(p.dtype)
            lost = exact - stored.astype(e.dtype)
            pairs += [(p, stored), (e, functions.where(kept, lost, 0.0))]
        store([*pairs, (self.count, self.count + 1)])

    def rounded(self, x: Any) -> Tensor:
        """Q(x): one of 2^bits - 1 values, of 2^bits and zero with `log`."""
        f = quantize_log if self.log else quantize_fixed
        return f(x, self.bits, steps=self.steps)
