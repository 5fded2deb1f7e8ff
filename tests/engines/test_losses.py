"""Training on the native engine follows the reference engine, dropout included."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.networks import small_network

RNG = np.random.default_rng(8)
IMAGES = RNG.random((5, 20, 1, 12, 12))
LABELS = RNG.integers(0, 10, (5, 20))
SHAPES = {"0": (6, 1, 5, 5), "5": (24, 216), "7": (10, 24)}
WEIGHTS = {
    f"{name}.{part}": RNG.standard_normal(own) / np.prod(shape[1:]) ** 0.5
    for name, shape in SHAPES.items()
    for part, own in (("weight", shape), ("bias", shape[:1]))
}


def losses(engine: str, dtype: str) -> np.ndarray:
    """Of 60 steps of Owl's network, smaller, over five batches."""
    with td.options(engine=engine, dtype=dtype, seed=6):
        model = small_network(maps=6, hidden=24)
        model.load_state_dict({k: w.astype(dtype) for k, w in WEIGHTS.items()})
        optimizer = td.optim.Adagrad(lr=0.02)
        found = []
        for k in range(60):
            logits = model(IMAGES[k % 5].astype(dtype))
            loss = td.nn.functional.cross_entropy(logits, LABELS[k % 5])
            found.append(float(optimizer.step(loss)))
    return np.array(found)


def test_in_double_precision_the_losses_are_the_same() -> None:
    native, reference = losses("native", "float64"), losses("reference", "float64")
    np.testing.assert_allclose(native, reference, rtol=1e-11)
    assert native[-5:].mean() < native[:5].mean() - 0.2


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_in_single_precision_they_differ_by_rounding(engine: str) -> None:
    """Rounding grows from step to step: to a thousandth at most over sixty."""
    exact = losses("reference", "float64")
    np.testing.assert_allclose(losses(engine, "float32"), exact, rtol=1e-3)
