"""Small networks over trees, with cells and op by op, and rows of single ops, for the
tests of batching."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import treadle as td
from tests.ops.samples import Sample
from tests.ops.test_rows import rows_of
from treadle.graph.leaves import as_tensor
from treadle.ops.families import outputs_of

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

    def keep(self) -> list[Any]:
        """A list that has the second result of each leaf from here on."""
        kept: list[Any] = []
        leaf = self.leaf_cell

        def keeping(x: Any) -> tuple[Any, Any]:
            h, c = leaf(x)
            kept.append(c)
            return h, c

        self.leaf_cell = keeping
        return kept

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


def derived_rows(
    sample: Sample, given: Sequence[bool], first: bool = False, n: int = 40
) -> list[np.ndarray[Any, Any]]:
    """A sample of an op done n times, each for itself, with other inputs where these
    are `given`: a loss of what is in double precision, read `first` or not, and its
    derivatives by all inputs. Floats of rows are read from tables: a Variable of each
    row would have a signature of its own.
    """
    _, each = rows_of(sample, given, n)
    leaves: list[Any] = []

    def operand(k: int) -> Callable[[int], Any]:
        own = [np.asarray(row[k]) for row in each]
        if own[0].dtype.kind != "f":
            return lambda r: as_tensor(own[r])
        leaf = td.param(
            "x", init=np.stack(own) if given[k] else own[0], dtype="float64"
        )
        leaves.append(leaf)
        return lambda r: td.rows(leaf, r) if given[k] else as_tensor(leaf)

    operands = [operand(k) for k in range(len(given))]
    losses: list[Any] = []
    for r in range(n):
        outputs = outputs_of(sample.op(*[read(r) for read in operands]))
        real = [y for y in outputs if y.type.dtype == td.float64]
        losses += [td.tanh(y).sum() for y in real]
    if not losses:
        return []
    loss = td.stack(losses).sum()
    value = [loss.numpy()] if first else []
    grads = td.grad(loss, leaves, unused="zero") if leaves else []
    return [np.array(x) for x in (*value, *td.evaluate([loss, *grads]))]
