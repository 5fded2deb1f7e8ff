"""`python -m tests.fuzz --count 5000 --seed 0`: a campaign of random graphs."""

from __future__ import annotations

import argparse
import time

from tests.fuzz.graphs import Recipe, compare, draw, shrink, source


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start, failures = time.monotonic(), 0
    for k in range(given.count):
        recipe = draw(given.seed + k)
        optimize, tight = k % 4 != 3, k % 8 == 5
        try:
            found = compare(recipe, optimize=optimize, tight=tight)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            failures += 1
            print(f"seed {given.seed + k}: {found}")

            def fails(
                r: Recipe, optimize: bool = optimize, tight: bool = tight
            ) -> bool:
                try:
                    return bool(compare(r, optimize=optimize, tight=tight))
                except Exception:
                    return True

            print(source(shrink(recipe, fails)), flush=True)
    took = time.monotonic() - start
    which = f"{given.count} graphs from seed {given.seed}"
    print(f"{which}: {failures} differ, {took:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
