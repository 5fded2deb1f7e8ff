"""Addresses of NumPy arrays' data, thousands of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.core import native


def addresses_of(arrays: Sequence[np.ndarray[Any, Any]]) -> Numbers:
    """The addresses of the first elements of arrays.

    >>> x, y = np.zeros(3), np.ones(2)
    >>> addresses_of([x, y]).tolist() == [x.ctypes.data, y.ctypes.data]
    True
    """
    if native is None:
        return np.array([x.ctypes.data for x in arrays], np.int64)
    return native.addresses(arrays)
