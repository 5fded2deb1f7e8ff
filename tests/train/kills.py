"""`python -m tests.train.kills --count 20`: trainings killed, and gone on with.

A training writes a snapshot after each step. It is killed at random times, from its
first import to its last step, and started again until it is done: then its weights, its
optimizer and its log have the bits of one that was never stopped. Trainings follow one
another until so many kills were made.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import treadle as td
from tests.train.test_callbacks import fitted, model

DONE = "done.npz"
LIMIT = 300  # seconds that a process may take


def train(folder: Path) -> None:
    """Go on with the training of a folder, or begin it, to its end."""
    with td.options(seed=7):
        made = model()
        fitted(made, folder, 1)
    state = {"model": made.module, "optimizer": made.optimizer}
    td.save(folder / DONE, state)


def started(folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", __spec__.name, "--into", folder])


def differences(whole: Path, folder: Path) -> list[str]:
    """What of a training that was killed is not as in one that was not."""
    a, b = td.load(whole / DONE), td.load(folder / DONE)
    found = sorted(set(a) ^ set(b))
    found += [k for k in a if k in b and a[k].tobytes() != b[k].tobytes()]
    logs = [f.with_suffix(".csv").read_text() for f in (whole, folder)]
    return found + ["the log"] * (logs[0] != logs[1])


def campaign(count: int, seed: int, place: Path) -> int:
    """How many trainings, of so many kills in all, ended with other bits."""
    rng, kills, trainings, failures = random.Random(seed), 0, 0, 0
    begin = time.monotonic()
    if started(place / "whole").wait(LIMIT):
        raise SystemExit("the training that is not killed fails")
    usual = time.monotonic() - begin
    while kills < count:
        folder = place / f"killed-{trainings}"
        while not (folder / DONE).exists():
            process = started(folder)
            if kills < count:
                try:
                    process.wait(rng.random() * usual)
                except subprocess.TimeoutExpired:
                    process.send_signal(signal.SIGKILL)
            status = process.wait(LIMIT)
            kills += status == -signal.SIGKILL
            if status not in (0, -signal.SIGKILL):
                print(f"kill {kills} of seed {seed}: the next run ends with {status}")
                return failures + 1
        found = differences(place / "whole", folder)
        if found:
            failures += 1
            print(f"training {trainings} of seed {seed} differs: {found[:5]}")
        trainings += 1
    print(f"{kills} kills from seed {seed} in {trainings} trainings, {failures} differ")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--into", type=Path)
    given = parser.parse_args()
    if given.into is not None:
        train(given.into)
        return 0
    with tempfile.TemporaryDirectory() as place:
        return 1 if campaign(given.count, given.seed, Path(place)) else 0


if __name__ == "__main__":
    raise SystemExit(main())
