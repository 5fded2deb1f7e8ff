"""Random graphs of any extents, in memory that protects each buffer.

`python -m tests.fuzz.extents --count 20000 --seed 0`: extents are 0, 1, 2, primes,
powers of two and their neighbors, and 300 to 5000. Values and gradients of the native
engine, in guard and in poison mode, are held against the reference's. Graphs run in
children, a slice each: one that dies is counted, and the next goes on after it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator

from tests.fuzz.graphs import ANY, Recipe, compare, draw, shrink, source

__all__ = ["differing"]

SLICE = 200  # graphs of a child
ROWS = 16  # of a recipe at most
AT = "at "  # begins the line that tells which graph comes


def _compared(number: int, recipe: Recipe) -> str:
    tight = number % 16 == 5
    arenas = ("guard", "poison")
    try:
        return compare(recipe, optimize=number % 4 != 3, tight=tight, arenas=arenas)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def differing(number: int) -> str:
    """What differs for the graph of a number, and the least recipe that differs."""
    recipe = draw(number, ROWS, ANY)
    found = _compared(number, recipe)
    if not found:
        return ""
    least = shrink(recipe, lambda own: bool(_compared(number, own)))
    return f"{found}\n{source(least)}"


def _told(first: int, count: int) -> Iterator[str]:
    """The lines of a child that runs so many graphs, and one where it dies."""
    given = "--slice", "0", "--seed", str(first), "--count", str(count)
    command = [sys.executable, "-m", "tests.fuzz.extents", *given]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        yield from map(str.rstrip, child.stdout)
    if child.returncode < 0:
        yield f"died of signal {-child.returncode}"


def _in_children(first: int, count: int, size: int) -> int:
    """Run all graphs; how many differ or die."""
    at, stop, wrong, done = first, first + count, 0, 0
    while at < stop:
        died = False
        for line in _told(at, min(size, stop - at)):
            if line.startswith(AT):
                at, done = int(line.removeprefix(AT)) + 1, done + 1
                continue
            died = line.startswith("died")
            wrong += died or line.startswith("number ")
            print(f"number {at - 1}: {line}" if died else line, flush=True)
            if died:
                print(source(draw(at - 1, ROWS, ANY)), flush=True)
        print(f"{done} graphs from seed {first}: {wrong} differ or die", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slice", type=int, default=SLICE)
    given = parser.parse_args()
    start = time.monotonic()
    if given.slice:
        wrong = _in_children(given.seed, given.count, given.slice)
        print(f"{time.monotonic() - start:.0f} s")
        return 1 if wrong else 0
    for number in range(given.seed, given.seed + given.count):
        print(f"{AT}{number}", flush=True)
        found = differing(number)
        if found:
            print(f"number {number}: {found}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
