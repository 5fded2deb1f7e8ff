"""Fashion-MNIST: 70,000 pictures of clothes, 28x28, in the IDX files of MNIST."""

from __future__ import annotations

import gzip
import math
import struct
from io import BufferedIOBase
from pathlib import Path

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import DataFileError
from treadle.data.dataset import ArrayDataset, Images, ScaleFirst
from treadle.io.files import MAX_RATIO, PathLike, fill, guarded, open_regular

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
