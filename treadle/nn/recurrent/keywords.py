"""The keywords that recurrent layers hand on, for type checkers."""

from __future__ import annotations

from typing import Any, TypedDict


class LayerSettings(TypedDict, total=False):
    """The further keywords of recurrent layers: those of Recurrent and of its cells."""

    variational: float | tuple[float, float]
    skip: bool
    layer_norm: bool
    weight_noise: float
    forget_bias: float
    reset_after: bool


class PlacedSettings(LayerSettings, total=False):
    """And those that may also be given by their places."""

    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    dtype: Any
