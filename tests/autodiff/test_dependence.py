"""What a derivative reaches is learned from a first node, and holds for others."""

from __future__ import annotations

import numpy as np

import treadle as td


def test_operands_that_are_one_say_nothing_of_others() -> None:
    x = td.asarray(np.arange(12, dtype=np.float32).reshape(1, 3, 4) / 10)
    td.grad((td.attention(x, x, x) ** 2).sum(), [x])[0].numpy()
    q, k, v = (td.asarray(np.sin(x.numpy() + j)) for j in range(3))
    for g in td.grad((td.attention(q, k, v) ** 2).sum(), [q, k, v]):
        assert np.abs(g.numpy()).max() > 1e-3


def test_a_mask_of_truth_values_says_nothing_of_one_of_numbers() -> None:
    q, k, v = (
        td.asarray(np.sin(np.arange(12, dtype=np.float32) + j).reshape(1, 3, 4))
        for j in range(3)
    )
    seen = td.asarray(np.array([[True, False, True]] * 3))
    td.grad((td.attention(q, k, v, seen) ** 2).sum(), [q])[0].numpy()
    bias = td.asarray(np.zeros((3, 3), np.float32))
    (g,) = td.grad((td.attention(q, k, v, bias) ** 2).sum(), [bias])
    assert np.abs(g.numpy()).max() > 1e-3
