"""Data sets of labeled images by name: digits, Fashion-MNIST, and a user's own.

The digits are from Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak
(1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, CC BY 4.0.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
from collections.abc import Mapping
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import DataFileError
from treadle.data.dataset import ArrayDataset, Images, ScaleFirst
from treadle.io.files import MAX_RATIO, PathLike, fill, guarded, open_regular
from treadle.io.tensors import load_arrays

_DEBIAN = Path("/usr/share/datasets/fashion-mnist")
_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


def fashion_mnist(data_dir: PathLike | None = None) -> Images:
    """60,000 images to train on and 10,000 held out, in ten classes.

    The four IDX files (with or without .gz) are looked for in `data_dir`, else where
    Debian's package dataset-fashion-mnist puts them.
    """
    folder = Path(data_dir) if data_dir is not None else _DEBIAN
    x, y, x_test, y_test = (read_idx(_find(folder, name)) for name in _FILES)
    parts = []
    for images, labels, name in ((x, y, _FILES[1]), (x_test, y_test, _FILES[3])):
        path = folder / name
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise DataFileError(
                f"{path}: labels {labels.shape} do not fit images {images.shape}"
            )
        if images.shape[1:] != (28, 28):
            raise DataFileError(f"{path}: the images are {images.shape[1:]}, not 28x28")
        if labels.size == 0 or labels.max() > 9:
            raise DataFileError(f"{path}: labels are 0 to 9, at least one")
        parts.append(
            ArrayDataset(
                images[:, None], labels.astype(np.int64), transform=ScaleFirst(1 / 255)
            )
        )
    return Images("fashion-mnist", parts[0], parts[1], (1, 28, 28), 10)


def read_idx(path: PathLike) -> Array:
    """The bytes of an IDX file (plain or .gz) as an array; raises DataFileError."""
    with open_regular(path, DataFileError) as file, guarded(path, DataFileError):
        size = file.seek(0, 2)
        file.seek(0)
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        stream: BufferedIOBase = gzip.GzipFile(fileobj=file) if packed else file
        lead = stream.read(4)
        if len(lead) < 4 or lead[:3] != b"\0\0\x08" or not 1 <= lead[3] <= 4:
            raise ValueError("this is not an IDX file of bytes")
        extents = stream.read(4 * lead[3])
        if len(extents) < 4 * lead[3]:
            raise EOFError("the file ends within its header")
        shape = struct.unpack(f">{lead[3]}I", extents)
        if math.prod(n or 1 for n in shape) > size * (MAX_RATIO if packed else 1):
            raise ValueError(f"{shape} bytes do not fit a file of {size} bytes")
        array = fill(stream, shape, np.dtype(np.uint8))
        if stream.read(1):
            raise ValueError(f"there is more than the {shape} bytes of the header")
    return array


def _find(folder: Path, name: str) -> Path:
    for candidate in (folder / f"{name}.gz", folder / name):
        if candidate.exists():
            return candidate
    raise DataFileError(
        f"{folder / name}.gz: there is no such file",
        hint="install Debian's package dataset-fashion-mnist, or name the folder "
        "that holds the four files with --data-dir",
    )


_FILE = Path(__file__).parent / "files" / "digits.npz"


def digits() -> Images:
    """1,797 images in ten classes, a fifth of them held out.

    >>> data = digits()
    >>> len(data.train), len(data.held_out), data.shape, data.classes
    (1438, 359, (1, 8, 8), 10)
    """
    arrays, _ = load_arrays(_FILE, error=DataFileError)
    if set(arrays) != {"images", "labels"} or arrays["images"].shape != (1797, 8, 8):
        raise DataFileError(f"{_FILE}: these are not the digits; install Treadle again")
    whole = ArrayDataset(
        arrays["images"].reshape(-1, 1, 8, 8),
        arrays["labels"].astype(np.int64),
        transform=ScaleFirst(1 / 16),
    )
    train, held_out = whole.split(0.2, seed=0)
    return Images("digits", train, held_out, (1, 8, 8), 10)


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


def load_images(name: str, data_dir: PathLike | None = None) -> Images:
    """The images called "digits", "fashion-mnist" or by the path of an .npz file.

    >>> load_images("digits").classes
    10
    """
    if name == "digits":
        return digits()
    if name == "fashion-mnist":
        return fashion_mnist(data_dir)
    if name.lower().endswith(".npz"):
        return images_from_npz(name)
    raise DataFileError(
        f"there is no data set {name!r}", hint="known: digits, fashion-mnist, PATH.npz"
    )
