"""Values that lie in an engine's own memory until somebody looks at them."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import DType
from treadle.base.types import Shape, Type


class Resident:
    """A value in memory that only its engine reads; `numpy` brings it home, once.

    An engine with a memory of its own derives a class, says in `fetch` how a value is
    copied out, and frees the memory when the last reference is gone. The value never
    changes; its copy at home may be in a user's hands and is never overwritten.
    """

    __slots__ = ("__weakref__", "home", "type")

    def __init__(self, type_: Type) -> None:
        self.type = type_
        self.home: np.ndarray[Any, Any] | None = None

    def fetch(self) -> np.ndarray[Any, Any]:
        """A copy of the value in the host's memory."""
        raise NotImplementedError

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value on the host; a second look copies nothing."""
        found = self.home
        if found is None:
            found = self.fetch()
            found.flags.writeable = False
            self.home = found
        return found

    @property
    def shape(self) -> Shape:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def nbytes(self) -> int:
        return self.type.nbytes
