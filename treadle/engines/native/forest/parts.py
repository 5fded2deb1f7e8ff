"""Bodies for n rows, compiled: programs whose arguments and results lie anywhere."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.caches import Cache
from treadle.base.locks import lock
from treadle.base.options import current
from treadle.batch.room import steps_of
from treadle.engines.native.forest.assembly import once
from treadle.engines.native.forest.compiled import Compiled, Sample, Source
from treadle.engines.native.forest.fit import RowLaw
from treadle.engines.native.run import PositionError
from treadle.engines.native.translate import translated
from treadle.graph.body import Body
from treadle.graph.frame import tracing
from treadle.graph.tolerance import difference
from treadle.program.even import Uneven

__all__ = ["Rows", "compiled"]

KEPT = 1024  # row counts of a body
SAMPLES = 12  # of a body
BODIES = 512
LEAST, FIRST, SPAN = 2, 16, 16  # laws begin here, at FIRST, and each SPAN times further
HALVES = 5  # how often a range is halved where there is no law
TERMS = 1 << 12  # of sums, in what they may differ by where they are done otherwise
# Ranges that may take the law of the next one.
_LENT = ((LEAST, FIRST), (FIRST, SPAN * FIRST))
NARROW = 3  # so many row counts are not worth a law


Filled = tuple[Compiled, Numbers]


def _records(body: Body) -> int:
    """The records of a body, which needs no machine code for it."""
    arguments = {x.serial: k for k, x in enumerate(body.arguments)}
    linked, _ = translated(body.nodes, arguments, {y.serial for y in body.outputs})
    return sum(count for _, count in linked.spans)


def _translate(body: Body) -> Sample:
    arguments = {x.serial: k for k, x in enumerate(body.arguments)}
    keep = dict.fromkeys(y.serial for y in body.outputs)  # in this order
    linked, graph = translated(body.nodes, arguments, keep.keys())
    # Arrays within the body, such as the numbers of its rows, are no arguments.
    order: list[Source] = [
        arguments[x.serial] if x.serial in arguments else np.ascontiguousarray(x.array)
        for x in graph.leaves
    ]
    where = {serial: k for k, (serial, _, _) in enumerate(linked.program.results)}
    outputs = [where[y.serial] for y in body.outputs]
    return Sample(Compiled(linked, order, outputs), linked)


def _filled(sample: Sample) -> Filled:
    return sample.steps, sample.steps.numbers


class Rows:
    """A body for any number of rows: for most of them numbers are filled in."""

    def __init__(self, make: Callable[[int], Body], even: bool) -> None:
        self.make = make
        self.even = even  # whether it is the same for each row
        # By the least and the most rows there is a law for.
        self.laws: dict[tuple[int, int], RowLaw | None] = {}
        self.samples: OrderedDict[int, Sample] = OrderedDict()  # what laws are made of
        self.known: OrderedDict[int, Filled] = OrderedDict()
        self._records: int | None = None
        self.lock = lock()

    def records(self) -> int:
        """The native records of one row by itself."""
        if self._records is None:
            with self.lock, tracing("rows"):
                self._records = _records(self.make(1))
        return self._records

    def at(self, n: int) -> Filled:
        """The steps for n rows: what they are like, and their numbers."""
        found = self.known.get(n)
        if found is None:
            with self.lock, tracing("rows"):
                found = self.known[n] = self._made(n)
                if len(self.known) > KEPT:
                    self.known.popitem(last=False)
        return found

    def possible(self, counts: Numbers) -> bool:
        """Whether there are native steps for these numbers of rows."""
        return all(self.at(n)[0].possible for n in dict.fromkeys(counts.tolist()))

    def alike(self, counts: Numbers) -> Iterator[tuple[Compiled, Numbers, Any]]:
        """The steps for some numbers of rows, where these differ in numbers alone: what
        they are like, a row of numbers for each, and which of the counts these are.
        """
        made = [self.at(n) for n in counts.tolist()]
        families = {id(like): like for like, _ in made}
        if len(families) == 1:
            yield made[0][0], np.array([numbers for _, numbers in made]), slice(None)
            return
        for like in families.values():
            own = [k for k, x in enumerate(made) if x[0] is like]
            yield like, np.array([made[k][1] for k in own]), own

    def _made(self, n: int) -> Filled:
        low, high, unit = self._range(n)
        for _ in range(HALVES + 1 if low <= n and not n % unit else 0):
            if high - low < NARROW * unit:
                break
            law = self._law(low, high, unit)
            if law is not None:
                with suppress(Uneven):
                    return law.like, law.at(n)
                break
            middle = _middle(low, high, unit)
            low, high = (low, middle) if n <= middle else (middle + unit, high)
        return _filled(self._sample(n))

    def _range(self, n: int) -> tuple[int, int, int]:
        """Where a law for n rows may hold, and what its numbers are multiples of."""
        if not self.even:
            low = 1 << n.bit_length() - 1
            unit = steps_of(n)
            return low, 2 * low - unit, unit
        low, high = LEAST, FIRST
        while high <= n:
            low, high = high, SPAN * high
        return low, high - 1, 1

    def _sample(self, n: int) -> Sample:
        found = self.samples.get(n)
        if found is None:
            found = self.samples[n] = _translate(self.make(n))
            if len(self.samples) > SAMPLES:
                self.samples.popitem(last=False)
        return found

    def _law(self, low: int, high: int, unit: int) -> RowLaw | None:
        """The law for some numbers of rows: their own, or else that of the next range,
        where kernels are the same for most of them, if it is right down here.
        """
        if (low, high) not in self.laws:
            found = self._own_law(low, high, unit)
            if found is None and self.even and (low, high + 1) in _LENT:
                found = self._law(high + 1, SPAN * (high + 1) - 1, unit)
                if found is not None and not self._holds(found, (low, high)):
                    found = None
            self.laws[low, high] = found
        return self.laws[low, high]

    def _own_law(self, low: int, high: int, unit: int) -> RowLaw | None:
        """The law of three numbers of rows: two of them those of a range beside this
        one, if that has a law which goes on here, or else all of this one.
        """
        for own, step in self._beside(low, high, unit):
            found = self._law_of(own, step)
            if found is not None:
                return found
        return self._law_of((low, _middle(low, high, unit), high), unit)

    def _beside(
        self, low: int, high: int, unit: int
    ) -> Iterator[tuple[tuple[int, int, int], int]]:
        """Numbers for a law: an end of a range and two that made one of the next."""
        for (least, most), law in self.laws.items():
            if law is None:
                continue
            first, *_, last = law.counts
            step = min(unit, law.unit)
            if last == most < low <= most + law.unit:
                yield (first, last, high), step
            elif high < least == first <= high + unit:
                yield (low, first, last), step

    def _law_of(self, counts: tuple[int, int, int], unit: int) -> RowLaw | None:
        made = {n: self._sample(n) for n in counts}
        if not all(x.steps.possible for x in made.values()):
            return None
        try:
            return RowLaw(made, unit)
        except Uneven:
            return None

    def _holds(self, law: RowLaw, counts: Iterable[int]) -> bool:
        """Whether a law makes for some numbers of rows what is compiled for them."""
        for n in counts:
            body, sample = self.make(n), _filled(self._sample(n))
            try:
                made = law.like, law.at(n)
                pairs = zip(once(*made, body), once(*sample, body), strict=True)
            except (Uneven, PositionError):
                return False
            if any(difference(x, y, "R", TERMS) for x, y in pairs):
                return False
        return True


def _middle(low: int, high: int, unit: int) -> int:
    return low + (high - low) // unit // 2 * unit


_lock = lock()
_known: Cache[Any, Rows] = Cache("bodies by rows", BODIES)


def compiled(key: Any, make: Callable[[int], Body], even: bool = True) -> Rows:
    """The body of a key by rows; `make` has it for a number of them.

    `even`: whether it is the same for each row; else laws are looked for between the
    numbers that there is `room` for.
    """
    key = key, current().compilation
    with _lock:
        found = _known.get(key)
        if found is None:
            found = _known[key] = Rows(make, even)
        else:
            _known.move_to_end(key)
    return found
