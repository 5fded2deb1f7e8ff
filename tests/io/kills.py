"""`python -m tests.io.kills --count 1000`: processes killed while they save.

After each kill every file is whole: the one before or a newer one. Kills come after a
random time, so that they fall anywhere between and within the calls of a save.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

import treadle as td
from treadle.io.files import write_atomically

ENDINGS = (".npz", ".safetensors", ".bin", ".dynet", ".serrano")


def save_on(folder: Path, step: int) -> None:
    """Save one state after another, until the end."""
    while True:
        step += 1
        for ending in ENDINGS:
            w = np.full(20_000, step, np.float32)
            td.save(folder / f"m{ending}", {"w": w, "b": w[:7]})


def torn(folder: Path, before: dict[str, int]) -> str:
    """What is wrong with the files; notes in `before` how far they are."""
    for ending in ENDINGS:
        path = folder / f"m{ending}"
        if not path.exists():
            if ending in before:
                return f"{path.name} is gone"
            continue
        arrays = td.load(path)
        steps = {*arrays["w"].tolist(), *arrays["b"].tolist()}
        if len(steps) != 1 or min(steps) < before.get(ending, 0):
            return f"{path.name} holds {sorted(steps)[:3]} after {before}"
        before[ending] = int(min(steps))
    return ""


def campaign(count: int, seed: int, folder: Path) -> int:
    """How many kills of so many left something torn."""
    rng, before, failures = random.Random(seed), dict[str, int](), 0
    for kill in range(count):
        child = os.fork()
        if child == 0:
            try:
                save_on(folder, max(before.values(), default=0))
            finally:
                os._exit(1)
        time.sleep(rng.random() * 0.03)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        found = torn(folder, before)
        if os.WTERMSIG(status) != signal.SIGKILL:
            found = f"the child ended by itself: {status}"
        if found:
            failures += 1
            print(f"kill {kill} of seed {seed}: {found}", flush=True)
    for ending in ENDINGS:
        write_atomically(folder / f"m{ending}", b"")
    left = [p.name for p in folder.iterdir() if ".tmp-" in p.name]
    if left:
        print(f"temporary files are left: {left[:5]}")
    last = max(before.values(), default=0)
    print(f"{count} kills from seed {seed}, {failures} torn, {last} states were saved")
    return failures + bool(left)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return 1 if campaign(given.count, given.seed, Path(folder)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
