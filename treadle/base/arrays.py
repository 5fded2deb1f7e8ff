"""Types of arrays in annotations, and the distinct elements of one."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Marks = np.ndarray[Any, np.dtype[np.bool_]]


def distinct(x: Any) -> Any:
    """The different elements of an array in order: `np.unique` loads the package of
    masked arrays, which takes longer than a first step.

    >>> distinct(np.array([3, 1, 3, 2])).tolist()
    [1, 2, 3]
    """
    x = np.sort(x, axis=None)
    first = np.ones(len(x), np.bool_)
    np.not_equal(x[1:], x[:-1], out=first[1:])
    return x[first]
