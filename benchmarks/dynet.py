"""What the DyNet implementations share: LSTMs and trainers that compute the same."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["learn", "lstm", "parameter"]

Array = np.ndarray[Any, Any]


def parameter(model: Any, value: Array) -> Any:
    """A parameter that starts from an array."""
    return model.parameters_from_numpy(np.ascontiguousarray(value))


def lstm(dy: Any, model: Any, x: Array, h: Array, bias: Array) -> Any:
    """A builder from weights whose gates are i, f, g, o; DyNet's are i, f, o, g.

    DyNet adds one to the forget gates, so their bias starts from one less.
    """

    def ordered(a: Array) -> Array:
        i, f, g, o = np.split(a, 4)
        return np.concatenate([i, f, o, g])

    hidden = h.shape[1]
    made = dy.VanillaLSTMBuilder(1, x.shape[1], hidden, model)
    less = ordered(bias).copy()
    less[hidden : 2 * hidden] -= 1.0
    values = (ordered(x), ordered(h), less)
    for own, value in zip(made.get_parameters()[0], values, strict=True):
        own.set_value(value)
    return made


def learn(trainer: Any, loss: Any) -> float:
    """One update, without the clipping that DyNet does of itself; the loss."""
    trainer.set_clip_threshold(-1)
    value: float = loss.value()
    loss.backward()
    trainer.update()
    return value
