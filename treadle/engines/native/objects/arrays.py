"""Where NumPy's arrays keep their data: thousands of them asked at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, cast

import numpy as np

from treadle.base.routine import Numbers, routine
from treadle.engines.native.objects.layout import place_of
from treadle.engines.native.objects.things import Object
from treadle.engines.native.routines.compiled import machine
from treadle.engines.native.routines.memory import Array, Unknown

__all__ = ["NumPy", "addresses_of"]


class NumPy(Object):
    """An array: where its first element lies, and whose memory that is."""

    data: int
    base: NumPy

    @classmethod
    def places(cls) -> Mapping[str, int]:
        return _places()


@cache
def _places() -> Mapping[str, int]:
    whole = np.zeros(3)
    part = whole[1:]
    data, base = place_of(whole, whole.ctypes.data), place_of(part, id(whole))
    if data is None or base is None:
        raise Unknown
    return {"data": data, "base": base}


def addresses_of(arrays: Sequence[np.ndarray[Any, Any]]) -> Numbers:
    """Where the first element of each array lies.

    >>> x, y = np.zeros(3), np.ones(2)
    >>> addresses_of([x, y]).tolist() == [x.ctypes.data, y.ctypes.data]
    True
    """
    function: Any = machine(look_up)
    if function is None:
        return np.array([x.ctypes.data for x in arrays], np.int64)
    found = np.fromiter(map(id, arrays), np.int64, len(arrays))
    function(found, len(found))
    return found


@routine
def look_up(found: Numbers, count: int) -> None:
    """Put where the data of an array lies in the place of where the array does."""
    arrays = cast(Array[NumPy], found)
    for k in range(count):
        found[k] = arrays[k].data
