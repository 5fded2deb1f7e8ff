"""Cheap values are computed where they are read, and nothing is kept for them."""

from __future__ import annotations

import numpy as np

import treadle as td

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
