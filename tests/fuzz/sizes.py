"""Recipes for other sizes: graphs that differ in one extent, run one after another.

`python -m tests.fuzz.sizes --count 1000 --seed 0`: what a program made by a law gives
is compared, bit for bit, with what one gives that was compiled for its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td
from tests.fuzz.campaign import campaign
from tests.fuzz.graphs import Recipe, Row, Shape, apply, compare, draw, results
from treadle.engines.base import engine

__all__ = ["Outcome", "differing", "resized"]

BASE = (5, 7, 16, 33)  # extents that are changed
SIZES = (61, 37, 44, 52, 38, 59, 90, 75, 33, 35)  # within those before, and beyond


class Unsized(Exception):
    """A recipe that is none for another size."""


def resized(recipe: Recipe, old: int, new: int) -> Recipe:
    """The recipe with an extent of its inputs, and all that follows, changed."""
    rows: list[Row] = []
    before: list[Shape] = []
    after: list[Shape] = []
    for row in recipe.rows:
        attribute = row.attribute
        if row.op == "input":
            attribute = tuple(new if n == old else n for n in row.attribute)
            before.append(row.attribute)
            after.append(attribute)
        else:
            k = row.inputs[0]
            if row.op in ("reshape", "broadcast_to"):
                attribute = _shape(row.op, attribute, before[k], after[k])
            elif row.op == "slice":
                ends = zip(attribute, before[k], after[k], strict=True)
                attribute = tuple(
                    (a, n if b == m else b, c) for (a, b, c), m, n in ends
                )
            before.append(_result(row, row.attribute, before))
            after.append(_result(row, attribute, after))
        rows.append(Row(row.op, row.inputs, attribute))
    return Recipe(tuple(rows), recipe.seed)


def _shape(op: str, wanted: Shape, old: Shape, new: Shape) -> Shape:
    if op == "broadcast_to":
        return (wanted[0], *new)

    def options(shape: Shape) -> list[Shape]:
        found = [(int(np.prod(shape)),), (1, *shape), (*shape, 1)]
        if len(shape) > 1:
            found.append((shape[0] * shape[1], *shape[2:]))
        return found

    return options(new)[options(old).index(wanted)]


def _result(row: Row, attribute: Any, shapes: Sequence[Shape]) -> Shape:
    xs = [td.zeros(shapes[k]) for k in row.inputs]
    try:
        return tuple(apply(Row(row.op, row.inputs, attribute), xs).shape)
    except td.TreadleError as error:
        raise Unsized from error


@dataclass
class Outcome:
    """How many sizes were run, by how many programs that were not compiled."""

    sizes: int = 0
    laws: int = 0


def differing(seed: int, outcome: Outcome) -> str:
    """What differs for a recipe at several sizes; nothing where all is well."""
    gradient, every = bool(seed % 3), bool(seed % 5 == 0)
    recipe = draw(seed, 16)
    old = next(
        (n for r in recipe.rows if r.op == "input" for n in r.attribute if n in BASE), 0
    )
    if not old:
        return ""
    try:
        recipes = [resized(recipe, old, n) for n in SIZES]
    except Unsized:
        return ""
    native: Any = engine("native")
    compiled = native._compile
    count = [0]

    def counted(*given: Any) -> Any:
        count[0] += 1
        return compiled(*given)

    td.clear_cache()
    native._compile = counted
    found = []
    try:
        for one in recipes:
            before = td.cache_info().misses, count[0]
            found.append(results(one, "float32", gradient, every)[0])
            outcome.sizes += td.cache_info().misses - before[0]
            outcome.laws += count[0] == before[1]
    finally:
        del native._compile
    for one, size, got in zip(recipes, SIZES, found, strict=False):
        td.clear_cache()
        wanted = results(one, "float32", gradient, every)[0]
        for k, (x, y) in enumerate(zip(got, wanted, strict=True)):
            if x.shape != y.shape or x.tobytes() != y.tobytes():
                off = float(np.abs(x - y).max()) if x.shape == y.shape else -1.0
                return f"size {size}, result {k} differs by {off:.3g}: {compare(one)}"
    return ""


def main() -> int:
    outcome = Outcome()

    def one(seed: int) -> str:
        with td.options(engine="native", arena="poison" if seed % 2 else "fast"):
            return differing(seed, outcome)

    return campaign(one, 1000, outcome)


if __name__ == "__main__":
    raise SystemExit(main())
