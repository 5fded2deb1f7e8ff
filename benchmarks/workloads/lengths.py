"""lengths: sentences of unequal length through an LSTM, no minibatch like another.

500 words of width 32, nn.LSTM of width 64, two classes by the last state, minibatches
of 32 of lengths 5 to 60, Adam: padded with their lengths (packed in torch), and as a
list of sequences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ordinary import (
    Array,
    arrays,
    case,
    layers,
    learn,
    loaded,
    of_both,
    program,
)
from benchmarks.workload import Cases

__all__ = ["WORKLOAD"]

RATE, STEPS = 1e-3, 80


@dataclass(frozen=True)
class Sizes:
    """Extents of the network, of a batch and of its sentences."""

    batch: int = 32
    least: int = 5
    most: int = 60
    words: int = 500
    width: int = 32
    hidden: int = 64


@dataclass(frozen=True)
class Data:
    """Minibatches of sentences with labels, and the first weights."""

    batches: list[tuple[list[Array], Array]]
    weights: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Words at random; the label is whether the first is of the first half."""
    rng, n = np.random.default_rng(2), sizes.hidden
    batches = []
    for _ in range(STEPS):
        lengths = rng.integers(sizes.least, sizes.most + 1, sizes.batch)
        found = [rng.integers(0, sizes.words, k) for k in lengths]
        batches.append((found, np.array([2 * x[0] // sizes.words for x in found])))
    shapes = {"embed": (sizes.words, sizes.width), "out": (2, n)}
    shapes |= {"ih": (4 * n, sizes.width), "hh": (4 * n, n)}
    weights = layers(3, shapes)
    del weights["embed.bias"]
    for name in ("ih", "hh"):
        for part_of in ("weight", "bias"):
            weights[f"lstm.{part_of}_{name}_l0"] = weights.pop(f"{name}.{part_of}")
    return Data(batches, weights)


def padded(sentences: list[Array]) -> tuple[Array, Array]:
    """One array with 0 behind the ends, and the lengths."""
    lengths = np.array([len(x) for x in sentences])
    found = np.zeros((len(sentences), lengths.max()), np.int64)
    for row, x in zip(found, sentences, strict=True):
        row[: len(x)] = x
    return found, lengths


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library, in both forms."""
    nn, F = lib.nn, lib.nn.functional

    class Classifier(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(sizes.words, sizes.width)
            self.lstm = nn.LSTM(sizes.width, sizes.hidden, batch_first=True)
            self.out = nn.Linear(sizes.hidden, 2)

        def padded(self, sentences: list[Array]) -> Any:
            ids, lengths = arrays(lib, *padded(sentences))
            x = self.embed(ids)
            if lib.__name__ == "torch":
                pack = nn.utils.rnn.pack_padded_sequence
                _, (h, _) = self.lstm(pack(x, lengths, True, False))
            else:
                _, (h, _) = self.lstm(x, lengths=lengths)
            return self.out(h[-1])

        def listed(self, sentences: list[Array]) -> Any:
            xs = [self.embed(x) for x in arrays(lib, *sentences)]
            if lib.__name__ == "torch":
                xs = nn.utils.rnn.pack_sequence(xs, enforce_sorted=False)
            _, (h, _) = self.lstm(xs)
            return self.out(h[-1])

    def made(form: str) -> Callable[[int], Any]:
        model = loaded(lib, Classifier(), given.weights)
        optimizer = lib.optim.Adam(model.parameters(), lr=RATE)
        scores = getattr(model, form)

        def step(k: int) -> Any:
            sentences, labels = given.batches[k % STEPS]
            (wanted,) = arrays(lib, labels)
            return learn(lib, optimizer, F.cross_entropy(scores(sentences), wanted))

        return step

    yield case("padded, with lengths", made("padded"))
    yield case("a list of sequences", made("listed"))


WORKLOAD = program(
    "lengths",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=37, hidden=100),
        "tiny": Sizes(batch=3, least=1, most=3, words=9, width=2, hidden=3),
    },
    data=data,
    steps=STEPS,
    implementations=of_both(cases),
)
