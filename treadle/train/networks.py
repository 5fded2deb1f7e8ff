"""Small networks for labeled images, by name."""

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
