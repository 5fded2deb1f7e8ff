"""Parts of values: read and computed with, and nothing is compiled for their places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.graph.parts import SMALL

X = np.arange(60.0, dtype=np.float32).reshape(5, 12)
KEYS: list[Any] = [
    3,
    -1,
    (2, 5),
    slice(1, 3),
    (slice(None), 4),
    (slice(4, 0, -2), 1),
    ...,
]


def compiled() -> int:
    return td.cache_info().misses


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_a_part_has_the_value_of_numpys(key: Any) -> None:
    for x in (td.asarray(X), td.asarray(X) * 1.0, td.param("x", init=X)):
        x.numpy()
        got = x[key].numpy()
        assert np.array_equal(got, X[key]) and got.shape == X[key].shape
        assert not got.flags.writeable


def test_what_reads_elements_is_compiled_for_none_of_them() -> None:
    w = td.param("w", init=X)
    for x in (td.asarray(X), td.asarray(X) * 2.0, w * 2.0):
        x.numpy()
        before = compiled()
        for k in range(60):
            assert float(x[k // 12, k % 12]) in (k, 2 * k)
        assert float(td.reshape(x, (12, 5)).T[0, 1]) > 0.0
        assert compiled() == before


def test_what_is_computed_of_parts_is_compiled_once() -> None:
    x = td.asarray(X) * 2.0
    x.numpy()
    found = [float((x[k, 2:] * 3.0).sum()) for k in range(3)]
    before = compiled()
    found += [float((x[k, 2:] * 3.0).sum()) for k in range(3, 5)]
    assert compiled() == before
    assert np.allclose(found, [X[k, 2:].sum() * 6.0 for k in range(5)])


def test_steps_on_parts_of_data_are_compiled_once() -> None:
    data, w = td.asarray(X), td.param("w", init=np.ones(12, np.float32))
    other, plain = td.param("w", init=np.ones(12, np.float32)), td.optim.SGD(lr=1e-3)
    optimizer, before = td.optim.SGD(lr=1e-3), 0
    for k in range(5):
        optimizer.step(((data[k] * w).sum() - 1.0) ** 2)
        plain.step(((td.asarray(X[k]) * other).sum() - 1.0) ** 2)
        before = compiled() if k == 2 else before
    assert compiled() == before and np.array_equal(w.numpy(), other.numpy())


def test_derivatives_by_data_go_on_behind_its_parts() -> None:
    w = td.param("w", init=X[0])
    for key in (0, 1, 1):
        x = td.asarray(X)
        loss = (x[key] * w).sum() + (x[key, 3] * 2.0)
        by_data, by_weights = td.grad(loss, [x, w])
        want = np.zeros_like(X)
        want[key] = X[0]
        want[key, 3] += 2.0
        assert np.array_equal(by_data.numpy(), want)
        assert np.array_equal(by_weights.numpy(), X[key])


def test_derivatives_go_on_behind_parts_of_what_was_trained() -> None:
    w = td.param("w", init=X)
    y = w * 3.0
    y.numpy()
    assert float(y[2, 3]) == 3 * X[2, 3]
    (y[2, 3] + y[1].sum()).backward()
    want = np.zeros_like(X)
    want[1], want[2, 3] = 3.0, 3.0
    assert np.array_equal(w.grad.numpy(), want)


def test_a_part_that_was_read_keeps_no_whole_alive_and_stays() -> None:
    x = td.asarray(np.ones((100, 50), np.float32)) * 1.0
    x.numpy()
    row = x[3].numpy()
    assert row.nbytes == 200 and (row.base is None or row.base.nbytes == 200)
    w = td.param("w", init=np.zeros((4, 3), np.float32))
    held, part = w[1].numpy(), w[1]
    optimizer = td.optim.SGD(lr=1.0)
    for _ in range(3):
        optimizer.step(-td.sum(w))
    assert (held == 0.0).all() and (part.numpy() == 0.0).all()
    assert (w.numpy() == 3.0).all()


def test_large_parts_lie_in_the_whole_or_are_computed() -> None:
    x = td.asarray(np.random.default_rng(0).standard_normal((8, SMALL)))
    value = x.numpy()
    assert np.shares_memory(x[2:4].numpy(), value)
    assert np.array_equal(x[:, 5:].numpy(), value[:, 5:])


def test_parts_without_gradients_and_in_traces() -> None:
    w = td.param("w", init=X)
    with td.no_grad():
        y = w * 2.0
        y.numpy()
        part = y[1]
    with pytest.raises(td.GradientError):
        td.grad((part * part).sum(), [w])
    data = td.asarray(X)
    picked = td.function(lambda v: v * data[2, 1])
    assert float(picked(td.asarray(2.0))) == 2.0 * X[2, 1]


def test_an_engine_that_was_asked_for_takes_the_parts() -> None:
    with td.options(engine="reference"):
        x = td.asarray(X)
        assert np.array_equal(x[1].numpy(), X[1]) and x[1].stored is None
