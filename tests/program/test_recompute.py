"""Cheap values are computed where they are read, and nothing is kept for them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.program.program import unwritten

RNG = np.random.default_rng(5)
X = RNG.standard_normal((4, 16, 40, 40)).astype(np.float32)
SIZE = X.nbytes


def normalized() -> tuple[td.nn.BatchNorm2d, td.Tensor, td.Tensor]:
    norm = td.nn.BatchNorm2d(16)
    x = td.asarray(X)
    y = td.relu(norm(x))
    return norm, x, y


def test_a_normalization_keeps_only_its_input_for_the_gradient() -> None:
    norm, x, y = normalized()
    slopes = td.grad((y * y).sum(), [x, norm.weight, norm.bias])
    down = td.lower(slopes[1])
    assert down.memory.arena < SIZE / 2, "neither y nor what it is made of is stored"


def test_what_is_recomputed_has_the_same_bits() -> None:
    found = []
    for _ in range(2):
        norm, x, y = normalized()
        slopes = td.grad((y * y).sum(), [x, norm.weight, norm.bias])
        found.append(td.evaluate(*slopes))
    with td.options(engine="reference"):
        norm, x, y = normalized()
        slopes = td.grad((y * y).sum(), [x, norm.weight, norm.bias])
        wanted = td.evaluate(*slopes)
    for a, b, w in zip(*found, wanted, strict=True):
        assert a.tobytes() == b.tobytes()
        np.testing.assert_allclose(a, w, rtol=2e-4, atol=2e-3)


def test_a_product_still_finishes_its_bias() -> None:
    x = td.asarray(RNG.standard_normal((100, 80)).astype(np.float32))
    w = td.asarray(RNG.standard_normal((80, 90)).astype(np.float32))
    y = td.relu(x @ w + td.ones(90))
    assert td.lower(y).program.count("\n0:") == 1
    assert "1: " not in td.lower(y).program.split("return")[0].split("\n0:")[1]


CHEAP: dict[str, Any] = {
    "where": lambda x: td.where(x > 0.3, x, 0.15),
    "relu": td.relu,
    "affine": lambda x: x * 2.0 - 1.0,
    "tanh": td.tanh,
}
VIEWS: dict[str, Any] = {
    "transposed": lambda x: td.permute_dims(x, (1, 0)),
    "reshaped": lambda x: x.reshape(64, -1),
    "itself": lambda x: x.T.T.T,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("cheap", CHEAP)
def test_a_product_waits_for_what_a_view_that_is_held_lies_in(
    cheap: str, view: str, dtype: Any
) -> None:
    """It reads the value through the view, which lies in memory of its own as well."""
    data = np.random.default_rng(3).uniform(-2, 2, (256, 64)).astype(dtype)

    def values() -> list[Any]:
        x = td.asarray(data)
        held = VIEWS[view](CHEAP[cheap](x))
        y = held @ x
        (g,) = td.grad(td.tanh(y * 0.01).sum(), [x])
        return [*td.evaluate(y, g), held.numpy()]

    with td.options(engine="reference"):
        wanted = values()
    for arena in ("poison", "fast"):
        with td.options(arena=arena):
            for a, w in zip(values(), wanted, strict=True):
                np.testing.assert_allclose(a, w, rtol=1e-3, atol=1e-3)


def test_a_step_that_reads_what_nobody_has_written_is_told() -> None:
    steps = [SimpleNamespace(read=(0, 2), written=(1,))]
    assert unwritten(steps, [0]) == ["step 0 reads b2 before it is written"]
    assert not unwritten(steps, [0, 2])
