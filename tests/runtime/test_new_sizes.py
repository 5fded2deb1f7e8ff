"""A size never seen compiles nothing: extents are no structure.

Sizes of one class choose the same loops; classes end where an extent passes a power of
two vectors, so all sizes here lie between two of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.native.system.host import host

Step = Callable[[int], Any]
functional = td.nn.functional


@pytest.fixture(autouse=True)
def native() -> Any:
    with td.options(engine="native"):
        yield


def lenet() -> Step:
    """A step of a small convolutional network; its size is that of the batch."""
    rng = np.random.default_rng(0)
    images = rng.standard_normal((64, 1, 12, 12)).astype(np.float32)
    labels = rng.integers(0, 10, 64)
    model = td.nn.Sequential(
        td.nn.Conv2d(1, 4, 5, padding=2),
        td.nn.ReLU(),
        td.nn.MaxPool2d(2),
        td.nn.Dropout(0.1),
        td.nn.Flatten(),
        td.nn.Linear(4 * 36, 20),
        td.nn.ReLU(),
        td.nn.Linear(20, 10),
    )
    opt = td.optim.Adagrad(lr=0.005)

    def step(n: int) -> Any:
        return opt.step(functional.cross_entropy(model(images[:n]), labels[:n]))

    return step


def perceptron() -> Step:
    """A step of dense layers; its size is that of the batch."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((64, 12)).astype(np.float32)
    y = rng.standard_normal((64, 5)).astype(np.float32)
    model = td.nn.Sequential(
        td.nn.Linear(12, 20), td.nn.GELU(), td.nn.LayerNorm(20), td.nn.Linear(20, 5)
    )
    opt = td.optim.Adam(lr=0.01)

    def step(n: int) -> Any:
        return opt.step(((model(x[:n]) - y[:n]) ** 2).mean())

    return step


def transformer() -> Step:
    """A step of a transformer's block; its size is the length of the sequences."""
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 30, (4, 64))
    table = td.nn.Embedding(30, 24)
    block = td.nn.TransformerEncoderLayer(24, 2, 28, dropout=0.1, batch_first=True)
    head = td.nn.Linear(24, 30)
    opt = td.optim.AdamW(lr=0.01)

    def step(n: int) -> Any:
        logits = head(block(table(ids[:, :n]))).reshape(-1, 30)
        return opt.step(functional.cross_entropy(logits, ids[:, :n].reshape(-1)))

    return step


@pytest.mark.parametrize("network", [lenet, perceptron, transformer])
def test_new_sizes_of_a_class_compile_nothing(network: Callable[[], Step]) -> None:
    step = network()
    for _ in range(3):  # what is kept for gradients is known from the second on
        step(60)
    before = td.cache_info()
    losses = [float(step(n)) for n in (59, 47, 53, 57, 49, 45)]
    after = td.cache_info()
    # The first of them tell which extents move; a plan for the others asks no engine.
    # One program more or less hangs on what ran before.
    assert 1 <= after.misses - before.misses <= 3
    # Where vectors have 32 bytes, the program of many sizes has one fold of its own.
    kernels = after.compiled + after.from_disk - before.compiled - before.from_disk
    assert kernels <= (host().vector_bytes < 64)
    assert np.isfinite(losses).all()


def test_a_count_is_no_code() -> None:
    for n in (3, 5, 11, 60):
        x = td.asarray(np.arange(7.0 * n, dtype=np.float32).reshape(7, n))
        y = (x.mean(1) + x.std(1) * 0.3) / 1.7
        want = x.numpy().mean(1) + x.numpy().std(1) * np.float32(0.3)
        np.testing.assert_allclose(y.numpy(), want / np.float32(1.7), rtol=1e-5)
