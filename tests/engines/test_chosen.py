"""Which engine runs a graph, where nobody has said."""

from __future__ import annotations

from typing import Any

import numpy as np

import treadle as td
from treadle.engines.base import MOVED, chosen
from treadle.graph.traversal import pending


def name(y: Any) -> str:
    return chosen("auto", pending([y])).name


def test_what_only_reads_elements_is_compiled_for_none_of_them() -> None:
    x = td.asarray(np.arange(60.0, dtype=np.float32).reshape(5, 12))
    for y in (x[3], x[3, 4], x[1:3].T, td.reshape(x, (12, 5)), x[::-1]):
        assert name(y) == "reference"
    assert name(x[3] * 2.0) == name(td.sum(x[3])) == "native"
    large = td.asarray(np.zeros((3, MOVED), np.float32))
    assert name(large[1]) == "native"
    programs = td.cache_info().misses
    for k in range(60):
        assert float(x[k // 12, k % 12]) == k
    assert td.cache_info().misses == programs


def test_a_part_that_was_read_keeps_no_whole_alive() -> None:
    x = td.asarray(np.ones((100, 50), np.float32)) * 1.0
    x.numpy()
    row = x[3].numpy()
    assert row.nbytes == 200 and (row.base is None or row.base.nbytes == 200)
    w = td.param("w", init=np.zeros((4, 3), np.float32))
    held = w[1].numpy()
    optimizer = td.optim.SGD(lr=1.0)
    for _ in range(3):
        optimizer.step(-td.sum(w))
    assert (held == 0.0).all() and (w.numpy() == 3.0).all()
