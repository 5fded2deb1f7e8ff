"""`python -m tests.rewrite --count 200000 --seed 0`: so many applications of rules."""

from __future__ import annotations

import argparse
import time

from tests.rewrite.campaign import Campaign


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start, failures, seed = time.monotonic(), 0, given.seed
    campaign = Campaign()
    while campaign.applied.total() < given.count:
        try:
            found = campaign.one(seed)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            failures += 1
            print(f"seed {seed}: {found}", flush=True)
        seed += 1
    took = time.monotonic() - start
    print(
        f"{campaign.applied.total():,} applications in {campaign.graphs:,} graphs from "
        f"seed {given.seed}: {campaign.exact:,} checked exactly, {campaign.floats:,} "
        f"in float64, {campaign.unchecked:,} not finite; {failures} differ, "
        f"{took:.0f} s"
    )
    silent = [r.name for r in campaign.rules if not campaign.applied[r.name]]
    rare = campaign.applied.most_common()[:-6:-1]
    print("rarest:", ", ".join(f"{name} {n}" for name, n in rare))
    print("never fired:", ", ".join(silent) or "none")
    return 1 if failures or silent else 0


if __name__ == "__main__":
    raise SystemExit(main())
