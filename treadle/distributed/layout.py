"""GradientLayout: where the gradient of each parameter lies, the same on all ranks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import DType, accumulator
from treadle.graph.variable import Variable

_ALIGNED = 64  # bytes, so that kernels read a gradient where it lies
BUCKET = 1 << 22  # bytes from which on gradients are exchanged: fewer wait for more


@dataclass(frozen=True)
class Place:
    """The place of one parameter's gradient in the flat array of its dtype.

    A sparse parameter has none: of its gradient, rows are kept. `owner` is the rank
    that updates it, where each rank updates its share.
    """

    name: str
    variable: Variable
    dtype: DType
    start: int
    stop: int
    owner: int = 0

    def __str__(self) -> str:
        kind = " (rows)" if self.variable.sparse else ""
        return f"{self.name}: {self.variable.type}{kind}"


@dataclass(frozen=True)
class Bucket:
    """The parameters, by number, whose gradients are exchanged at once: those that lie
    from `start` to `stop` in the flat array of a dtype.

    `cuts` are where the part of each rank begins, and the end of the last.
    """

    dtype: DType
    start: int
    stop: int
    numbers: tuple[int, ...]
    cuts: tuple[int, ...]

    def parts(self, flat: Array) -> list[Array]:
        """The part of each rank, of what lies from `start` to `stop`."""
        first = self.start
        return [flat[a - first : b - first] for a, b in pairwise(self.cuts)]


class GradientLayout:
    """The parameters of all ranks in one order, last ones first, and their buckets.

    Gradients are made from the last layer to the first, so that those that are made
    first lie together. It does not depend on any graph: ranks may run different ones.
    Of `size` ranks each has an equal part of a bucket; if it is `sharded`, those
    parameters that it is to update, which lie together.

    >>> a, b = td.param("a", init=[1.0, 2.0]), td.param("b", init=3.0)
    >>> [str(place) for place in GradientLayout([("a", a), ("b", b)]).places]
    ['b: float32[]', 'a: float32[2]']
    """

    def __init__(
        self,
        named: Iterable[tuple[str, Variable]],
        size: int = 1,
        sharded: bool = False,
    ) -> None:
        self.size, self.sharded = size, sharded
        self.places: list[Place] = []
        self.sizes: dict[DType, int] = {}
        self.buckets: list[Bucket] = []
        open_ones: dict[DType, list[int]] = {}
        loads = [0] * size
        for name, p in list(named)[::-1]:
            dtype, owner = accumulator(p.type.dtype), loads.index(min(loads))
            loads[owner] += p.type.nbytes
            number = len(self.places)
            self.places.append(Place(name, p, dtype, 0, 0, owner))
            if not p.sparse:
                waiting = open_ones.setdefault(dtype, [])
                waiting.append(number)
                total = sum(self.places[k].variable.type.size for k in waiting)
                if total * dtype.itemsize >= BUCKET:
                    self._close(dtype, open_ones.pop(dtype))
        for dtype, waiting in open_ones.items():
            self._close(dtype, waiting)
        self._numbers = {id(x.variable): k for k, x in enumerate(self.places)}
        digest = hashlib.sha256("\n".join(self.lines()).encode()).digest()
        # A number that is another one for another layout.
        self.digest = int.from_bytes(digest[:8], "little", signed=True)

    def _close(self, dtype: DType, numbers: list[int]) -> None:
        """Close a bucket of these parameters."""
        step = max(1, _ALIGNED // dtype.itemsize)
        first = at = self.sizes.get(dtype, 0)
        starts: dict[int, int] = {}
        if self.sharded:
            numbers = sorted(numbers, key=lambda k: self.places[k].owner)
        for k in numbers:
            place = self.places[k]
            starts.setdefault(place.owner, at)
            stop = at + place.variable.type.size
            self.places[k] = replace(place, start=at, stop=stop)
            at = -(-stop // step) * step
        self.sizes[dtype] = at
        cuts = [at] * (self.size + 1)
        for rank in reversed(range(self.size)):
            even = first + (at - first) * rank // self.size
            cuts[rank] = starts.get(rank, cuts[rank + 1]) if self.sharded else even
        self.buckets.append(Bucket(dtype, first, at, tuple(numbers), tuple(cuts)))

    def number(self, p: Variable) -> int | None:
        """The number of a parameter among the places; None if it has none."""
        return self._numbers.get(id(p))

    def empty(self) -> dict[DType, Array]:
        """Flat arrays, one a dtype, yet to be filled in."""
        return {dtype: np.empty(n, dtype) for dtype, n in self.sizes.items()}

    def lines(self) -> list[str]:
        """The places as text, to compare by."""
        return list(map(str, self.places))
