"""Extents of layers are whole numbers from 1 up: every layer is a row."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn
from treadle.nn.module import Module


def refusing() -> dict[str, Callable[[Any], Module]]:
    """Every layer as a function of one of its extents, which 0 is no value for."""
    encoder = nn.TransformerEncoderLayer(4, 2, 8)
    decoder = nn.TransformerDecoderLayer(4, 2, 8)
    found: dict[str, Callable[[Any], Module]] = {
        "Linear in": lambda n: nn.Linear(n, 2),
        "Linear out": lambda n: nn.Linear(2, n),
        "Bilinear": lambda n: nn.Bilinear(2, n, 2),
        "Embedding rows": lambda n: nn.Embedding(n, 2),
        "Embedding width": lambda n: nn.Embedding(2, n),
        "PReLU": nn.PReLU,
        "LayerNorm": nn.LayerNorm,
        "LayerNorm of two": lambda n: nn.LayerNorm((3, n)),
        "RMSNorm": nn.RMSNorm,
        "GroupNorm groups": lambda n: nn.GroupNorm(n, 2),
        "GroupNorm channels": lambda n: nn.GroupNorm(1, n),
        "AdaptiveAvgPool": nn.AdaptiveAvgPool,
        "Upsample": lambda n: nn.Upsample(size=n),
        "LSTM": lambda n: nn.LSTM(2, n),
        "LSTM layers": lambda n: nn.LSTM(2, 2, n),
        "GRUCell": lambda n: nn.GRUCell(2, n),
        "MultiHeadAttention": lambda n: nn.MultiHeadAttention(4, n),
        "TransformerEncoder": lambda n: nn.TransformerEncoder(encoder, num_layers=n),
        "TransformerDecoder": lambda n: nn.TransformerDecoder(decoder, num_layers=n),
        "Bert": lambda n: nn.Bert(9, 4, layers=n, heads=1, feedforward=4, places=4),
        "LearnedPositions": lambda n: nn.LearnedPositions(n, 4),
        "SinusoidalPositions": lambda n: nn.SinusoidalPositions(n),
        "RecurrentMixer": lambda n: nn.RecurrentMixer(n),
        "CharacterEncoder": lambda n: nn.CharacterEncoder(9, n, 4),
        "HierarchicalSoftmax": lambda n: nn.HierarchicalSoftmax(n, ["0", "1"]),
        "ClassFactoredSoftmax": lambda n: nn.ClassFactoredSoftmax(n, [0, 1]),
        "UniversalEmbedding": lambda n: nn.UniversalEmbedding(np.eye(2), np.eye(2), n),
        "ApproximateOutput k": lambda n: nn.ApproximateOutput(nn.Linear(2, 3), n),
        "Unfold kernel": nn.Unfold,
        "Unfold stride": lambda n: nn.Unfold(2, stride=n),
        "Fold size": lambda n: nn.Fold(n, 2),
        "Fold kernel": lambda n: nn.Fold(4, n),
        "UpsamplingNearest2d": nn.UpsamplingNearest2d,
        "UpsamplingBilinear2d": nn.UpsamplingBilinear2d,
        "FractionalMaxPool2d": lambda n: nn.FractionalMaxPool2d(n, 2),
        "FractionalMaxPool3d": lambda n: nn.FractionalMaxPool3d(n, 2),
        "PixelShuffle": nn.PixelShuffle,
        "PixelUnshuffle": nn.PixelUnshuffle,
        "ChannelShuffle": nn.ChannelShuffle,
        "EmbeddingBag rows": lambda n: nn.EmbeddingBag(n, 2),
        "EmbeddingBag width": lambda n: nn.EmbeddingBag(2, n),
        "LocalResponseNorm": nn.LocalResponseNorm,
        "LoRA": lambda n: nn.LoRA(nn.Linear(2, 3), n),
    }
    for rank in (1, 2, 3):
        conv = getattr(nn, f"Conv{rank}d")
        turned = getattr(nn, f"ConvTranspose{rank}d")
        for name, make in ((f"Conv{rank}d", conv), (f"ConvTranspose{rank}d", turned)):
            found[f"{name} in"] = lambda n, f=make: f(n, 2, 3)
            found[f"{name} out"] = lambda n, f=make: f(2, n, 3)
            found[f"{name} kernel"] = lambda n, f=make: f(2, 2, n)
            found[f"{name} stride"] = lambda n, f=make: f(2, 2, 3, stride=n)
            found[f"{name} dilation"] = lambda n, f=make: f(2, 2, 3, dilation=n)
            found[f"{name} groups"] = lambda n, f=make: f(2, 2, 3, groups=n)
        for name in (f"MaxPool{rank}d", f"AvgPool{rank}d", f"MaxUnpool{rank}d"):
            pool = getattr(nn, name)
            found[f"{name} kernel"] = pool
            found[f"{name} stride"] = lambda n, f=pool: f(2, stride=n)
        norm_pool = getattr(nn, f"LPPool{rank}d")
        found[f"LPPool{rank}d kernel"] = lambda n, f=norm_pool: f(2, n)
        for name in (f"AdaptiveAvgPool{rank}d", f"AdaptiveMaxPool{rank}d"):
            found[name] = getattr(nn, name)
        dilated = getattr(nn, f"MaxPool{rank}d")
        found[f"MaxPool{rank}d dilation"] = lambda n, f=dilated: f(2, dilation=n)
        for name in (f"BatchNorm{rank}d", f"InstanceNorm{rank}d"):
            found[name] = getattr(nn, name)
    return found


REFUSING = refusing()


@pytest.mark.parametrize("case", REFUSING)
def test_extents_are_whole_numbers_from_1_up(case: str) -> None:
    for n in (0, -1, 2.5, True):
        with pytest.raises(td.ArgumentError, match=r"whole numbers? from 1 up"):
            REFUSING[case](n)


def test_every_layer_with_extents_is_in_the_table() -> None:
    names = ("features", "channels", "size", "width", "rows", "num_", "shape")
    takes = {
        name
        for name, made in vars(nn).items()
        if inspect.isclass(made) and issubclass(made, Module)
        and any(k.endswith(names) or k.startswith(names)
                for k in inspect.signature(made.__init__).parameters)
    }  # fmt: skip
    known = {case.split()[0] for case in REFUSING}
    # Cells check as GRUCell does, attention and recurrent layers as their base.
    others = {n for n in takes - known if not n.endswith(("Cell", "Attention"))}
    assert others <= {"GRU", "RNN", "Gated", "Recurrent", "Translator", "Unflatten"}


@pytest.mark.parametrize("n", [-1, 1.5])
def test_padding_is_a_whole_number_from_0_up(n: Any) -> None:
    for make in (nn.MaxPool2d, nn.AvgPool1d):
        with pytest.raises(td.ArgumentError, match="from 0 up"):
            make(3, padding=n)
    with pytest.raises(td.ArgumentError, match="from 0 up"):
        nn.Conv2d(2, 2, 3, padding=(0, n))
    with pytest.raises(td.ArgumentError, match="from 0 up"):
        nn.ConvTranspose1d(2, 2, 3, 2, output_padding=n)
