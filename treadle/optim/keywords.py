"""The keywords that optimizers hand on, for type checkers."""

from __future__ import annotations

from typing import Any, TypedDict

from treadle.optim.controls import LossScale
from treadle.optim.gradients import NormAverage


class OptimizerSettings(TypedDict, total=False):
    """The keywords of an Optimizer that all kinds of it take."""

    clip_norm: Any
    clip_value: Any
    clip_weights: Any
    kahan: bool
    on_nan: str | None
    loss_scale: LossScale | float | None
    norms: NormAverage | None
    accumulate: float
    masters: bool
    sparse_updates: bool | None
    decay_after: Any


class DecoupledSettings(OptimizerSettings, total=False):
    """And whether weight decay is beside the direction and the loss is to grow."""

    decoupled: bool
    maximize: bool


class DecayedSettings(DecoupledSettings, total=False):
    """And how large it is."""

    weight_decay: Any


class DampedSettings(DecayedSettings, total=False):
    """And how little a moving mean takes of a gradient."""

    dampening: Any


class MovingSettings(DampedSettings, total=False):
    """And those of a moving mean of gradients."""

    momentum: Any
    nesterov: bool
