"""Sequences of several lengths as one array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, DTypeError, ShapeError


def pad(
    sequences: Sequence[Any], value: Any = 0, *, multiple: int = 1, dtype: Any = None
) -> tuple[Array, Array]:
    """One row a sequence, filled up with `value`, and the lengths as int64.

    Rows are as long as the longest sequence, rounded up to a `multiple`. The
    elements may be rows themselves, of one shape. The dtype is that of the sequences.

    >>> array, lengths = pad([[1, 2, 3], [4]], value=-1)
    >>> array.tolist(), lengths.tolist()
    ([[1, 2, 3], [4, -1, -1]], [3, 1])
    """
    if not isinstance(multiple, int) or multiple < 1:
        raise ArgumentError(f"multiple is a positive whole number, not {multiple!r}")
    try:
        arrays = [np.asarray(whole(sequence)) for sequence in sequences]
    except ValueError as problem:
        raise ShapeError("the elements of a sequence are of one shape") from problem
    if any(array.ndim == 0 for array in arrays):
        raise ShapeError("a sequence has at least one axis", hint="pad([[1, 2], [3]])")
    # An empty list says nothing of the dtype and shape of its elements.
    full = [array for array in arrays if len(array)]
    typed = full or [s for s in sequences if isinstance(s, np.ndarray)]
    shapes = {array.shape[1:] for array in typed}
    if len(shapes) > 1:
        raise ShapeError(f"elements of shapes {sorted(shapes)} are not of one kind")
    (shape,) = shapes or {()}
    wanted = np.result_type(*typed) if typed else np.dtype(np.int64)
    if dtype is not None:
        wanted = np.dtype(dtype)
    elif wanted.kind not in "biufc":
        raise DTypeError(
            f"sequences of {wanted} hold no numbers",
            hint="a Vocabulary encodes words as numbers",
        )
    lengths = np.array([len(array) for array in arrays], np.int64)
    longest = -(-int(lengths.max(initial=0)) // multiple) * multiple
    padded = np.full((len(arrays), longest, *shape), _filler(value, wanted), wanted)
    if full:
        padded[np.arange(longest) < lengths[:, None]] = np.concatenate(full)
    return padded, lengths


def _filler(value: Any, dtype: np.dtype[Any]) -> Array:
    """The value in a dtype; whole numbers take no other."""
    filler = np.asarray(value).astype(dtype)
    if dtype.kind in "biu" and filler != value:
        raise ArgumentError(f"{dtype} does not hold the value {value!r}")
    return filler
