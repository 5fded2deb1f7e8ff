"""element: a value looked at part by part, as those do who are used to arrays.

1,000 elements, 300 rows, and the sums of 1,000 rows, each read by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ordinary import Array, arrays, case, of_both, program
from benchmarks.workload import Cases

__all__ = ["WORKLOAD"]


@dataclass(frozen=True)
class Sizes:
    """How many elements, rows, rows to be summed, and how wide rows are."""

    elements: int = 1000
    rows: int = 300
    sums: int = 1000
    width: int = 20


@dataclass(frozen=True)
class Data:
    """What values are made of."""

    elements: Array
    rows: Array
    sums: Array


def data(sizes: Sizes, part: str) -> Data:
    """Noise."""
    rng = np.random.default_rng(2)
    shapes = sizes.elements, (sizes.rows, sizes.width), (sizes.sums, sizes.width)
    return Data(*(rng.standard_normal(shape, np.float32) for shape in shapes))


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library; each step has a value of its own."""
    elements, rows, sums = arrays(lib, given.elements, given.rows, given.sums)

    def value(x: Any, k: int) -> Any:
        return (lib.asarray(x) if lib.__name__ == "treadle" else x) * (1.0 + 0.01 * k)

    def each_element(k: int) -> float:
        x = value(elements, k)
        return sum(float(x[i]) for i in range(sizes.elements))

    def each_row(k: int) -> float:
        x = value(rows, k)
        return sum(float(x[i].numpy()[0]) for i in range(sizes.rows))

    def each_sum(k: int) -> float:
        x = value(sums, k)
        return sum(float(x[i].sum()) for i in range(sizes.sums))

    yield case("elements", each_element)
    yield case("rows", each_row)
    yield case("sums of rows", each_sum)


WORKLOAD = program(
    "element",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(700, 200, 500, 37),
        "tiny": Sizes(4, 3, 2, 2),
    },
    data=data,
    steps=8,
    implementations=of_both(cases),
)
