"""Labeled pictures: Fashion-MNIST where it is installed, else noise of its shape."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["pictures"]

Array = np.ndarray[Any, Any]
_DEBIAN = Path("/usr/share/datasets/fashion-mnist")


def pictures(batches: int, batch: int, size: int) -> tuple[Array, Array]:
    """Images (batches, batch, 1, size, size) from 0 to 1, labels (batches, batch).

    Debian's package dataset-fashion-mnist has pictures of 28x28, cropped where a
    smaller size is asked for; without it images and labels are random.
    """
    count = batches * batch
    if _DEBIAN.exists() and size <= 28:
        images = _read("train-images-idx3-ubyte.gz", 16, count * 28 * 28)
        images = images.reshape(count, 28, 28)[:, :size, :size] / np.float32(255)
        labels = _read("train-labels-idx1-ubyte.gz", 8, count).astype(np.int64)
    else:
        rng = np.random.default_rng(0)
        images = rng.random((count, size, size), np.float32)
        labels = rng.integers(0, 10, count)
    return images.reshape(batches, batch, 1, size, size), labels.reshape(batches, batch)


def _read(name: str, header: int, count: int) -> Array:
    """The first bytes after the header of an IDX file."""
    with gzip.open(_DEBIAN / name) as file:
        file.read(header)
        return np.frombuffer(file.read(count), np.uint8)
