"""Large results are written past the caches, from whatever address they begin at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.loops import schedule

RNG = np.random.default_rng(2)
X = RNG.standard_normal((37, 203)).astype(np.float32)

CASES: dict[str, tuple[Callable[[td.Tensor], td.Tensor], Callable[[Any], Any]]] = {
    "flat": (lambda x: x * 2.0 + 1.0, lambda x: x * 2 + 1),
    "rows that begin anywhere": (
        lambda x: x - x.max(1, keepdims=True),
        lambda x: x - x.max(1, keepdims=True),
    ),
    "bytes": (lambda x: x > 0.0, lambda x: x > 0),
    "double": (lambda x: x.astype("float64") * 3.0, lambda x: x.astype("d") * 3),
}


@pytest.mark.parametrize("name", CASES)
def test_streamed_results_are_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, by_numpy = CASES[name]
    monkeypatch.setattr(schedule, "STREAM", 1)
    y = make(td.asarray(X))
    down = td.lower(y)
    assert "streamed" in down.kernels and "!nontemporal" in down.llvm
    with td.options(optimize=False):  # no program of this structure is known yet
        np.testing.assert_array_equal(y.numpy(), by_numpy(X))


def test_an_unaligned_variable_is_updated_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(schedule, "STREAM", 1)
    odd = np.zeros(1001, np.float32)[1:]
    v = td.param("v", init=1.0, shape=(1000,))
    w = td.Parameter(odd, copy=False)
    optimizer = td.optim.SGD(lr=0.25)
    for _ in range(3):
        optimizer.step((v * 2.0 + w).sum())
    np.testing.assert_array_equal(v.numpy(), np.full(1000, -0.5, np.float32))
    np.testing.assert_array_equal(w.numpy(), np.full(1000, -0.75, np.float32))
