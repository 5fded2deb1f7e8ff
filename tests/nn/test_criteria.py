"""Losses under torch's names keep their derivatives where probabilities end."""

from __future__ import annotations

import numpy as np

import treadle as td


def test_binary_cross_entropy_at_the_ends() -> None:
    p = td.asarray([0.0, 1.0, 0.5])
    loss = td.nn.functional.binary_cross_entropy(p, td.asarray([0.0, 1.0, 1.0]))
    (g,) = td.grad(loss, [p])
    assert np.all(np.isfinite(g.numpy()))
    assert abs(float(loss) - np.log(2.0) / 3) < 1e-6


def test_logits_far_out_keep_their_loss() -> None:
    x = td.asarray([20.0])
    loss = td.nn.functional.binary_cross_entropy_with_logits(x, td.asarray([1.0]))
    assert 1e-9 < float(loss) < 3e-9
