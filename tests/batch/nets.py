"""Small networks over trees, with cells and op by op, for the tests of batching."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

import treadle as td

WIDTH, WORDS, CLASSES = 6, 11, 3
Tree = Any  # a word or a pair


def tree(rng: random.Random, leaves: int) -> Tree:
    """A binary tree of random form."""
    if leaves == 1:
        return rng.randrange(WORDS)
    left = rng.randint(1, leaves - 1)
    return tree(rng, left), tree(rng, leaves - left)


class Net:
    """A binary tree-LSTM with a class at the root; `cells` makes steps of functions."""

    def __init__(self, cells: bool = True, dtype: str = "float64") -> None:
        draw = np.random.default_rng(3)

        def param(name: str, *shape: int) -> td.Parameter:
            return td.param(name, init=draw.normal(size=shape), dtype=dtype)

        h = WIDTH
        self.table = param("table", WORDS, h)
        self.below = param("below", h, 3 * h)
        self.inner = param("inner", 2 * h, 5 * h)
        self.bias = param("bias", 5 * h)
        self.top = param("top", h, CLASSES)
        wrap: Callable[..., Any] = td.function if cells else lambda f: f
        self.leaf_cell = wrap(self._leaf)
        self.inner_cell = wrap(self._inner)

    @property
    def parameters(self) -> list[td.Parameter]:
        return [self.table, self.below, self.inner, self.bias, self.top]

    def _leaf(self, x: Any) -> tuple[Any, Any]:
        i, o, u = td.split(x @ self.below, 3)
        c = td.sigmoid(i) * td.tanh(u)
        return td.sigmoid(o) * td.tanh(c), c

    def _inner(self, h1: Any, c1: Any, h2: Any, c2: Any) -> tuple[Any, Any]:
        gates = td.concat([h1, h2]) @ self.inner + self.bias
        i, f, g, o, u = td.split(gates, 5)
        c = td.sigmoid(i) * td.tanh(u) + td.sigmoid(f) * c1 + td.sigmoid(g) * c2
        return td.sigmoid(o) * td.tanh(c), c

    def encode(self, t: Tree) -> tuple[Any, Any]:
        if isinstance(t, int):
            return self.leaf_cell(td.rows(self.table, t))
        return self.inner_cell(*self.encode(t[0]), *self.encode(t[1]))

    def losses(self, trees: list[Tree]) -> list[Any]:
        return [
            td.nn.functional.cross_entropy(self.encode(t)[0] @ self.top, k % CLASSES)
            for k, t in enumerate(trees)
        ]


def trees(seed: int, count: int, most: int = 9) -> list[Tree]:
    """Trees of up to `most` leaves."""
    rng = random.Random(seed)
    return [tree(rng, rng.randint(1, most)) for _ in range(count)]
