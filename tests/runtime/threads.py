"""Threads that train, read, save, assign and fail at once, for as long as is asked.

    python -m tests.runtime.threads --seconds 60 --seed 0

Every parameter of a net is one number all over, which each step makes one more: what is
read is whole if it is one number, a version that existed if that is whole and no less
than what the same thread has read before, and never changes if its copy stays equal.
"""

from __future__ import annotations

import argparse
import io
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest import mock

import numpy as np

import treadle as td
from treadle.engines.native.execution import linked

SIZES = (3, 5_000, 120_000)


@contextmanager
def in_python() -> Iterator[None]:
    """No program is run by the core at once: there are lines of Python between."""
    td.clear_cache()
    with mock.patch.object(linked, "small", lambda _: None):
        yield
    td.clear_cache()


class Net(td.nn.Module):
    """Parameters of several sizes, and a count that threads share with a lock."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = [td.param(f"p{n}", init=np.zeros(n, np.float32)) for n in SIZES]
        self.small, self.middle, self.large = self.parts
        self.norm = td.nn.BatchNorm1d(4)

    def loss(self) -> Any:
        return -sum(td.sum(p) for p in self.parts)


class Campaign:
    """Eight threads around one net, and what they have found wrong."""

    def __init__(self, seconds: float, seed: int) -> None:
        self.end = time.monotonic() + seconds
        self.seed = seed
        self.net, self.steps = Net(), 0
        self.count, self.counted = td.Variable(0.0), 0
        self.lock = threading.Lock()
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.held: list[tuple[Any, Any]] = []

    def run(self) -> list[str]:
        """What has been found wrong, of odd seeds where nothing is done at once."""
        with in_python() if self.seed % 2 else nullcontext():
            return self._run()

    def _run(self) -> list[str]:
        jobs = [self.train, self.train_another, self.read, self.save, self.evaluate]
        jobs += [self.assign, self.assign, self.fail]
        threads = []
        for k, job in enumerate(jobs):
            draws = random.Random(f"{self.seed} {k}")
            threads.append(threading.Thread(target=self.repeat, args=(job, draws)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.net.state_dict()  # carries out what they have assigned last
        self.look()
        for p in self.net.parts:
            if not (p.numpy() == self.steps).all():
                self.wrong.append(f"lost: {p.numpy()[0]} after {self.steps} steps")
        if float(self.count) != self.counted:
            self.wrong.append(f"lost: {float(self.count)} of {self.counted} counts")
        return self.wrong

    def repeat(self, job: Callable[[random.Random, dict[str, Any]], None],
               draws: random.Random) -> None:  # fmt: skip
        known: dict[str, Any] = {}
        while time.monotonic() < self.end:
            try:
                job(draws, known)
            except BaseException as error:  # a failure of any kind is one
                self.wrong.append(f"{job.__name__}: {error!r}"[:300])
                return
            self.done[job.__name__] += 1

    # -- what threads do -------------------------------------------------------------

    def train(self, draws: random.Random, known: dict[str, Any]) -> None:
        if "opt" not in known or draws.random() < 0.002:
            known["opt"] = td.optim.SGD(self.net.parts, lr=1.0)
        loss = known["opt"].step(self.net.loss())
        self.steps += 1
        if draws.random() < 0.1:
            float(loss)

    def train_another(self, draws: random.Random, known: dict[str, Any]) -> None:
        if not known:
            known["w"] = td.param("w", init=np.ones((16, 16), np.float32))
            known["opt"] = td.optim.Adam([known["w"]], lr=0.01)
        x = td.asarray(np.ones((draws.choice([1, 2, 8]), 16), np.float32))
        known["opt"].step(td.mean((x @ known["w"]) ** 2))

    def read(self, draws: random.Random, known: dict[str, Any]) -> None:
        k = draws.randrange(len(SIZES))
        p = self.net.parts[k]
        x = draws.choice([p.numpy, lambda: (p * 1.0).numpy(), lambda: p.numpy()[1:]])()
        self.take(known, str(k), [x])

    def save(self, draws: random.Random, known: dict[str, Any]) -> None:
        file = io.BytesIO()
        td.save(file, {f"{k}": p for k, p in enumerate(self.net.parts)}, format="npz")
        self.take(known, "all", list(td.load(file.getvalue()).values()))

    def evaluate(self, draws: random.Random, known: dict[str, Any]) -> None:
        found = self.net.state_dict()
        norm = [name for name in found if "norm" in name]
        arrays = [x for name, x in found.items() if name not in norm]
        self.take(known, "all", arrays)
        self.take(known, "all", list(td.evaluate(*self.net.parts)))

    def assign(self, draws: random.Random, known: dict[str, Any]) -> None:
        with self.lock:
            self.count += 1.0
            self.counted += 1
            if draws.random() < 0.5 and float(self.count) != self.counted:
                self.wrong.append("lost: a count")
        if draws.random() < 0.2:
            self.net.norm(td.asarray(np.ones((3, 4), np.float32)))

    def fail(self, draws: random.Random, known: dict[str, Any]) -> None:
        ids = td.asarray(np.array([draws.choice([0, 10_000_000])]))
        try:
            td.gather(self.net.large, ids).numpy()
        except td.TreadleError:
            self.done["failed"] += 1
        try:
            with td.transaction():
                self.net.norm.running_mean.assign(np.ones(4, np.float32))
                raise KeyError
        except KeyError:
            time.sleep(0.001)

    # -- what is right ---------------------------------------------------------------

    def take(self, known: dict[str, Any], name: str, arrays: list[Any]) -> None:
        """Look at what was read, and keep some of it."""
        values = {float(v) for x in arrays for v in np.unique(x)}
        if len(values) > 1:
            self.wrong.append(
                f"torn: {sorted(values)[:4]} of {[x.shape for x in arrays]}"
            )
        elif values and min(values) < known.get(name, 0.0):
            self.wrong.append(f"older: {values} after {known[name]}")
        known[name] = min(values, default=0.0)
        self.held += [(x, np.array(x)) for x in arrays]
        if len(self.held) > 200:
            self.look()

    def look(self) -> None:
        """Whether what is held is what it was."""
        held, self.held = self.held, []
        for x, copied in held:
            if not np.array_equal(x, copied):
                self.wrong.append(f"changed: {copied.flat[0]} is {x.flat[0]} now")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    campaign = Campaign(given.seconds, given.seed)
    wrong = campaign.run()
    version = sys.version.split()[0]
    print(version, dict(campaign.done), f"seed {given.seed}", f"{len(wrong)} wrong")
    print(*wrong[:20], sep="\n")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
