"""vae: a variational autoencoder of pictures, its loss printed at each step.

784-400-20-400-784, batch 128, binary cross entropy and divergence summed, Adam. Where
losses are compared the noise is given; else the library draws it.
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
from benchmarks.pictures import pictures
from benchmarks.workload import Cases

__all__ = ["WORKLOAD"]

RATE = 1e-3


@dataclass(frozen=True)
class Sizes:
    """Extents of the network, and how many batches there are before they repeat."""

    batch: int = 128
    image: int = 28
    hidden: int = 400
    code: int = 20
    batches: int = 16


@dataclass(frozen=True)
class Data:
    """Flat pictures, noise, and the first weights."""

    images: Array
    noise: Array
    weights: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Pictures between 0 and 1."""
    found, _ = pictures(sizes.batches, sizes.batch, sizes.image)
    images = found.reshape(sizes.batches, sizes.batch, -1)
    shape = sizes.batches, sizes.batch, sizes.code
    noise = np.random.default_rng(2).standard_normal(shape, np.float32)
    n, h, c = images.shape[-1], sizes.hidden, sizes.code
    shapes = {"inner": (h, n), "mean": (c, h), "spread": (c, h), "outer": (h, c)}
    return Data(images, noise, layers(3, {**shapes, "image": (n, h)}))


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library."""
    nn, F = lib.nn, lib.nn.functional
    images, noise = arrays(lib, given.images, given.noise)

    class Autoencoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            n, h, c = images.shape[-1], sizes.hidden, sizes.code
            self.inner, self.mean = nn.Linear(n, h), nn.Linear(h, c)
            self.spread, self.outer = nn.Linear(h, c), nn.Linear(c, h)
            self.image = nn.Linear(h, n)

        def forward(self, x: Any, drawn: Any) -> Any:
            h = F.relu(self.inner(x))
            mean, spread = self.mean(h), self.spread(h)
            code = mean + drawn * lib.exp(0.5 * spread)
            return self.image(F.relu(self.outer(code))), mean, spread

    model = loaded(lib, Autoencoder(), given.weights)
    optimizer = lib.optim.Adam(model.parameters(), lr=RATE)

    def drawn(k: int) -> Any:
        if checking:
            return noise[k]
        shape = sizes.batch, sizes.code
        return lib.randn(shape) if lib.__name__ == "torch" else lib.random.normal(shape)

    def step(k: int) -> str:
        k %= sizes.batches
        x = images[k]
        logits, mean, spread = model(x, drawn(k))
        own = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        apart = -0.5 * (1 + spread - mean * mean - lib.exp(spread)).sum()
        loss = (own + apart) / sizes.batch
        return f"{float(learn(lib, optimizer, loss)):.6f}"

    yield case("step", step)


WORKLOAD = program(
    "vae",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=37, image=27, hidden=300),
        "tiny": Sizes(batch=3, image=4, hidden=5, code=2),
    },
    data=data,
    steps=60,
    implementations=of_both(cases),
)
