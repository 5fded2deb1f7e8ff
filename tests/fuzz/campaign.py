"""The command line of a campaign: numbers one after the other, and what differs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

__all__ = ["campaign"]


def campaign(
    differing: Callable[[int], str], count: int, done: object = "numbers"
) -> int:
    """Go through `--count` numbers from `--seed` on; 1 if anything differs or raises.

    `differing` has what differs for a number; `done` is told at the end, with all that
    has been counted until then.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=count)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start, failures = time.monotonic(), 0
    for number in range(given.seed, given.seed + given.count):
        try:
            found = differing(number)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            failures += 1
            print(f"number {number}: {found}", flush=True)
    took = time.monotonic() - start
    which = f"{given.count} from {given.seed}, {done}"
    print(f"{which}: {failures} differ, {took:.0f} s")
    return 1 if failures else 0
