"""tree: training steps of a binary Tree-LSTM on sentiment trees, built tree by tree.

Words of width 128, hidden 128: a leaf is one affine map of its word to i, o, u, an
inner node one of both children's h to i, f of the left, f of the right, o, u (Tai et
al. 2015, with one matrix for all gates); the root's h is scored for five labels. The
losses of 64 trees are summed; SGD with 0.01 changes the rows of the words that occur.
"cells": each node of a tree is one call; "op by op": its ops are recorded one by one.
No minibatch comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import corpora
from benchmarks.corpora import Tree, numbered
from benchmarks.dynet import learn, parameter
from benchmarks.workload import Cases, Claim, Workload, stepping

__all__ = ["WORKLOAD"]

RATE, LABELS = 0.01, 5
WARM, TIMED, SAMPLES = 3, 8, 11
Array = np.ndarray[Any, Any]
Batch = tuple[list[Tree], list[int]]


@dataclass(frozen=True)
class Sizes:
    """Extents of the network; `longest` bounds the words of a tree, 0 does not."""

    batch: int = 64
    width: int = 128
    hidden: int = 128
    longest: int = 0


@dataclass(frozen=True)
class Data:
    """Minibatches of trees of word ids with labels, and the first weights."""

    batches: list[Batch]
    weights: dict[str, Array]

    @property
    def timed(self) -> float:
        """Trees of one run."""
        return float(len(self.batches[0][0]))


def words_of(tree: Tree) -> Iterator[Any]:
    """The leaves from left to right."""
    if isinstance(tree, tuple):
        for part in tree:
            yield from words_of(part)
    else:
        yield tree


def data(sizes: Sizes, part: str) -> Data:
    """Trees of ids and weights by the names of treadle's modules."""
    found = corpora.trees(sizes.batch * (WARM + TIMED * SAMPLES), sizes.longest)
    ids = numbered([w for tree, _ in found for w in words_of(tree)], 1)

    def known(tree: Tree) -> Tree:
        return tuple(map(known, tree)) if isinstance(tree, tuple) else ids[tree]

    starts = range(0, len(found), sizes.batch)
    parts = [found[k : k + sizes.batch] for k in starts]
    batches = [([known(t) for t, _ in p], [y for _, y in p]) for p in parts]
    rng = np.random.default_rng(5)

    def matrix(*shape: int) -> Array:
        limit = np.sqrt(6.0 / sum(shape))
        return rng.uniform(-limit, limit, shape).astype(np.float32)

    n, zeros = sizes.hidden, partial(np.zeros, dtype=np.float32)
    weights = {
        "embed.weight": matrix(len(ids), sizes.width),
        "leaf.weight": matrix(3 * n, sizes.width),
        "leaf.bias": zeros(3 * n),
        "inner.weight": matrix(5 * n, 2 * n),
        "inner.bias": zeros(5 * n),
        "head.weight": matrix(LABELS, n),
        "head.bias": zeros(LABELS),
    }
    return Data(batches, weights)


def treadle(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """As a user of treadle writes it: recursive functions, in one part as cells."""
    import treadle as td

    F = td.nn.functional
    n = sizes.hidden

    class TreeLSTM(td.nn.Module):
        def __init__(self) -> None:
            self.embed = td.nn.Embedding(
                len(given.weights["embed.weight"]), sizes.width, sparse=True
            )
            self.leaf = td.nn.Linear(sizes.width, 3 * n)
            self.inner = td.nn.Linear(2 * n, 5 * n)
            self.head = td.nn.Linear(n, LABELS)

    model = TreeLSTM()
    model.load_state_dict(given.weights)

    def leaf(x: Any) -> Any:
        i, o, u = td.split(model.leaf(x), 3)
        c = td.sigmoid(i) * td.tanh(u)
        return td.sigmoid(o) * td.tanh(c), c

    def inner(left: Any, right: Any) -> Any:
        (h1, c1), (h2, c2) = left, right
        i, f1, f2, o, u = td.split(model.inner(td.concat([h1, h2])), 5)
        c = td.sigmoid(i) * td.tanh(u) + td.sigmoid(f1) * c1 + td.sigmoid(f2) * c2
        return td.sigmoid(o) * td.tanh(c), c

    if part == "cells":
        leaf, inner = td.function(leaf), td.function(inner)

    def state(tree: Tree) -> Any:
        if isinstance(tree, tuple):
            left, right = tree
            return inner(state(left), state(right))
        return leaf(model.embed(tree))

    optimizer = td.optim.SGD(lr=RATE)

    def step(trees: list[Tree], labels: list[int]) -> Any:
        roots = td.stack([state(tree)[0] for tree in trees])
        loss = F.cross_entropy(model.head(roots), labels, reduction="sum")
        return optimizer.step(loss)

    yield stepping(part, step, given.batches, given.timed, "trees")


def dynet(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In DyNet, with or without autobatching, which was chosen when it was imported."""
    dy: Any = import_module("dynet")
    model = dy.ParameterCollection()
    w = given.weights
    table = model.lookup_parameters_from_numpy(w["embed.weight"])
    names = [f"{a}.{b}" for a in ("leaf", "inner", "head") for b in ("weight", "bias")]
    p = {name: parameter(model, w[name]) for name in names}
    trainer = dy.SimpleSGDTrainer(model, RATE)
    n = sizes.hidden

    def affine(name: str, x: Any) -> Any:
        return dy.affine_transform([p[f"{name}.bias"], p[f"{name}.weight"], x])

    def parts(x: Any, count: int) -> list[Any]:
        return [dy.pick_range(x, k * n, (k + 1) * n) for k in range(count)]

    def state(tree: Tree) -> Any:
        if not isinstance(tree, tuple):
            i, o, u = parts(affine("leaf", table[tree]), 3)
            c = dy.cmult(dy.logistic(i), dy.tanh(u))
            return dy.cmult(dy.logistic(o), dy.tanh(c)), c
        (h1, c1), (h2, c2) = state(tree[0]), state(tree[1])
        i, f1, f2, o, u = parts(affine("inner", dy.concatenate([h1, h2])), 5)
        c = dy.cmult(dy.logistic(i), dy.tanh(u))
        c += dy.cmult(dy.logistic(f1), c1) + dy.cmult(dy.logistic(f2), c2)
        return dy.cmult(dy.logistic(o), dy.tanh(c)), c

    def step(trees: list[Tree], labels: list[int]) -> float:
        dy.renew_cg()
        losses = [
            dy.pickneglogsoftmax(affine("head", state(tree)[0]), label)
            for tree, label in zip(trees, labels, strict=True)
        ]
        return learn(trainer, dy.esum(losses))

    yield stepping(part, step, given.batches, given.timed, "trees")


def torch(sizes: Sizes, part: str, given: Data, checking: bool) -> Cases:
    """In torch, node by node; the rows of a minibatch's words are taken together."""
    torch: Any = import_module("torch")
    F: Any = torch.nn.functional
    w = {k: torch.tensor(a, requires_grad=True) for k, a in given.weights.items()}

    def affine(name: str, x: Any) -> Any:
        return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])

    def state(tree: Tree, rows: Iterator[Any]) -> Any:
        if not isinstance(tree, tuple):
            i, o, u = affine("leaf", next(rows)).chunk(3)
            c = torch.sigmoid(i) * torch.tanh(u)
            return torch.sigmoid(o) * torch.tanh(c), c
        (h1, c1), (h2, c2) = state(tree[0], rows), state(tree[1], rows)
        i, f1, f2, o, u = affine("inner", torch.cat([h1, h2])).chunk(5)
        c = torch.sigmoid(i) * torch.tanh(u)
        c = c + torch.sigmoid(f1) * c1 + torch.sigmoid(f2) * c2
        return torch.sigmoid(o) * torch.tanh(c), c

    optimizer = torch.optim.SGD(list(w.values()), lr=RATE)

    def step(trees: list[Tree], labels: list[int]) -> Any:
        optimizer.zero_grad(set_to_none=True)
        ids = torch.tensor([word for tree in trees for word in words_of(tree)])
        rows = iter(F.embedding(ids, w["embed.weight"], sparse=True).unbind())
        roots = torch.stack([state(tree, rows)[0] for tree in trees])
        logits = affine("head", roots)
        loss = F.cross_entropy(logits, torch.tensor(labels), reduction="sum")
        loss.backward()
        optimizer.step()
        return loss.detach()

    yield stepping(part, step, given.batches, given.timed, "trees")


WORKLOAD = Workload(
    name="tree",
    sizes={
        "plain": Sizes(),
        "perturbed": Sizes(batch=37, hidden=100),
        "tiny": Sizes(batch=2, width=3, hidden=4, longest=3),
    },
    data=data,
    implementations={
        "treadle": treadle,
        "dynet-autobatch": dynet,
        "dynet-plain": dynet,
        "torch": torch,
    },
    claims=(
        Claim("cells", "time", "dynet-autobatch", 1 / 1.5, 1 / 3, threads=2),
        Claim("cells", "time", "dynet-autobatch", 1.0, None, threads=1),
        Claim("op by op", "time", "dynet-plain", 1.0, 1 / 2),
    ),
    parts=("cells", "op by op"),
    iterations=TIMED,
    warm=WARM,
    together=True,
    source=partial(corpora.source, corpora.TREES),
)
