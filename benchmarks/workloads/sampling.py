"""sampling: a text drawn character by character from a small decoder, without a cache.

2 layers of width 64 with 4 heads, 80 characters of 64: at each the whole prefix, which
grows by one, goes through the network, and one is drawn from the value of the
probabilities. A step is a text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.ordinary import Array, arrays, case, layers, loaded, of_both, program
from benchmarks.workload import Cases

__all__ = ["WORKLOAD"]


@dataclass(frozen=True)
class Sizes:
    """Extents of the network, and the length of a text."""

    characters: int = 64
    width: int = 64
    heads: int = 4
    depth: int = 2
    length: int = 80


@dataclass(frozen=True)
class Data:
    """First weights."""

    weights: dict[str, Array]


def data(sizes: Sizes, part: str) -> Data:
    """Weights alone."""
    n = sizes.width
    shapes = {"characters": (sizes.characters, n), "places": (sizes.length, n)}
    for k in range(sizes.depth):
        own = {
            "three": (3 * n, n),
            "joined": (n, n),
            "up": (4 * n, n),
            "down": (n, 4 * n),
        }
        shapes |= {f"blocks.{k}.{name}": shape for name, shape in own.items()}
    weights = layers(3, {**shapes, "out": (sizes.characters, n)})
    del weights["characters.bias"], weights["places.bias"]
    return Data(weights)


def cases(lib: Any, sizes: Sizes, given: Data, checking: bool) -> Cases:
    """The program in one library."""
    nn, F, n = lib.nn, lib.nn.functional, sizes.width

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(n), nn.LayerNorm(n)
            self.three, self.joined = nn.Linear(n, 3 * n), nn.Linear(n, n)
            self.up, self.down = nn.Linear(n, 4 * n), nn.Linear(4 * n, n)

        def forward(self, x: Any) -> Any:
            batch, length = x.shape[0], x.shape[1]
            shape = batch, length, sizes.heads, n // sizes.heads
            three = self.three(self.first(x))
            parts = (three[..., k * n : (k + 1) * n] for k in range(3))
            q, k, v = (lib.swapaxes(p.reshape(shape), 1, 2) for p in parts)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.joined(lib.swapaxes(mixed, 1, 2).reshape((batch, length, n)))
            return x + self.down(F.gelu(self.up(self.second(x))))

    class Decoder(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.characters = nn.Embedding(sizes.characters, n)
            self.places = nn.Embedding(sizes.length, n)
            self.blocks = nn.ModuleList([Block() for _ in range(sizes.depth)])
            self.norm, self.out = nn.LayerNorm(n), nn.Linear(n, sizes.characters)

        def forward(self, ids: Any) -> Any:
            (places,) = arrays(lib, np.arange(ids.shape[1]))
            x = self.characters(ids) + self.places(places)
            for block in self.blocks:
                x = block(x)
            return self.out(self.norm(x))

    model = loaded(lib, Decoder(), given.weights)
    model.eval()

    def step(seed: int) -> float:
        rng, text, total = np.random.default_rng(seed), [0], 0.0
        with lib.no_grad():
            while len(text) < sizes.length:
                (ids,) = arrays(lib, np.array([text]))
                shares = F.softmax(model(ids)[0, -1], -1).numpy()
                drawn = int(np.searchsorted(np.cumsum(shares), rng.random()))
                text.append(min(drawn, sizes.characters - 1))
                total += float(np.log(shares[text[-1]]))
        return total

    yield case("a text", step)


WORKLOAD = program(
    "sampling",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(characters=50, width=100, length=60),
        "tiny": Sizes(characters=5, width=4, heads=2, depth=1, length=4),
    },
    data=data,
    steps=12,
    implementations=of_both(cases),
)
