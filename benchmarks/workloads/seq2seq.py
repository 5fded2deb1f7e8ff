"""seq2seq: a GRU encoder, and a decoder with attention written as a loop over words.

200 words of width 32, hidden 64, minibatches of 16 whose two lengths vary between 5 and
20; the decoder's words are given, cross entropy, Adam.
"""

from __future__ import annotations

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

    batch: int = 16
    least: int = 5
    most: int = 20
    words: int = 200
    width: int = 32
    hidden: int = 64


@dataclass(frozen=True)
class Data:
    """Minibatches of two sentences each, and the first weights."""

    batches: list[tuple[Array, Array]]
    weights: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Words at random."""
    rng, n = np.random.default_rng(2), sizes.hidden
    batches = []
    for _ in range(STEPS):
        first, second = rng.integers(sizes.least, sizes.most + 1, 2)
        pair = (rng.integers(0, sizes.words, (sizes.batch, k)) for k in (first, second))
        batches.append((next(pair), next(pair)))
    shapes = {"embed": (sizes.words, sizes.width), "out": (sizes.words, 2 * n)}
    gates = {"encoder": sizes.width, "cell": sizes.width + n}
    for name, width in gates.items():
        shapes |= {f"{name}.ih": (3 * n, width), f"{name}.hh": (3 * n, n)}
    weights = layers(3, shapes)
    del weights["embed.bias"]
    for name, end in (("encoder", "_l0"), ("cell", "")):
        for inner in ("ih", "hh"):
            for kind in ("weight", "bias"):
                own = weights.pop(f"{name}.{inner}.{kind}")
                weights[f"{name}.{kind}_{inner}{end}"] = own
    return Data(batches, weights)


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library."""
    nn, F, n = lib.nn, lib.nn.functional, sizes.hidden

    class Translator(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(sizes.words, sizes.width)
            self.encoder = nn.GRU(sizes.width, n, batch_first=True)
            self.cell = nn.GRUCell(sizes.width + n, n)
            self.out = nn.Linear(2 * n, sizes.words)

        def forward(self, source: Any, target: Any) -> Any:
            memory, last = self.encoder(self.embed(source))
            h, context = last[0], lib.zeros((sizes.batch, n))
            words, scores = self.embed(target), []
            for t in range(target.shape[1] - 1):
                h = self.cell(lib.concat([words[:, t], context], 1), h)
                fits = (memory * h[:, None]).sum(-1)
                shares = F.softmax(fits, -1)
                context = (shares[:, :, None] * memory).sum(1)
                scores.append(self.out(lib.concat([h, context], 1)))
            return lib.stack(scores, 1)

    model = loaded(lib, Translator(), given.weights)
    optimizer = lib.optim.Adam(model.parameters(), lr=RATE)

    def step(k: int) -> Any:
        source, target = arrays(lib, *given.batches[k % STEPS])
        scores = model(source, target).reshape((-1, sizes.words))
        loss = F.cross_entropy(scores, target[:, 1:].reshape(-1))
        return learn(lib, optimizer, loss)

    yield case("step", step)


WORKLOAD = program(
    "seq2seq",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=37, hidden=100),
        "tiny": Sizes(batch=2, least=2, most=3, words=5, width=2, hidden=3),
    },
    data=data,
    steps=STEPS,
    implementations=of_both(cases),
)
