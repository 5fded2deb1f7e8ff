"""Steps for any number of rows, from those for three numbers.

Extents are arguments of kernels: two programs for different numbers of rows differ in
integers alone. Those of loops grow evenly with the rows, which the third number checks;
products cut their work by rules of their own, and are planned for the rows there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.engines.native.code import Code, coded
from treadle.engines.native.forest.compiled import (
    FUNCTION,
    GRAIN,
    OWN,
    PLACE,
    TOTAL,
    Sample,
)
from treadle.engines.native.jit import compile_functions
from treadle.program.contract import Layout
from treadle.program.even import Uneven, fit, same
from treadle.program.program import Product

__all__ = ["RowLaw"]


class _Product:
    """A step whose numbers are planned anew, and where these stand."""

    def __init__(self, made: dict[int, Sample], k: int, low: int, high: int) -> None:
        """`made` by numbers as `RowLaw` counts them."""
        steps: dict[int, Any] = {n: x.linked.program.steps[k] for n, x in made.items()}
        first, last = steps[low], steps[high]
        self.step = fit(first, last, low, high)
        for n, step in steps.items():
            if not same(self.step(n), step):
                raise Uneven
        like = made[high]
        self.like = like.steps
        self.codes = like.linked.codes[k]
        self.others: dict[frozenset[str], Mapping[str, int]] = {}
        own = self.codes[0]
        self.plan = own.plan if isinstance(last.layout, Layout) else None
        if self.plan is not None:
            self.finish = fit(first.finish, last.finish, low, high)
            ends = zip(_extents(first.layout), _extents(last.layout), strict=True)
            pairs = [(x, (y - x) // (high - low)) for x, y in ends]
            self.extents = [(x - slope * low, slope) for x, slope in pairs]
        self.records, self.places, self.shifts = self._find(*like.linked.spans[k])
        self.planned = self.places[0] + own.planned

    def _find(
        self, first: int, count: int
    ) -> tuple[list[int], list[int], list[list[int]]]:
        """Where among all numbers the record of each code is, where its arguments
        begin, and the shifts of those that are addresses.
        """
        like = self.like
        table, shifts, _ = like.ends
        slot = {place: shifts + k for k, place in enumerate(like.slots.tolist())}
        places = like.records(like.numbers)[first : first + count, PLACE].tolist()
        addresses = [
            [slot[p + i] for i, x in enumerate(code.arguments) if type(x) is tuple]
            for p, code in zip(places, self.codes, strict=True)
        ]
        records = [OWN * (first + k) for k in range(count)]
        return records, [table + place for place in places], addresses

    def own(self) -> list[int]:
        """Where among all numbers those are that it plans."""
        pairs = zip(self.places, self.codes, strict=True)
        found = [p + i for p, code in pairs for i in range(len(code.arguments))]
        return [*found, *(place + TOTAL for place in self.records)]

    def _functions(self, code: Code) -> Mapping[str, int]:
        """The addresses of what a code calls, asked for once: a name tells a text."""
        key = frozenset(code.texts)
        found = self.others.get(key)
        if found is None:
            found = self.others[key] = compile_functions(code.texts)
            self.like.alive.append(found)
        return found

    def write(self, numbers: Numbers, n: int) -> None:
        """Put what this step is for n, as `RowLaw` counts, among the numbers of all."""
        if not self._resized(numbers, n):
            self._anew(numbers, self.step(n))

    def _resized(self, numbers: Numbers, n: int) -> bool:
        """Put other numbers into the code there is, if that serves the step."""
        if self.plan is None:
            return False
        made = self.plan.at([start + slope * n for start, slope in self.extents])
        if made is None:
            return False
        numbers[-1] = max(numbers[-1], made.scratch)
        record = self.records[0]
        numbers[record + TOTAL : record + OWN] = made.total, max(made.grain, 1)
        last = self.finish(n)
        integers = (*made.arguments, *(last.integers if last else ()))
        numbers[self.planned : self.planned + len(integers)] = integers
        return True

    def _anew(self, numbers: Numbers, step: Product) -> None:
        """Put in whatever code the step has."""
        codes = coded(step)
        if len(codes) != len(self.codes):
            raise Uneven
        every = zip(
            codes, self.codes, self.records, self.places, self.shifts, strict=True
        )
        for code, like, record, place, shifts in every:
            if code.workspace > like.workspace:
                raise Uneven
            numbers[-1] = max(numbers[-1], code.scratch)
            functions: Mapping[str, int] = self.like.functions
            if code.texts.keys() != like.texts.keys():
                functions = self._functions(code)
            numbers[record + FUNCTION] = functions[code.name]
            numbers[record + TOTAL : record + OWN] = code.total, max(code.grain, 1)
            # What goes into slots is written over when addresses are known.
            numbers[place : place + len(code.arguments)] = [
                functions[x] if type(x) is str else 0 if type(x) is tuple else x
                for x in code.arguments
            ]
            numbers[shifts] = [x[1] for x in code.arguments if isinstance(x, tuple)]


def _extents(layout: Layout) -> list[int]:
    """Batch, sizes and strides of a product, as `MatmulPlan.at` takes them."""
    return [*layout.sizes, *layout.a, *layout.b, *layout.c]


class RowLaw:
    """Steps by the number of rows: `like` those for the most, with other numbers."""

    def __init__(self, given: dict[int, Sample], unit: int = 1) -> None:
        """`given` has the steps for three numbers of rows, multiples of the unit, as
        all that are asked for will be; raises Uneven.
        """
        self.unit, self.counts = unit, tuple(sorted(given))
        made = {n // unit: x for n, x in given.items()}
        low, middle, high = sorted(made)
        self.like = made[high].steps
        for x in made.values():
            if not _alike(x, made[high]):
                raise Uneven
        steps = made[high].linked.program.steps
        planned = [k for k, step in enumerate(steps) if isinstance(step, Product)]
        self.products = [_Product(made, k, low, high) for k in planned]
        # How steps are cut does not change what is done: it stays as it is for the
        # most rows, and so does where things lie in the arena.
        grows = np.ones(len(self.like.numbers), np.int64)
        self.like.records(grows)[:, [FUNCTION, PLACE, GRAIN]] = 0
        grows[-1] = 0
        checked = grows.copy()
        self.like.records(checked)[:, FUNCTION] = 1
        for product in self.products:
            grows[product.own()] = 0
        first, last = made[low].steps.numbers, self.like.numbers
        self.slope = grows * ((last - first) // (high - low))
        self.start = np.where(grows, first - self.slope * low, last)
        for n in (middle, high):
            found, wanted = self.at(n * unit), made[n].steps.numbers
            if (checked * (found - wanted)).any():
                raise Uneven

    def at(self, n: int) -> Numbers:
        """The numbers for n rows; raises Uneven if a product has other steps there."""
        n //= self.unit
        found: Numbers = self.start + self.slope * n
        for product in self.products:
            product.write(found, n)
        return found


def _alike(one: Sample, other: Sample) -> bool:
    """Whether two bodies are the same kernels and products on the same places."""
    a, b = one.linked, other.linked
    x, y = one.steps, other.steps
    steps = a.program.steps, b.program.steps
    if [type(s) for s in steps[0]] != [type(s) for s in steps[1]] or a.spans != b.spans:
        return False
    us, them = x.records(x.numbers), y.records(y.numbers)
    for step, (first, count) in zip(steps[0], a.spans, strict=True):
        own = slice(first, first + count), FUNCTION
        if not isinstance(step, Product) and not np.array_equal(us[own], them[own]):
            return False
    pairs: list[tuple[Any, Any]] = [
        (us[:, PLACE], them[:, PLACE]),
        (x.ends, y.ends),
        (x.slots, y.slots),
        (x.which, y.which),
        (x.placed, y.placed),
        (x.arguments, y.arguments),
        (x.results, y.results),
        (x.copied, y.copied),
    ]
    if not all(np.array_equal(p, q) for p, q in pairs):
        return False
    if not same(a.program.constants, b.program.constants):
        return False
    if not same(tuple(x.arrays), tuple(y.arrays)):
        return False
    return all(s <= t for s, t in zip(a.sizes, b.sizes, strict=True))
