"""Small networks for labeled images, and optimizers with rates for them, by name."""

from __future__ import annotations

import math
from collections.abc import Callable

from treadle.base.errors import OptionError
from treadle.nn import (
    Conv2d,
    Dropout,
    Flatten,
    Linear,
    MaxPool2d,
    Module,
    ReLU,
    Sequential,
)
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

Shape = tuple[int, ...]


def lenet(shape: Shape, classes: int) -> Module:
    """Two convolutions with pooling and two linear layers, after LeCun et al. 1998.

    `shape` is (channels, height, width) of one image, of at least 4 by 4.
    """
    channels, height, width = shape
    if min(height, width) < 4:
        raise OptionError(f"lenet takes images of 4 by 4 or more, not {height}x{width}")
    return Sequential(
        Conv2d(channels, 16, 3, padding=1),
        ReLU(),
        MaxPool2d(2),
        Conv2d(16, 32, 3, padding=1),
        ReLU(),
        MaxPool2d(2),
        Flatten(),
        Linear(32 * (height // 4) * (width // 4), 128),
        ReLU(),
        Dropout(0.25),
        Linear(128, classes),
    )


def mlp(shape: Shape, classes: int) -> Module:
    """Two hidden layers of 128 on the image's numbers."""
    return Sequential(
        Flatten(),
        Linear(math.prod(shape), 128),
        ReLU(),
        Linear(128, 128),
        ReLU(),
        Dropout(0.25),
        Linear(128, classes),
    )


NETWORKS: dict[str, Callable[[Shape, int], Module]] = {"lenet": lenet, "mlp": mlp}


def network(name: str, shape: Shape, classes: int) -> Module:
    """A new network of this name for images of this shape.

    >>> network("vgg", (1, 8, 8), 10)
    Traceback (most recent call last):
    treadle.base.errors.OptionError: there is no network 'vgg'
      hint: networks: lenet, mlp
    """
    if name not in NETWORKS:
        raise OptionError(
            f"there is no network {name!r}", hint=f"networks: {', '.join(NETWORKS)}"
        )
    return NETWORKS[name](shape, classes)


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
