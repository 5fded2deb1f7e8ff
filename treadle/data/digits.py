"""Handwritten digits, 8x8, that come with the package.

Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak (1998), UCI Machine
Learning Repository, https://doi.org/10.24432/C50P49, CC BY 4.0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from treadle.base.errors import DataFileError
from treadle.data.dataset import ArrayDataset, Images, ScaleFirst
from treadle.io.tensors import load_arrays

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
