"""Recipes for other sizes: graphs that differ in some extents, run one after another.

`python -m tests.fuzz.sizes --count 2000 --seed 0`: what a program gives that was
compiled for many sizes is compared, bit for bit, with what one gives that was compiled
for the size alone. Several extents change at a time, each by itself.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

import treadle as td
from tests.fuzz.campaign import campaign
from tests.fuzz.graphs import Recipe, Row, Shape, apply, compare, draw, results
from treadle.engines.base import engine

__all__ = ["Outcome", "differing", "resized"]

BASE = (5, 7, 16, 33)  # extents that are changed
SIZES = 20  # of a recipe
AMONG = (2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 37, 44, 61, 64, 75, 90, 127, 130, 257)


MOST = 1 << 25  # elements of a value


class Unsized(Exception):
    """A recipe that is none for another size."""


def resized(recipe: Recipe, new: Mapping[int, int]) -> Recipe:
    """The recipe with extents of its inputs, and all that follows, changed."""
    rows: list[Row] = []
    before: list[Shape] = []
    after: list[Shape] = []
    for row in recipe.rows:
        attribute = row.attribute
        if row.op == "input":
            attribute = tuple(new.get(n, n) for n in row.attribute)
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
        if math.prod(after[-1]) > MOST:
            raise Unsized
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
    served: int = 0


def differing(seed: int, outcome: Outcome) -> str:
    """What differs for a recipe at several sizes; nothing where all is well."""
    gradient, every = bool(seed % 3), bool(seed % 5 == 0)
    recipe = draw(seed, 16)
    inputs = [r.attribute for r in recipe.rows if r.op == "input"]
    olds = sorted({n for own in inputs for n in own if n in BASE})
    if not olds:
        return ""
    rng = np.random.default_rng(seed)
    recipes: list[Recipe] = []
    sizes: list[dict[int, int]] = []
    for _ in range(4 * SIZES):
        own = {old: int(rng.choice(AMONG)) for old in olds}
        with suppress(Unsized):
            recipes.append(resized(recipe, own))
            sizes.append(own)
        if len(recipes) == SIZES:
            break
    td.clear_cache()
    found = _swept(recipes, gradient, every, outcome)
    td.clear_cache()  # what comes now is read from disk, in another order
    read = _swept(recipes[::-1], gradient, every, Outcome())[::-1]
    for one, size, *both in zip(recipes, sizes, found, read, strict=True):
        if any(x is None for x in both):
            continue
        td.clear_cache()
        with machine_code_alone():
            wanted = results(one, "float32", gradient, every)[0]
        for how, got in zip(("", " as it is read"), both, strict=True):
            for k, (x, y) in enumerate(zip(got, wanted, strict=True)):
                if x.shape != y.shape or x.tobytes() != y.tobytes():
                    off = float(np.abs(x - y).max()) if x.shape == y.shape else -1.0
                    where = f"size {size}, result {k}{how}"
                    return f"{where} differs by {off:.3g}: {compare(one)}"
    return ""


def _swept(
    recipes: Sequence[Recipe], gradient: bool, every: bool, outcome: Outcome
) -> list[Any]:
    """The results of each; None where a position is none of its size."""
    native: Any = engine("native")
    compiled = native._translated
    count = [0]

    def counted(*given: Any) -> Any:
        count[0] += 1
        return compiled(*given)

    native._translated = counted
    found: list[Any] = []
    try:
        for one in recipes:
            before = td.cache_info().misses, count[0]
            try:
                found.append(results(one, "float32", gradient, every)[0])
            except td.TreadleError:  # a position is none of this size
                found.append(None)
            outcome.sizes += td.cache_info().misses - before[0]
            outcome.served += count[0] == before[1]
    finally:
        del native._translated
    return found


@contextmanager
def machine_code_alone() -> Iterator[None]:
    """No programs from disk: they are compiled anew."""
    before = os.environ.get("TREADLE_CACHE", "1")
    os.environ["TREADLE_CACHE"] = "code"
    try:
        yield
    finally:
        os.environ["TREADLE_CACHE"] = before


def main() -> int:
    outcome = Outcome()

    def one(seed: int) -> str:
        with td.options(engine="native", arena="poison" if seed % 2 else "fast"):
            return differing(seed, outcome)

    return campaign(one, 1000, outcome)


if __name__ == "__main__":
    raise SystemExit(main())
