"""Steps for any number of rows, from those for three numbers.

Extents are arguments of kernels: two programs for different numbers of rows differ in
integers alone. Those of loops grow evenly with the rows, which the third number checks;
products cut their work by rules of their own, and are planned for the rows there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np

from treadle.engines.native.code import Code, coded
from treadle.engines.native.forest.compiled import Compiled, Sample
from treadle.engines.native.jit import compile_functions
from treadle.program.contract import Layout
from treadle.program.even import Uneven, fit, same
from treadle.program.program import Product

__all__ = ["Law"]

PLACE, TOTAL = 1, 2  # fields of a record


class _Product:
    """A step whose numbers are planned anew, and where these stand."""

    def __init__(self, made: dict[int, Sample], k: int, low: int, high: int) -> None:
        """`made` by numbers as `Law` counts them."""
        steps = {n: x.linked.program.steps[k] for n, x in made.items()}
        self.step = fit(steps[low], steps[high], low, high)
        for n, step in steps.items():
            if not same(self.step(n), step):
                raise Uneven
        like = made[high]
        self.like = like.steps
        self.codes = like.linked.codes[k]
        self.others: dict[frozenset[str], Mapping[str, int]] = {}
        self.first = like.linked.spans[k][0]
        slot = {place: k for k, place in enumerate(like.steps.slots.tolist())}
        places = like.steps.records[self.first :, PLACE].tolist()
        # Of each code: where its arguments begin, and which slots are among them.
        self.places: list[tuple[int, list[int]]] = [
            (
                place,
                [
                    slot[place + i]
                    for i, x in enumerate(code.arguments)
                    if type(x) is tuple
                ],
            )
            for place, code in zip(places, self.codes, strict=False)
        ]

    def _functions(self, code: Code) -> Mapping[str, int]:
        """The addresses of what a code calls, asked for once: a name tells a text."""
        key = frozenset(code.texts)
        found = self.others.get(key)
        if found is None:
            found = self.others[key] = compile_functions(code.texts)
        return found

    def write(self, made: Compiled, n: int) -> None:
        """Put what this step is for a number, as `Law` counts, into its places."""
        step = self.step(n)
        if not self._resized(made, step):
            self._anew(made, step)

    def _resized(self, made: Compiled, step: Product) -> bool:
        """Put other numbers into the code there is, if that serves the step."""
        code, layout = self.codes[0], step.layout
        if code.plan is None or not isinstance(layout, Layout):
            return False
        batch, m, n, k = layout.sizes
        own = code.plan.at(batch, (m, n, k), layout.a, layout.b, layout.c)
        if own is None:
            return False
        made.scratch = max(made.scratch, own.scratch)
        made.records[self.first, TOTAL:] = own.total, max(own.grain, 1)
        first = self.places[0][0]
        place = first + code.planned
        made.table[first:place] = self.like.table[first:place]
        last = step.finish.integers if step.finish else ()
        integers = (*own.arguments, *last)
        made.table[place : place + len(integers)] = integers
        return True

    def _anew(self, made: Compiled, step: Product) -> None:
        """Put in whatever code the step has."""
        codes = coded(step)
        if len(codes) != len(self.codes):
            raise Uneven
        for k, (code, like) in enumerate(zip(codes, self.codes, strict=True)):
            if code.workspace > like.workspace:
                raise Uneven
            made.scratch = max(made.scratch, code.scratch)
            functions: Mapping[str, int] = made.functions
            if code.texts.keys() != like.texts.keys():
                functions = self._functions(code)
                made.alive.append(functions)
            place, slots = self.places[k]
            own = functions[code.name], place, code.total, max(code.grain, 1)
            made.records[self.first + k] = own
            # What goes into slots is written over when addresses are known.
            made.table[place : place + len(code.arguments)] = [
                functions[x] if type(x) is str else 0 if type(x) is tuple else x
                for x in code.arguments
            ]
            made.shifts[slots] = [x[1] for x in code.arguments if isinstance(x, tuple)]


class Law:
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
        self.start, self.slope = _line(
            _numbers(made[low].steps), _numbers(self.like), low, high
        )
        for n in (middle, high):
            if not np.array_equal(_numbers(self.at(n * unit)), _numbers(made[n].steps)):
                raise Uneven

    def at(self, n: int) -> Compiled:
        """The steps for n rows; raises Uneven if a product needs other code for it."""
        like, n = self.like, n // self.unit
        made = copy(like)
        made.alive = list(like.alive)
        values = self.start + self.slope * n
        count, size = len(like.records), len(like.table)
        made.records = like.records.copy()
        made.records[:, TOTAL] = values[count : 2 * count]
        made.table = values[2 * count : 2 * count + size]
        made.shifts = values[2 * count + size :]
        for product in self.products:
            product.write(made, n)
        return made


def _numbers(x: Compiled) -> np.ndarray[Any, np.dtype[np.int64]]:
    """All that may grow with the rows. How steps are cut does not change what is done:
    it stays as it is for the most rows, and so does where things lie in the arena.
    """
    return np.concatenate([x.records[:, 0], x.records[:, TOTAL], x.table, x.shifts])


def _line(x: Any, y: Any, low: int, high: int) -> tuple[Any, Any]:
    """Where the numbers start and what a row adds; those of products do not count."""
    slope = (y - x) // (high - low)
    return x - slope * low, slope


def _alike(one: Sample, other: Sample) -> bool:
    """Whether two bodies are the same kernels and products on the same places."""
    a, b = one.linked, other.linked
    x, y = one.steps, other.steps
    steps = a.program.steps, b.program.steps
    if [type(s) for s in steps[0]] != [type(s) for s in steps[1]] or a.spans != b.spans:
        return False
    for step, (first, count) in zip(steps[0], a.spans, strict=True):
        functions = x.records[first : first + count, 0]
        others = y.records[first : first + count, 0]
        if not isinstance(step, Product) and not np.array_equal(functions, others):
            return False
    pairs: list[tuple[Any, Any]] = [
        (x.records[:, 1], y.records[:, 1]),
        (x.slots, y.slots),
        (x.which, y.which),
        (x.placed, y.placed),
        (x.arguments, y.arguments),
        (x.results, y.results),
        (x.copied, y.copied),
    ]
    if len(x.table) != len(y.table) or not all(np.array_equal(p, q) for p, q in pairs):
        return False
    if not same(a.program.constants, b.program.constants):
        return False
    if not same(tuple(x.arrays), tuple(y.arrays)):
        return False
    return all(s <= t for s, t in zip(a.sizes, b.sizes, strict=True))
