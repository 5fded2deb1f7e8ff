"""States of data that each step carries on: they lead to no step before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

STATES: dict[str, Callable[[Any, Any], Any]] = {
    "mean of data": lambda s, x: s * 0.9 + td.asarray(np.ones((4, 3), "f4")) * 0.1,
    "mean of what is detached": lambda s, x: s * 0.9 + td.stop_gradient(x) * 0.1,
    "detached mean": lambda s, x: td.stop_gradient(s * 0.9 + x * 0.1),
    "queue": lambda s, x: td.concat([td.stop_gradient(x), s])[:4],
}


def by_step(optimizer: Any, loss: Any) -> None:
    optimizer.step(loss)


def by_backward(optimizer: Any, loss: Any) -> None:
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("train", [by_step, by_backward])
@pytest.mark.parametrize("name", STATES)
def test_a_state_leads_to_no_step_before(name: str, train: Any) -> None:
    layer = td.nn.Linear(3, 3)
    optimizer = td.optim.SGD(layer.parameters(), lr=0.1)
    state: Any = td.zeros((4, 3))
    sizes = []
    for _ in range(8):
        x = layer(np.ones((4, 3), np.float32))
        held = state
        train(optimizer, ((x - state) ** 2).mean())
        state = STATES[name](held, x)
        sizes.append(len(td.nodes(state)))
    assert sizes[-1] == sizes[2]


@pytest.mark.parametrize("steps", [1, 2, 6])  # the long way, one that notes, a plan
def test_a_derivative_by_data_through_a_step_raises(steps: int) -> None:
    w = td.param("w", init=np.ones(3))
    optimizer = td.optim.SGD([w], lr=0.1)
    for _ in range(steps):
        x = td.asarray(np.arange(3.0))
        h = x * 2.0
        optimizer.step((w * h).sum())
    for unused in (None, "zero"):
        with pytest.raises(td.GradientError, match="was let go"):
            td.grad((h * x).sum(), [x], **{"unused": unused} if unused else {})
    # For what came later, and for what was trained, it is a constant.
    other = td.asarray(np.ones(3))
    assert td.grad((h * other).sum(), [other])[0].tolist() == [0.0, 2.0, 4.0]
    assert td.grad((h * w).sum(), [w])[0].tolist() == [0.0, 2.0, 4.0]
    assert float(td.jvp((h * w).sum(), [w], [np.ones(3)])) == 6.0
    (h * w).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [0.0, 2.0, 4.0]
