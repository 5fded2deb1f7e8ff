"""L-BFGS: the iterates of torch, the minimum of SciPy; groups as torch has them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import treadle as td

START = [-1.2, 1.0, 0.5, -0.7]

# By torch 2.13: the loss a step returns and the parameters after steps 1, 4 and 8, of
# 4 iterations each, by line search and length of the history.
RECORDED: dict[tuple[str | None, int], list[list[float]]] = {
    (None, 100): [
        [139.7, -1.19878278113, 0.998932736796, 0.499432191617, -0.697796307589],
        [
            136.850537581484,
            -1.195941384655,
            0.996782706223,
            0.499751889873,
            -0.686264360021,
        ],
        [
            132.944399175608,
            -1.19244963555,
            0.994260835086,
            0.500776814493,
            -0.670345667815,
        ],
    ],
    (None, 3): [
        [139.7, -1.19878278113, 0.998932736796, 0.499432191617, -0.697796307589],
        [
            136.750337725298,
            -1.19558666961,
            0.9967322868,
            0.499550315532,
            -0.685926180254,
        ],
        [
            132.587303124078,
            -1.191438578744,
            0.994132167418,
            0.50013213785,
            -0.669582425914,
        ],
    ],
    ("strong_wolfe", 100): [
        [139.7, -0.708773029139, 0.499187396306, 0.242508498174, 0.059911131164],
        [
            3.706521944487,
            -0.746816526924,
            0.565256074908,
            0.324842518423,
            0.106122201096,
        ],
        [
            3.701428610438,
            -0.775659561139,
            0.613093636172,
            0.38206325557,
            0.145972428501,
        ],
    ],
    ("strong_wolfe", 3): [
        [139.7, -0.708773029139, 0.499187396306, 0.242508498174, 0.059911131164],
        [
            3.70641501783,
            -0.747408519879,
            0.568638476237,
            0.328156216996,
            0.108810967548,
        ],
        [
            3.701428674294,
            -0.775654692102,
            0.613086650575,
            0.38205447507,
            0.145965324624,
        ],
    ],
}


def rosenbrock(x: Any) -> Any:
    a, b = x[1:], x[:-1]
    return (100.0 * (a - b * b) ** 2 + (1.0 - b) ** 2).sum()


@pytest.mark.parametrize("search, history", RECORDED)
def test_the_iterates_of_torch(search: str | None, history: int) -> None:
    x = td.param("x", init=START, dtype="float64")
    optimizer = td.optim.LBFGS(
        [x], 1.0 if search else 1e-3, 4, history_size=history, line_search_fn=search
    )
    rows = []
    for _ in range(8):
        loss = optimizer.step(lambda: rosenbrock(x))
        rows.append([loss, *x.tolist()])
    recorded = RECORDED[search, history]
    assert np.allclose([rows[k] for k in (0, 3, 7)], recorded, rtol=1e-9, atol=1e-10)


def test_the_minimum_of_scipy() -> None:
    optimize = pytest.importorskip("scipy.optimize")
    x = td.param("x", init=[-1.2, 1.0], dtype="float64")
    optimizer = td.optim.LBFGS(
        [x], max_iter=100, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )
    optimizer.step(lambda: rosenbrock(x))
    wanted = optimize.minimize(
        lambda v: float(rosenbrock(v)), [-1.2, 1.0], method="L-BFGS-B", tol=1e-14
    )
    assert np.allclose(x.numpy(), wanted.x, atol=1e-4)
    assert np.allclose(x.numpy(), 1.0, atol=1e-7)


def test_what_lbfgs_refuses() -> None:
    x = td.param("x", init=1.0)
    with pytest.raises(td.ArgumentError, match="strong_wolfe"):
        td.optim.LBFGS([x], line_search_fn="armijo")
    with pytest.raises(td.ArgumentError, match="above 0"):
        td.optim.LBFGS([x], lr=0.0)


def test_rates_of_groups_are_read_and_set_as_in_torch() -> None:
    x, y, z = (td.param(name, init=2.0) for name in "xyz")
    optimizer = td.optim.SGD(
        [{"params": [x]}, {"params": [y], "lr": 0.5, "momentum": 0.5}], lr=0.25
    )
    first, second = optimizer.param_groups
    assert (first["lr"], second["lr"]) == (0.25, 0.5)
    assert (first["momentum"], second["momentum"]) == (0.0, 0.5)
    assert first["params"][0] is x
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    optimizer.add_param_group({"params": z, "lr": 1.0})
    assert [group["lr"] for group in optimizer.param_groups] == [0.125, 0.25, 1.0]
    optimizer.step(x * x + y * y + z * z)
    assert (float(x), float(y), float(z)) == (1.5, 1.0, -2.0)
    with pytest.raises(td.ArgumentError, match="in two groups"):
        optimizer.add_param_group({"params": [x]})
    with pytest.raises(td.ArgumentError, match="only 'lr' is set"):
        first["momentum"] = 0.1
    assert len(optimizer.param_groups) == 3


def test_a_group_that_was_added_is_in_the_pickle() -> None:
    x, y = td.param("x", init=2.0), td.param("y", init=2.0)
    optimizer = td.optim.Adam([x], lr=0.25)
    optimizer.add_param_group({"params": [y], "lr": 0.5})
    optimizer.param_groups[1]["lr"] = 0.125
    optimizer.step(x * x + y * y)
    a, b, other = pickle.loads(pickle.dumps((x, y, optimizer)))
    assert [g["lr"] for g in other.param_groups] == [0.25, 0.125]
    other.step(a * a + b * b)
    optimizer.step(x * x + y * y)
    assert (float(a), float(b)) == (float(x), float(y))
