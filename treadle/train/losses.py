"""Losses by name, and their mean over a batch with the examples' weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.module import Module

Function = Callable[..., Any]

LOSSES: dict[str, Function] = {
    "binary_cross_entropy": F.binary_cross_entropy,
    "binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits,
    "cross_entropy": F.cross_entropy,
    "huber": F.huber_loss,
    "l1": F.l1_loss,
    "mae": F.l1_loss,
    "mse": F.mse_loss,
    "nll": F.nll_loss,
    "poisson": F.poisson_nll_loss,
}


def loss_function(loss: Any) -> Function:
    """A loss from its name, or a function of prediction and target as it is.

    >>> loss_function("mse") is LOSSES["mse"]
    True
    """
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ArgumentError(
                f"there is no loss {loss!r}", hint=f"losses: {', '.join(LOSSES)}"
            )
        return LOSSES[loss]
    if not callable(loss):
        raise ArgumentError(f"a loss is a name or a function, not {loss!r}")
    return loss


class BatchLoss:
    """The loss of a batch: a mean over its elements, each times its example's weight.

    >>> loss = BatchLoss("mse")
    >>> float(loss([1.0, 3.0], [1.0, 1.0], [1.0, 0.5]))
    1.0
    """

    def __init__(self, loss: Any) -> None:
        self.function = loss_function(loss)
        self._each = self._elementwise()

    def __reduce__(self) -> Any:
        return type(self), (self.function,)

    def __call__(self, prediction: Any, target: Any, weight: Any = None) -> Tensor:
        if weight is None:
            loss = as_tensor(self.function(prediction, target))
            return loss.mean() if loss.type.ndim else loss
        values = as_tensor(self._each(prediction, target))
        weights = as_tensor(weight, values.type.dtype).astype(values.type.dtype)
        if not values.type.ndim or values.shape[: weights.type.ndim] != weights.shape:
            raise ArgumentError(
                f"weights {list(weights.shape)} do not go with losses "
                f"{list(values.shape)}",
                hint="a loss that takes weights gives one value for each example",
            )
        apart = values.type.ndim - weights.type.ndim
        wide = functions.reshape(weights, (*weights.shape, *(1,) * apart))
        return (values * wide).mean()

    def _elementwise(self) -> Function:
        function = self.function
        if isinstance(function, Module) and hasattr(function, "reduction"):
            return _unreduced(function)
        try:
            names = inspect.signature(function).parameters
        except (TypeError, ValueError):
            return function
        if "reduction" not in names:
            return function
        return lambda p, t: function(p, t, reduction="none")


def _unreduced(module: Any) -> Function:
    def each(prediction: Any, target: Any) -> Any:
        before = module.reduction
        module.reduction = "none"
        try:
            return module(prediction, target)
        finally:
            module.reduction = before

    return each
