"""Settings of optimizers mean what they do in torch, and are kept as states are."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.optim.torchs import ROWS, SCALES, START, STEPS, called


def _loss(p: td.Variable, keywords: dict[str, Any]) -> td.Tensor:
    sign = -1.0 if keywords.get("maximize") else 1.0
    return sign * (p * p * np.array(SCALES) + td.sin(p)).sum()


def _named(row: tuple[str, dict[str, Any], list[float]]) -> str:
    return row[0] + "".join(f" {k}={v}" for k, v in row[1].items() if k != "lr")


@pytest.mark.parametrize(("name", "keywords", "want"), ROWS, ids=map(_named, ROWS))
def test_twenty_steps_end_where_torchs_do(
    name: str, keywords: dict[str, Any], want: list[float]
) -> None:
    p = td.param("p", init=np.array(START), dtype="float64")
    optimizer = called(td.optim, name, p, keywords)
    for k in range(STEPS):
        if k == 7:
            p, optimizer = pickle.loads(pickle.dumps((p, optimizer)))
        optimizer.step(_loss(p, keywords))
    np.testing.assert_allclose(p.numpy(), want, rtol=0, atol=1e-6)
    for setting, value in keywords.items():
        assert optimizer.param_groups[0][setting] == value


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: td.optim.SGD(lr=0.1, nesterov=True), "momentum above 0"),
        (
            lambda: td.optim.SGD(lr=0.1, momentum=0.9, dampening=0.1, nesterov=True),
            "no dampening",
        ),
        (lambda: td.optim.Adagrad(lr=0.1, lr_decay=-0.1), "not negative"),
        (lambda: td.optim.SGD(lr=0.1, weight_decay=-0.1), "not negative"),
    ],
)
def test_what_torch_refuses_is_a_value_error(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_groups_may_go_up_beside_others_that_go_down() -> None:
    x, y = td.param("x", init=2.0), td.param("y", init=2.0)
    groups = [{"params": [x]}, {"params": [y], "maximize": True}]
    td.optim.SGD(groups, lr=0.25).step(x * x + y * y)
    assert (float(x), float(y)) == (1.0, 3.0)


def test_a_parameter_that_comes_later_has_its_first_step_then() -> None:
    x, y = (td.param(name, init=2.0, dtype="float64") for name in "xy")
    opt = td.optim.SGD([x, y], lr=0.25, momentum=0.5, dampening=0.5)
    opt.step(x * x)
    opt.step(x * x + y * y)
    # v is 4, then 0.5 4 + 0.5 2 for x; the first one of y, 4, is whole.
    assert (float(x), float(y)) == (0.25, 1.0)


def test_a_step_up_touches_no_rows_but_those_of_its_gradient() -> None:
    table = td.param("table", init=np.ones((4, 2)))
    opt = td.optim.SGD([table], lr=0.5, maximize=True)
    for _ in range(2):
        opt.step(td.nn.functional.embedding(np.array([1, 1, 3]), table).sum())
    assert table.numpy().tolist() == [[1, 1], [3, 3], [1, 1], [2, 2]]
    assert opt.groups[0].by_rows(table, None), "as a step down does"
