"""Averages of the weights against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

VALUES = [1.0, 4.0, 2.0, 8.0]


def taken(average: Any, w: td.Variable) -> float:
    for value in VALUES:
        w.assign(value)
        average.update()
    with average.swapped():
        found = float(w)
    assert float(w) == VALUES[-1]
    return found


def test_cumulative() -> None:
    w = td.param("w")
    assert taken(td.optim.CumulativeAverage([w]), w) == np.mean(VALUES)


def test_exponential_starts_at_the_first_weights() -> None:
    w, want = td.param("w"), VALUES[0]
    for value in VALUES[1:]:
        want = 0.75 * want + 0.25 * value
    assert taken(td.optim.ExponentialAverage([w], 0.75), w) == pytest.approx(want)


def test_exponential_with_bias_correction() -> None:
    w, want = td.param("w"), 0.0
    for value in VALUES:
        want = 0.75 * want + 0.25 * value
    average = td.optim.ExponentialAverage([w], 0.75, bias_correction=True)
    assert taken(average, w) == pytest.approx(want / (1 - 0.75**4))


def test_exponential_with_a_ramp() -> None:
    w, want = td.param("w"), VALUES[0]
    for t, value in enumerate(VALUES[1:], 1):
        decay = min(0.999, (t + 1) / (t + 10))
        want = decay * want + (1 - decay) * value
    average = td.optim.ExponentialAverage([w], 0.999, ramp=True)
    assert taken(average, w) == pytest.approx(want)


def test_swap_and_state() -> None:
    w = td.param("w", init=1.0)
    average = td.optim.ExponentialAverage([w], 0.5)
    with pytest.raises(td.StateError, match="nothing was averaged"):
        average.swap()
    average.update()
    average.swap()
    with pytest.raises(td.StateError, match="swap back"):
        average.update()
    average.swap()
    again = td.optim.ExponentialAverage([w], 0.5)
    again.load_state_dict(average.state_dict())
    assert float(again.averages[0]) == 1.0 and int(again.count) == 1
    with pytest.raises(td.ModelFileError, match="w/average"):
        again.load_state_dict({"updates": 1})
