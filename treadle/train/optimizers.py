"""The optimizers by the name a user gives, with a rate that suits small networks."""

from __future__ import annotations

from collections.abc import Callable

from treadle.base.errors import OptionError
from treadle.optim.algorithms import (
    SGD,
    Adadelta,
    Adagrad,
    Adam,
    AdamW,
    AMSGrad,
    CyclicalSGD,
    Momentum,
    Nesterov,
    RMSProp,
)
from treadle.optim.optimizer import Optimizer


def _cyclical(lr: float) -> Optimizer:
    return CyclicalSGD(lr_min=lr / 10, lr_max=lr, half=200)


OPTIMIZERS: dict[str, tuple[Callable[[float], Optimizer], float]] = {
    "adadelta": (lambda lr: Adadelta(lr=lr), 1.0),
    "adagrad": (lambda lr: Adagrad(lr=lr), 0.02),
    "adam": (lambda lr: Adam(lr=lr), 0.002),
    "adamw": (lambda lr: AdamW(lr=lr), 0.002),
    "amsgrad": (lambda lr: AMSGrad(lr=lr), 0.002),
    "cyclical-sgd": (_cyclical, 0.2),
    "momentum": (lambda lr: Momentum(lr=lr), 0.02),
    "nesterov": (lambda lr: Nesterov(lr=lr), 0.02),
    "rmsprop": (lambda lr: RMSProp(lr=lr), 0.001),
    "sgd": (lambda lr: SGD(lr=lr), 0.1),
}


def optimizer(name: str, lr: float | None = None) -> Optimizer:
    """A new optimizer of this name, with its usual rate where none is given.

    >>> optimizer("adam").lr
    0.002
    """
    if name not in OPTIMIZERS:
        raise OptionError(
            f"there is no optimizer {name!r}",
            hint=f"optimizers: {', '.join(OPTIMIZERS)}",
        )
    make, usual = OPTIMIZERS[name]
    return make(usual if lr is None else lr)
