"""`python -m tests.runtime.steady --count 1000`: training that compiles but once.

Iterations of lenet with a lookup table beside it, each with a learning rate, labels and
row ids of its own: one program, and nothing compiled after the first iteration.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import treadle as td

PICTURES, BATCH, WORDS, WIDTH, CLASSES = 500, 20, 300, 12, 10


class Network(td.nn.Module):
    """Owl's lazy_mnist network on small pictures, and a row of a table for each."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures = td.nn.Sequential(
            td.nn.Conv2d(1, 8, 5, padding=2),
            td.nn.ReLU(),
            td.nn.MaxPool2d(2),
            td.nn.Dropout(0.1),
            td.nn.Flatten(),
            td.nn.Linear(8 * 49, 64),
            td.nn.ReLU(),
        )
        self.words = td.nn.Embedding(WORDS, WIDTH)
        self.last = td.nn.Linear(64 + WIDTH, CLASSES)

    def forward(self, pictures: td.Tensor, words: td.Tensor) -> td.Tensor:
        found: td.Tensor = self.last(
            td.concat([self.pictures(pictures), self.words(words)], axis=1)
        )
        return found


def campaign(count: int, seed: int) -> list[str]:
    """What is wrong after so many iterations; nothing if they found one program."""
    rng = np.random.default_rng(seed)
    pictures = rng.standard_normal((PICTURES, 1, 14, 14)).astype(np.float32)
    model, optimizer = Network(), td.optim.Adagrad(lr=0.005)
    losses = []
    first = td.cache_info()
    for k in range(count):
        ids = rng.integers(0, PICTURES, BATCH)
        words, labels = rng.integers(0, WORDS, BATCH), rng.integers(0, CLASSES, BATCH)
        optimizer.lr = float(rng.uniform(0.001, 0.01))
        logits = model(td.rows(pictures, ids), td.asarray(words))
        loss = td.nn.functional.cross_entropy(logits, labels)
        losses.append(float(optimizer.step(loss)))
        if k == 0:
            first = td.cache_info()
    after = td.cache_info()
    facts = {
        "programs": (after.programs, first.programs),
        "programs not found": (after.misses, first.misses),
        "kernels compiled": (after.compiled, first.compiled),
        "kernels read from disk": (after.from_disk, first.from_disk),
    }
    wrong = [
        f"{name}: {found}, not {wanted}"
        for name, (found, wanted) in facts.items()
        if found != wanted
    ]
    if after.hits < first.hits + count - 1:
        wrong.append(f"programs found: {after.hits - first.hits} times")
    if not np.isfinite(losses).all() or len(set(losses)) < 0.9 * count:
        wrong.append("losses are not finite, or many are the same")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    start = time.monotonic()
    with td.options(engine="native", seed=given.seed):
        wrong = campaign(given.count, given.seed)
    for line in wrong:
        print(line)
    took = time.monotonic() - start
    print(f"{given.count:,} iterations, {len(wrong)} things wrong, {took:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
