"""The GPU engine on the devices there are: values stay there, losses are the CPU's."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.engines.gpus import GPUS, gpu
from treadle.engines.device.memory import Counts


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
