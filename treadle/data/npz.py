"""A user's own images in an .npz file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import DataFileError
from treadle.data.dataset import ArrayDataset, Images, ScaleFirst
from treadle.io.files import PathLike
from treadle.io.tensors import load_arrays

_MOST_CLASSES = 65_536
_SPLIT = ("x_train", "y_train", "x_test", "y_test")
_WHOLE = (("x", "y"), ("images", "labels"))


def images_from_npz(path: PathLike) -> Images:
    """Images and labels from x and y, images and labels, or x_train ... y_test.

    Images are (n, h, w), (n, channels, h, w) or (n, h, w, channels), labels whole
    numbers from 0. Bytes are scaled to 0..1. Without a test part, a fifth is held out.
    """
    arrays, _ = load_arrays(path, format="npz", error=DataFileError)
    place = os.fspath(path)
    if set(_SPLIT) <= set(arrays):
        x, y = _pair(place, arrays, *_SPLIT[:2])
        x_test, y_test = _pair(place, arrays, *_SPLIT[2:])
        if x.shape[1:] != x_test.shape[1:] or x.dtype != x_test.dtype:
            raise DataFileError(
                f"{place}: x_train {x.dtype}{list(x.shape)} and x_test "
                f"{x_test.dtype}{list(x_test.shape)} are not of one kind"
            )
        train, held_out = _dataset(x, y), _dataset(x_test, y_test)
    else:
        names = next((pair for pair in _WHOLE if set(pair) <= set(arrays)), None)
        if names is None:
            known = ", ".join(sorted(arrays)[:8]) or "none"
            raise DataFileError(
                f"{place}: images and labels are not among its arrays ({known})",
                hint="they are x and y, images and labels, or x_train, y_train, "
                "x_test, y_test",
            )
        x, y = _pair(place, arrays, *names)
        if len(x) < 5:
            raise DataFileError(
                f"{place}: {len(x)} images are too few to hold some out"
            )
        y_test = y
        train, held_out = _dataset(x, y).split(0.2, seed=0)
    classes = int(max(y.max(), y_test.max())) + 1
    return Images(Path(path).stem, train, held_out, x.shape[1:], classes)


def _dataset(x: Array, y: Array) -> ArrayDataset:
    return ArrayDataset(x, y, transform=ScaleFirst(1 / 255 if x.dtype == "u1" else 1.0))


def _pair(
    place: str, arrays: Mapping[str, Array], x_name: str, y_name: str
) -> tuple[Array, Array]:
    """Checked images with a channel axis in front, and labels in one dimension."""
    x, y = arrays[x_name], arrays[y_name]
    if x.ndim not in (3, 4) or 0 in x.shape:
        raise DataFileError(
            f"{place}: {x_name} has shape {x.shape}; images are (n, h, w), "
            "(n, channels, h, w) or (n, h, w, channels)"
        )
    if x.dtype.kind not in "uif" or not np.isfinite(x).all():
        raise DataFileError(f"{place}: {x_name} holds values that are no brightness")
    if x.ndim == 3:
        x = x[:, None]
    elif x.shape[3] in (1, 3, 4) and x.shape[1] not in (1, 3, 4):
        x = np.moveaxis(x, 3, 1)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.shape != (len(x),) or y.dtype.kind not in "ui":
        raise DataFileError(
            f"{place}: {y_name} is {y.dtype}{list(y.shape)}; "
            f"labels are {len(x)} whole numbers"
        )
    if y.min() < 0 or y.max() >= _MOST_CLASSES:
        raise DataFileError(
            f"{place}: {y_name} goes from {y.min()} to {y.max()}; labels are whole "
            f"numbers from 0 and below {_MOST_CLASSES}"
        )
    return x, y.astype(np.int64)
