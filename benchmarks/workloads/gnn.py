"""gnn: a graph network on batches of small graphs, none like another.

Two layers of messages summed over edges, width 64, 32 graphs of 5 to 30 nodes as one
with as many parts, a number of each graph by the sum of its nodes, Adam.
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

RATE, STEPS = 1e-3, 120


@dataclass(frozen=True)
class Sizes:
    """Extents of the network, of a batch and of its graphs."""

    graphs: int = 32
    least: int = 5
    most: int = 30
    features: int = 16
    hidden: int = 64


@dataclass(frozen=True)
class Data:
    """Batches (features, where edges begin and end, graphs of nodes, targets), and the
    first weights."""

    batches: list[tuple[Array, ...]]
    weights: dict[str, Array]


def _batch(rng: np.random.Generator, sizes: Sizes) -> tuple[Array, ...]:
    """Graphs of about two edges a node, numbered through."""
    counts = rng.integers(sizes.least, sizes.most + 1, sizes.graphs)
    first = np.cumsum(counts) - counts
    ends = [
        rng.integers(0, n, (2, 2 * n)) + at for n, at in zip(counts, first, strict=True)
    ]
    start, end = np.concatenate(ends, 1)
    features = rng.standard_normal((counts.sum(), sizes.features), np.float32)
    graphs = np.repeat(np.arange(sizes.graphs), counts)
    return features, start, end, graphs, rng.standard_normal(sizes.graphs, np.float32)


def data(sizes: Sizes, part: str) -> Data:
    """Graphs at random."""
    rng, n = np.random.default_rng(2), sizes.hidden
    shapes = {"out": (1, n)}
    for name, width in (("0", sizes.features), ("1", n)):
        shapes |= {f"messages.{name}": (n, width), f"own.{name}": (n, width)}
    return Data([_batch(rng, sizes) for _ in range(STEPS)], layers(3, shapes))


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library."""
    nn, F, n = lib.nn, lib.nn.functional, sizes.hidden

    def summed(x: Any, places: Any, count: int) -> Any:
        zeros = lib.zeros((count, n))
        if lib.__name__ == "torch":
            return zeros.index_add(0, places, x)
        return lib.scatter_add(zeros, places, x)

    class Network(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            widths = sizes.features, n
            self.messages = nn.ModuleList([nn.Linear(k, n) for k in widths])
            self.own = nn.ModuleList([nn.Linear(k, n) for k in widths])
            self.out = nn.Linear(n, 1)

        def forward(self, h: Any, start: Any, end: Any, graphs: Any) -> Any:
            for message, own in zip(self.messages, self.own, strict=True):
                sums = summed(message(h)[start], end, len(h))
                h = F.relu(own(h) + sums)
            return self.out(summed(h, graphs, sizes.graphs))[:, 0]

    model = loaded(lib, Network(), given.weights)
    optimizer = lib.optim.Adam(model.parameters(), lr=RATE)

    def step(k: int) -> Any:
        *graph, wanted = arrays(lib, *given.batches[k % STEPS])
        return learn(lib, optimizer, F.mse_loss(model(*graph), wanted))

    yield case("step", step)


WORKLOAD = program(
    "gnn",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(graphs=37, hidden=100),
        "tiny": Sizes(graphs=2, least=2, most=4, features=2, hidden=3),
    },
    data=data,
    steps=STEPS,
    implementations=of_both(cases),
)
