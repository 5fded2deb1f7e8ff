"""GradientLayout: where the gradient of each parameter lies, the same on all ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.dtypes import DType, accumulator
from treadle.graph.variable import Variable

__all__ = ["GradientLayout", "Place"]

_ALIGNED = 64  # bytes, so that kernels read a gradient where it lies


@dataclass(frozen=True)
class Place:
    """The place of one parameter's gradient in the flat array of its dtype.

    A sparse parameter has none: of its gradient, rows are kept.
    """

    name: str
    variable: Variable
    dtype: DType
    start: int
    stop: int

    def __str__(self) -> str:
        kind = " (rows)" if self.variable.sparse else ""
        return f"{self.name}: {self.variable.type}{kind}"


class GradientLayout:
    """The parameters of all ranks in one order, last ones first.

    Gradients are made from the last layer to the first, so that those that are made
    first lie together. It does not depend on any graph: ranks may run different ones.

    >>> import treadle as td
    >>> a, b = td.param("a", init=[1.0, 2.0]), td.param("b", init=3.0)
    >>> [str(place) for place in GradientLayout([("a", a), ("b", b)]).places]
    ['b: float32[]', 'a: float32[2]']
    """

    def __init__(self, named: Iterable[tuple[str, Variable]]) -> None:
        self.places: list[Place] = []
        self.sizes: dict[DType, int] = {}
        self._numbers: dict[int, int] = {}
        for name, p in list(named)[::-1]:
            dtype = accumulator(p.type.dtype)
            start = stop = self.sizes.get(dtype, 0)
            if not p.sparse:
                step = max(1, _ALIGNED // dtype.itemsize)
                stop = start + p.type.size
                self.sizes[dtype] = -(-stop // step) * step
            self._numbers[id(p)] = len(self.places)
            self.places.append(Place(name, p, dtype, start, stop))

    def number(self, p: Variable) -> int | None:
        """The number of a parameter among the places; None if it has none."""
        return self._numbers.get(id(p))

    def zeros(self) -> dict[DType, np.ndarray[Any, Any]]:
        """Flat arrays, one a dtype."""
        return {dtype: np.zeros(n, dtype) for dtype, n in self.sizes.items()}

    def lines(self) -> list[str]:
        """The places as text, to compare by."""
        return list(map(str, self.places))

    def digest(self) -> int:
        """A number that is another one for another layout."""
        digest = hashlib.sha256("\n".join(self.lines()).encode()).digest()
        return int.from_bytes(digest[:8], "little", signed=True)
