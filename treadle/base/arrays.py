"""Types of arrays in annotations, and what is often asked of short ones."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Numbers = np.ndarray[Any, np.dtype[np.int64]]
Marks = np.ndarray[Any, np.dtype[np.bool_]]


def indices_of(x: Any) -> Numbers:
    """The places of an array of one axis that are not zero, in one call of C where
    `np.flatnonzero` runs eight functions of Python.

    >>> indices_of(np.array([False, True, True])).tolist()
    [1, 2]
    """
    return x.nonzero()[0]


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
