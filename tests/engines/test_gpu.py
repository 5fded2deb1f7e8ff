"""The GPU engine on the devices there are: values stay there, losses are the CPU's."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.engines.gpus import GPUS, gpu
from treadle.engines.counts import Counts


def perceptron() -> tuple[Any, Any, Any]:
    """A network of two layers, and its data."""
    nn = td.nn
    model = nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Linear(32, 10))
    x = np.random.default_rng(0).normal(size=(64, 20)).astype(np.float32)
    return model, x, np.random.default_rng(1).integers(0, 10, 64, np.int32)


def lenet() -> tuple[Any, Any, Any]:
    """Convolutions, pools and layers on images."""
    nn = td.nn
    layers = [nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    layers += [nn.Linear(400, 84), nn.ReLU(), nn.Linear(84, 10)]
    x = np.random.default_rng(0).normal(size=(8, 1, 28, 28)).astype(np.float32)
    return (
        nn.Sequential(*layers),
        x,
        np.random.default_rng(1).integers(0, 10, 8, np.int32),
    )


def losses(
    name: str, make: Callable[[], tuple[Any, Any, Any]], steps: int = 3
) -> list[float]:
    """The losses of some steps of Adam on an engine."""
    with td.options(engine=name, seed=3):
        model, x, labels = make()
        optimizer = td.optim.Adam(lr=0.01)
        found = []
        for _ in range(steps):
            y = model(td.constant(x))
            loss = td.nn.functional.cross_entropy(y, td.constant(labels))
            found.append(float(optimizer.step(loss)))
        return found


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("make", [perceptron, lenet])
def test_training_has_the_losses_of_the_cpu(name: str, make: Any) -> None:
    want = losses("native", make)
    np.testing.assert_allclose(losses(name, make), want, rtol=1e-4)


@pytest.mark.parametrize("name", GPUS[:1])  # WGSL leaves 64-bit numbers to NumPy
def test_a_step_copies_feeds_in_and_the_loss_out(name: str) -> None:
    device = gpu(name)
    with td.options(engine=name, seed=3):
        model, x, labels = perceptron()
        optimizer = td.optim.Adam(lr=0.01)

        def step() -> float:
            y = model(td.constant(x))
            loss = td.nn.functional.cross_entropy(y, td.constant(labels))
            return float(optimizer.step(loss))

        step()
        step()
        before = device.store.counts
        step()
        counts = device.store.counts - before
    bytes_in = x.nbytes + labels.nbytes
    assert counts == Counts(2, bytes_in, 1, 4, counts.launches)
    assert counts.launches <= 20


@pytest.mark.parametrize("name", GPUS)
def test_memory_of_what_the_collector_finds_comes_back_whole(name: str) -> None:
    """Values in a cycle gave back blocks whose buffers the collector had ended."""
    device = gpu(name)
    with td.options(engine=name):
        for turn in range(3):
            held: list[Any] = [td.constant(np.full(5000, turn, np.float32)) + 1]
            held[0].numpy()
            held.append(held)
            del held
            gc.collect()
    assert device.store.live >= 0


IDS = np.random.default_rng(0).integers(0, 50, (4, 12)).astype(np.int32)
TREES = [((1, 2), (3, (4, 5))), (7, (8, 9)), ((1, (2, 3)), 4)]


def recurrent() -> Any:
    """The loss of an LSTM that tells the words it reads."""
    table, layer, out = (
        td.nn.Embedding(50, 16), td.nn.LSTM(16, 24), td.nn.Linear(24, 50),
    )  # fmt: skip

    def loss() -> td.Tensor:
        y = out(layer(table(td.asarray(IDS)))[0]).reshape((-1, 50))
        return td.cross_entropy(y, td.asarray(IDS.reshape(-1)))

    return loss


def attentive() -> Any:
    """The loss of a layer of a transformer, with dropout."""
    nn = td.nn
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.1)
    model = nn.Sequential(nn.Embedding(50, 16), layer, nn.Linear(16, 50))

    def loss() -> td.Tensor:
        y = model(td.asarray(IDS)).reshape((-1, 50))
        return td.cross_entropy(y, td.asarray(IDS.reshape(-1)))

    return loss


def recursive() -> Any:
    """The loss of trees, each in plain recursion."""
    table, join, out = (
        td.nn.Embedding(50, 16),
        td.nn.Linear(32, 16),
        td.nn.Linear(16, 5),
    )

    def encoded(tree: Any) -> td.Tensor:
        if isinstance(tree, int):
            return table(td.asarray(np.int32(tree)))
        both = [encoded(part) for part in tree]
        return td.tanh(join(td.concat(both, axis=-1)))

    def loss() -> td.Tensor:
        rows = td.stack([out(encoded(tree)) for tree in TREES])
        return td.cross_entropy(rows, td.asarray(np.arange(3, dtype=np.int32)))

    return loss


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("make", [recurrent, attentive, recursive])
def test_dynamic_networks_have_the_losses_of_the_cpu(name: str, make: Any) -> None:
    found = {}
    for engine in ("native", name):
        with td.options(engine=engine, seed=3):
            loss, optimizer = make(), td.optim.Adam(lr=0.01)
            found[engine] = [float(optimizer.step(loss())) for _ in range(3)]
    np.testing.assert_allclose(found[name], found["native"], rtol=1e-5)
    assert found[name][2] < found[name][0]


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize(
    "f",
    [
        lambda x: td.median(x, axis=1),
        lambda x: td.sort(x, axis=1),
        lambda x: td.cross_entropy(x, np.arange(5)),
        lambda x: td.take(x, np.array([4, 0, 2]), axis=0),
    ],
)
def test_what_kernels_cannot_do_is_done_by_numpy(name: str, f: Any) -> None:
    x = np.random.default_rng(0).normal(size=(5, 37)).astype(np.float32)
    with td.options(engine=name):
        found = f(td.asarray(x)).numpy()
    np.testing.assert_allclose(found, f(td.asarray(x)).numpy(), rtol=1e-5, atol=1e-6)
