"""Initializers: bounds, moments, fans, structure, the same bits for the same seed."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.nn import init

SHAPE = (64, 128)
BOUNDS: list[tuple[str, Any, float, float]] = [
    # initializer, largest value (inf: normal), deviation
    ("uniform", init.uniform(low=-2.0, high=2.0), 2.0, 2.0 / math.sqrt(3)),
    ("normal", init.normal(std=0.5), math.inf, 0.5),
    ("truncated_normal", init.truncated_normal(std=0.5), 1.0, 0.5 * 0.8796),
    ("glorot_uniform", init.glorot_uniform, math.sqrt(6 / 192), math.sqrt(2 / 192)),
    ("glorot_normal", init.glorot_normal, math.inf, math.sqrt(2 / 192)),
    ("glorot in", init.glorot_uniform(mode="in"), math.sqrt(3 / 128), 128**-0.5),
    ("glorot out", init.glorot_normal(mode="out"), math.inf, 64**-0.5),
    ("xavier", init.xavier, math.sqrt(3 / 128), 128**-0.5),
    ("he_uniform", init.he_uniform, math.sqrt(6 / 128), math.sqrt(2 / 128)),
    ("he_normal", init.he_normal, math.inf, math.sqrt(2 / 128)),
    ("torch", init.kaiming_uniform(a=math.sqrt(5)), 128**-0.5, (3 * 128) ** -0.5),
    ("lecun_normal", init.lecun_normal, math.inf, 128**-0.5),
    ("standard", init.standard, 128**-0.5, (3 * 128) ** -0.5),
    ("io", init.lecun_normal(layout="io"), math.inf, 64**-0.5),
    ("bernoulli", init.bernoulli(scale=2.0, shift=-1.0), 1.0, 1.0),
]


@pytest.mark.parametrize(
    ("name", "make", "bound", "std"), BOUNDS, ids=[row[0] for row in BOUNDS]
)
def test_moments(name: str, make: Any, bound: float, std: float) -> None:
    with td.options(seed=11):
        values = make(SHAPE, "float32")
    assert values.shape == SHAPE and values.dtype == np.float32
    assert np.abs(values).max() <= bound * (1 + 1e-6)
    assert abs(values.mean()) < 0.06 * std
    assert values.std() == pytest.approx(std, rel=0.05)


def test_gumbel_is_of_its_distribution_and_bounded() -> None:
    with td.options(seed=11):
        values = init.gumbel((64, 1024), "float64")
        wide = init.gumbel(eps=0.25)((64, 64), "float32")
    assert values.mean() == pytest.approx(0.5772, abs=0.02)
    assert values.std() == pytest.approx(math.pi / math.sqrt(6), rel=0.02)
    low, high = -math.log(-math.log(1e-5)), -math.log(-math.log1p(-1e-5))
    assert low <= values.min() and values.max() <= high
    assert wide.min() > -0.3267 and wide.max() < 1.2459


@pytest.mark.parametrize("name", init.names())
def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    found = []
    for _ in range(2):
        with td.options(seed=5):
            found.append(init.by_name(name)((4, 6), "float64"))
    assert found[0].tobytes() == found[1].tobytes()
    assert found[0].dtype == np.float64


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (4, 3, 2)])
def test_orthogonal(shape: tuple[int, ...]) -> None:
    q = init.orthogonal(gain=2.0)(shape, "float64").reshape(shape[0], -1)
    gram = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(gram, 4.0 * np.eye(len(gram)), atol=1e-12)


def test_structures() -> None:
    assert init.eye(value=2.0)((2, 3), "float32").tolist() == [[2, 0, 0], [0, 2, 0]]
    assert init.identity((2, 2, 3), "float32")[1, 1].tolist() == [0.0, 1.0, 0.0]
    assert init.constant(value=3.0)((2,), "int32").tolist() == [3, 3]
    assert init.zeros((2,), "float32").tolist() == [0, 0]
    assert init.ones((2,), "float32").tolist() == [1, 1]
    waves = init.sinusoidal((3, 4), "float64")
    np.testing.assert_allclose(waves[0], [0, 0, 1, 1])
    np.testing.assert_allclose(waves[2, 0], math.sin(2.0))
    turns = init.sinusoidal(interleaved=True)((3, 4), "float64")
    np.testing.assert_allclose(turns[0], [0, 1, 0, 1])


def test_fans() -> None:
    assert init.fans((8, 3, 5, 5)) == (75, 200)
    assert init.fans((5, 5, 3, 8), "io") == (75, 200)
    assert init.fans(()) == (1, 1) and init.fans((7,)) == (7, 7)


def test_settings_are_checked() -> None:
    wrong: list[Callable[[], Any]] = [
        lambda: init.normal(width=1.0),
        lambda: init.by_name("normalish"),
        lambda: init.glorot_uniform(mode="up")((2, 2)),
        lambda: init.fans((2, 2), "ab"),
        lambda: init.gumbel(eps=0.5)((2,)),
        lambda: init.gain("square"),
    ]
    for make in wrong:
        with pytest.raises(td.ArgumentError):
            make()
    for make in (lambda: init.eye((3,)), lambda: init.orthogonal((3,))):
        with pytest.raises(td.ShapeError):
            make()


def test_parameters_take_them() -> None:
    assert td.param(shape=(2, 2), init=init.eye).tolist() == [[1, 0], [0, 1]]
    layer = td.nn.Linear(2, 2, weight_init=init.constant(value=0.5))
    assert layer.weight.tolist() == [[0.5, 0.5], [0.5, 0.5]]
