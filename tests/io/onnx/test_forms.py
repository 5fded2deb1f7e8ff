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
    "a ring": ("Pad", nn.CircularPad2d((1, 0, 2, 3))),
    "nearest, half as large again": ("Resize", nn.Upsample(scale_factor=(2, 1.5))),
    "bins": ("AveragePool", nn.AdaptiveAvgPool2d((5, 2))),
    "averages of what is inside": (
        "AveragePool",
        nn.AvgPool2d(3, stride=2, padding=1, count_include_pad=False),
    ),
    "averages of windows over the end": ("AveragePool", nn.AvgPool2d(3, 2, 0, True)),
    "averages of planes": ("ReduceMean", lambda x: td.avg_pool(x, x.shape[2:])),
    "sums of planes": ("ReduceSum", lambda x: td.sum_pool(x, x.shape[2:])),
    "greatest of planes": ("ReduceMax", nn.AdaptiveMaxPool2d(1)),
    "batch norm": ("BatchNormalization", nn.BatchNorm2d(4).eval()),
    "batch norm without scale": (
        "BatchNormalization",
        nn.BatchNorm2d(4, affine=False).eval(),
    ),
    "instance norm without scale": ("InstanceNormalization", nn.InstanceNorm2d(4)),
    "group norm without scale": (
        "InstanceNormalization",
        nn.GroupNorm(2, 4, affine=False),
    ),
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
    "a ring of other rows": ("Gather", lambda x: x[:, :, [4, 0, 1, 2, 3, 4, 1]]),
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


CLOSED = ("layer norm", "bins", "over the end", "inside")  # what hangs on the extents
PICTURES = [name for name in ONE if not any(word in name for word in CLOSED)]


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


COLUMNS: dict[str, tuple[str, Layer]] = {
    "windows": ("Gather", nn.Unfold((2, 3), dilation=(2, 1), padding=(0, 1), stride=2)),
    "windows of rows": ("Gather", lambda x: td.unfold(x[:, 0], 3, padding=1)),
    "pictures": (
        "Col2Im",
        lambda x: nn.functional.fold(x[:, :, 0], (4, 4), 2, padding=(0, 1), stride=2),
    ),
    "rows": ("Col2Im", lambda x: td.fold(x[:, :, 0], (9,), 4)),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_windows_are_columns_and_back(name: str, tmp_path: Path) -> None:
    kind, f = COLUMNS[name]
    td.to_onnx(f, tmp_path / "m.onnx", X, inputs=["x"])
    assert kind in kinds_of(tmp_path / "m.onnx")
    is_right(f, tmp_path / "m.onnx", X)


LINES: dict[str, tuple[list[str], Layer]] = {
    "a long row of bins": (["ReduceMean"], nn.AdaptiveAvgPool1d(2)),
    "greatest of a long row of bins": (["ReduceMax"], nn.AdaptiveMaxPool1d(3)),
    "between elements": (
        ["Unsqueeze", "Resize", "Squeeze"],
        nn.Upsample(scale_factor=2, mode="linear"),
    ),
    "group norm": (
        ["InstanceNormalization", "BatchNormalization"],
        affine(nn.GroupNorm(2, 4)),
    ),
    "halves": (["Split", "Sigmoid", "Mul"], nn.GLU(2)),
    "uneven parts": (
        ["Split", "Concat"],
        lambda x: td.concat([x[:, 3:], x[:, :1], x[:, 1:3]], axis=1),
    ),
    "parts that are not all": (
        ["Slice", "Slice", "Concat"],
        lambda x: td.concat([x[:, 3:], x[:, :2]], axis=1),
    ),
}


@pytest.mark.parametrize("name", LINES)
def test_lines_and_parts(name: str, tmp_path: Path) -> None:
    kinds, f = LINES[name]
    x = np.resize(X, (2, 4, 96))
    td.to_onnx(f, tmp_path / "m.onnx", x, inputs=["x"])
    assert kinds_of(tmp_path / "m.onnx") == kinds
    is_right(f, tmp_path / "m.onnx", x)


def test_a_row_more_is_a_border_or_one_of_the_nearest(tmp_path: Path) -> None:
    for kind, f in (
        ("Resize", nn.Upsample(size=(6, 9))),
        ("Pad", nn.ReplicationPad2d((0, 0, 1, 0))),
    ):
        td.to_onnx(f, tmp_path / "m.onnx", X, inputs=["x"])
        assert kinds_of(tmp_path / "m.onnx") == [kind]
        is_right(f, tmp_path / "m.onnx", X)


def test_volumes_between_elements(tmp_path: Path) -> None:
    f = nn.Upsample(scale_factor=2, mode="trilinear")
    x = X.reshape(1, 2, 4, 5, 6)
    td.to_onnx(f, tmp_path / "m.onnx", x, inputs=["x"])
    assert kinds_of(tmp_path / "m.onnx") == ["Resize"]
    is_right(f, tmp_path / "m.onnx", x)


def test_a_product_of_open_dimensions_is_inferred_or_refused(tmp_path: Path) -> None:
    open_ = {"x": {2: "h", 3: "w"}}

    def rows(x: Any) -> Any:
        return td.reshape(x, (2, 4, -1)) * 2.0

    td.to_onnx(rows, tmp_path / "m.onnx", X, inputs=["x"], dynamic=open_)
    for height, width in ((4, 8), (9, 6)):
        is_right(rows, tmp_path / "m.onnx", np.resize(X, (2, 4, height, width)))

    def counted(x: Any) -> Any:
        return td.zeros((x.shape[2] * x.shape[3],)) + td.sum(x)

    with pytest.raises(td.ModelFileError, match="no sum of multiples of 'h' and 'w'"):
        td.to_onnx(counted, tmp_path / "m.onnx", X, inputs=["x"], dynamic=open_)
