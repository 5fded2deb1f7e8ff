"""Layers that are several ops here are written as ONNX's own node of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

pytest.importorskip("onnx")


from tests.io.onnx.models import is_right, kinds_of

X = np.random.default_rng(0).normal(size=(2, 4, 5, 6)).astype(np.float32)
SCALE = np.linspace(0.5, 2, 6, dtype=np.float32)

Layer = Callable[[Any], Any]


def affine(layer: Any) -> Any:
    """A layer whose parameters are no longer those of its beginning."""
    for k, (_, p) in enumerate(layer.named_parameters()):
        p.assign(np.linspace(k, k + 1, p.type.size).reshape(p.type.shape))
        p.numpy()  # no computation of another test has this change as its own
    return layer


def resized(size: Any, **how: Any) -> Layer:
    return nn.Upsample(size=size, mode="bilinear", **how)


ONE: dict[str, tuple[str, Layer]] = {
    "average pool": ("AveragePool", nn.AvgPool2d(2)),
    "clip": ("Clip", lambda x: td.clip(x, -0.5, 1.0)),
    "layer norm": ("LayerNormalization", affine(nn.LayerNorm(6))),
    "layer norm of two": ("LayerNormalization", affine(nn.LayerNorm((5, 6)))),
    "layer norm, scale": (
        "LayerNormalization",
        lambda x: nn.LayerNorm(6, elementwise_affine=False)(x) * SCALE,
    ),
    "instance norm": (
        "InstanceNormalization",
        affine(nn.InstanceNorm2d(4, affine=True)),
    ),
    "nearest": ("Resize", nn.Upsample(scale_factor=2)),
    "repeats": ("Resize", lambda x: td.repeat(x, 3, axis=3)),
    "bilinear": ("Resize", nn.Upsample(scale_factor=2, mode="bilinear")),
    "bilinear, smaller": ("Resize", resized((3, 4))),
    "bilinear, odd": ("Resize", resized((7, 11))),
    "bilinear by corners": ("Resize", resized((7, 11), align_corners=True)),
    "shuffle": ("DepthToSpace", nn.PixelShuffle(2)),
    "reflected": ("Pad", nn.ReflectionPad2d((1, 2, 0, 3))),
    "edges": ("Pad", nn.ReplicationPad2d((1, 0, 2, 3))),
}
# What looks like one and is none; the second word is a node that is written.
OTHERS: dict[str, tuple[str, Layer]] = {
    "sums of windows": ("Mul", lambda x: nn.AvgPool2d(2)(x) * 4.0),
    "ends in the wrong order": ("Max", lambda x: td.clip(x, 1.0, -1.0)),
    "a norm that is read twice": (
        "Mul",
        lambda x: td.sum(
            td.stack([(y := nn.LayerNorm(6, elementwise_affine=False)(x)) * SCALE, y]),
            axis=0,
        ),
    ),
    "a scale for each row": (
        "Mul",
        lambda x: nn.LayerNorm(6, elementwise_affine=False)(x) * SCALE[:5, None],
    ),
    "tiles": ("Expand", lambda x: td.tile(x, (1, 1, 2, 1))),
    "repeats of another shape": (
        "Expand",
        lambda x: td.reshape(
            td.broadcast_to(td.reshape(x, (2, 4, 5, 1, 6)), (2, 4, 5, 2, 6)),
            (2, 4, 5, 12),
        ),
    ),
    "repeated channels": ("Expand", lambda x: td.repeat(x, 2, axis=1)),
    "blocks in another order": (
        "Transpose",
        lambda x: td.reshape(
            td.permute_dims(td.reshape(x, (2, 1, 2, 2, 5, 6)), (0, 1, 4, 3, 5, 2)),
            (2, 1, 10, 12),
        ),
    ),
    "a ring": ("Gather", nn.CircularPad2d(1)),
    "rows in another order": ("Gather", lambda x: x[:, :, [0, 2, 1, 3, 4, 4]]),
    "means of places far apart": (
        "Gather",
        lambda x: x[:, :, [0, 1]] * WEIGHTS + x[:, :, [2, 4]] * (1 - WEIGHTS),
    ),
    "weights that are no mean": (
        "Gather",
        lambda x: x[:, :, [0, 1]] * WEIGHTS + x[:, :, [1, 2]] * WEIGHTS,
    ),
}
WEIGHTS = np.array([0.5, 0.25], np.float32).reshape(1, 1, 2, 1)


@pytest.mark.parametrize("name", ONE)
def test_a_layer_is_one_node(name: str, tmp_path: Path) -> None:
    kind, f = ONE[name]
    td.to_onnx(f, tmp_path / "m.onnx", X, inputs=["x"])
    assert kinds_of(tmp_path / "m.onnx") == [kind]
    is_right(f, tmp_path / "m.onnx", X)


@pytest.mark.parametrize("name", OTHERS)
def test_what_looks_like_a_layer_is_written_out(name: str, tmp_path: Path) -> None:
    kind, f = OTHERS[name]
    td.to_onnx(f, tmp_path / "m.onnx", X, inputs=["x"])
    assert kind in kinds_of(tmp_path / "m.onnx")
    is_right(f, tmp_path / "m.onnx", X)


@pytest.mark.parametrize("name", ONE)
def test_a_layer_is_one_node_for_any_batch(name: str, tmp_path: Path) -> None:
    kind, f = ONE[name]
    td.to_onnx(f, tmp_path / "m.onnx", X, inputs=["x"], dynamic={"x": {0: "n"}})
    assert kind in kinds_of(tmp_path / "m.onnx")
    for rows in (X[:1], np.concatenate([X, X[:1]])):
        is_right(f, tmp_path / "m.onnx", rows)


PICTURES = [name for name in ONE if "layer norm" not in name]


@pytest.mark.parametrize("name", PICTURES)
def test_a_layer_is_one_node_for_pictures_of_any_size(
    name: str, tmp_path: Path
) -> None:
    kind, f = ONE[name]
    open_ = {"x": {2: "h", 3: "w"}}
    td.to_onnx(f, tmp_path / "m.onnx", X, inputs=["x"], dynamic=open_)
    assert kind in kinds_of(tmp_path / "m.onnx")
    for height, width in ((4, 8), (9, 6)):
        x = np.resize(X, (2, 4, height, width))
        is_right(f, tmp_path / "m.onnx", x)
