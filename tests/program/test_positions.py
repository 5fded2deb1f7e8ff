"""What has to hold of arguments so that no position of a program is out of range."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.base import are_below, engine
from treadle.graph.traversal import pending

F = td.nn.functional
WORDS, WIDTH = 50, 8
Make = Callable[[Any, Any], Any]

# Of a table and ids: what is computed, and the extents asked of data (None: unknown).
CASES: list[tuple[str, Make, set[int] | None]] = [
    ("no positions", lambda w, ids: (w * w).sum(), set()),
    ("rows", lambda w, ids: w[ids].sum(), {WORDS}),
    ("rows, of another shape", lambda w, ids: w[ids.reshape(3, 1)].sum(), {WORDS}),
    ("embedding", lambda w, ids: F.embedding(ids, w).sum(), {WORDS}),
    (
        "two tables",
        lambda w, ids: F.cross_entropy(w[ids], td.asarray([1, 2, 0])),
        {WORDS, WIDTH},
    ),
    (
        "along an axis",
        lambda w, ids: td.take_along_axis(w[:3], ids.reshape(3, 1), 1).sum(),
        {WIDTH},
    ),
    ("computed", lambda w, ids: w[ids + 1].sum(), None),
    ("computed of rows", lambda w, ids: w[td.argmax(w[:3], 1)].sum(), None),
    ("both", lambda w, ids: w[ids].sum() + w[ids * 2].sum(), None),
]


@pytest.mark.parametrize(("name", "make", "wanted"), CASES, ids=[c[0] for c in CASES])
def test_needs(name: str, make: Make, wanted: set[int] | None) -> None:
    w = td.param("w", init=np.ones((WORDS, WIDTH), np.float32))
    y = make(w, td.asarray([1, 2, 3])).node()
    found = engine("native").program(pending([y]), {y.serial})
    assert found is not None
    if wanted is None:
        assert found.needs is None
    else:
        assert found.needs is not None
        assert {extent for _, extent in found.needs} == wanted
        assert all(found.arguments[k].op.name == "constant" for k, _ in found.needs)


def test_needs_of_sizes_that_come_by_a_law() -> None:
    w, opt = td.param("w", init=np.ones((4, 3), np.float32)), td.optim.SGD(lr=0.01)

    def loss(n: int, last: int) -> Any:
        x = td.asarray(np.ones((n, 4), np.float32))
        return ((x @ w)[td.asarray([0, 1, last])] ** 2).sum()

    for n in (10, 20, 40, 30, 25, 33):
        for _ in range(3):
            opt.step(loss(n, n - 1))
        before = w.numpy().copy()
        with pytest.raises(td.TreadleError, match=f"index {n} is out of range"):
            opt.step(loss(n, n))
        np.testing.assert_array_equal(w.numpy(), before)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_are_below(dtype: str) -> None:
    assert are_below(np.array([], dtype), 3)
    assert are_below(np.array([[0, 2], [1, 2]], dtype)[:, ::-1], 3)
    assert not are_below(np.array([0, 3], dtype), 3)
    if not dtype.startswith("u"):
        assert not are_below(np.array([0, -1], dtype), 3)
    assert not are_below(np.array([0.0, 1.0]), 3)
