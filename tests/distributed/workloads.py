"""Small networks of four kinds, each with batches by number and a loss: images with a
BatchNorm, a transformer, trees built node by node, tags of sentences one by one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

import treadle as td

F = td.nn.functional
Array = np.ndarray[Any, Any]


class Images(td.nn.Module):
    """A small LeNet with a BatchNorm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = td.nn.Sequential(
            td.nn.Conv2d(1, 4, 3), td.nn.BatchNorm2d(4), td.nn.ReLU(),
            td.nn.MaxPool2d(2), td.nn.Flatten(), td.nn.Linear(36, 16), td.nn.ReLU(),
            td.nn.Dropout(0.3), td.nn.Linear(16, 5),
        )  # fmt: skip

    def loss(self, number: int) -> Any:
        draws = np.random.default_rng(number)
        x = draws.normal(size=(6, 1, 8, 8)).astype(np.float32)
        return F.cross_entropy(self.layers(td.constant(x)), draws.integers(0, 5, 6))


class Words(td.nn.Module):
    """A transformer's encoder over embedded words, with dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = td.nn.Embedding(40, 16, sparse=True)
        self.encoder = td.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.2)
        self.out = td.nn.Linear(16, 40)

    def loss(self, number: int) -> Any:
        draws = np.random.default_rng(number)
        ids = draws.integers(0, 40, (3, 4 + number % 3))
        y = self.out(self.encoder(self.embed(ids)))
        return F.cross_entropy(y.reshape(-1, 40), ids.reshape(-1))


class Trees(td.nn.Module):
    """A recursive network: each tree is another graph, and few use all parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = td.nn.Embedding(30, 8, sparse=True)
        self.join = td.nn.Linear(16, 8)
        self.rare = td.nn.Linear(8, 8)
        self.out = td.nn.Linear(8, 3)
        self.dropout = td.nn.Dropout(0.2)

    def state(self, draws: Any, depth: int) -> Any:
        if depth == 0 or draws.random() < 0.3:
            return self.embed(int(draws.integers(30)))
        children = self.state(draws, depth - 1), self.state(draws, depth - 1)
        return td.tanh(self.join(td.concat(children)))

    def loss(self, number: int) -> Any:
        draws, total = np.random.default_rng(number), 0.0
        for _ in range(4):
            h = self.dropout(self.state(draws, 3))
            if number % 3 == 1:  # a branch that few shards take
                h = self.rare(h)
            label = np.array([draws.integers(3)])
            total = total + F.cross_entropy(self.out(h)[None], label)
        return total


class Tags(td.nn.Module):
    """Tags of the words of sentences of unequal lengths, by a GRU step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = td.nn.Embedding(30, 8, sparse=True)
        self.cell = td.nn.GRUCell(8, 8)
        self.out = td.nn.Linear(8, 4)
        self.dropout = td.nn.Dropout(0.2)

    def loss(self, number: int) -> Any:
        draws, losses = np.random.default_rng(number), []
        for _ in range(3):
            h = td.zeros((8,))
            for word in draws.integers(0, 30, draws.integers(2, 7)):
                h = self.cell(self.embed(int(word)), h)
                label = np.array([draws.integers(4)])
                losses.append(F.cross_entropy(self.out(self.dropout(h))[None], label))
        return sum(losses[1:], losses[0]) / len(losses)


WORKLOADS: dict[str, type[Any]] = {
    "images": Images, "words": Words, "trees": Trees, "tags": Tags,
}  # fmt: skip


def trained(
    name: str,
    updates: int,
    shards: int,
    make: Callable[[], Any] | None = None,
    seed: int = 5,
    **settings: Any,
) -> Any:
    """A network and its optimizer after so many updates, by the loop of every rank.
    Its first weights, its draws and its batches follow from the seed."""
    td.set_options(seed=seed)
    model = WORKLOADS[name]()
    inner = make() if make else td.optim.Adam(lr=0.01, clip_norm=1.0)
    opt = td.distributed.DataParallel(inner, model, shards=shards, **settings)
    ranks = td.distributed.size()
    share, first = shards // ranks, td.distributed.rank() * (shards // ranks)
    for update in range(updates):
        for k in range(share):
            opt.step(model.loss(1000 * (seed - 5) + update * shards + first + k))
    return model, opt


def digest(model: Any, opt: Any) -> str:
    """All bits of a network and of its optimizer's states."""
    found = hashlib.sha256()
    for state in (model.state_dict(), opt.state_dict()):
        for key in sorted(state):
            found.update(key.encode() + np.asarray(state[key]).tobytes())
    return found.hexdigest()
