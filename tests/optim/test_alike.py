"""Models made in a loop: a first step by the plan of an optimizer made alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.core import native
from treadle.runtime import evaluate

nn, optim = td.nn, td.optim
Make = Callable[[Any], Any]


def grouped(net: Any) -> Any:
    body, head = net[0], net[2]
    groups = [{"params": body.parameters(), "lr": 0.5}, {"params": head.parameters()}]
    return optim.SGD(groups, lr=0.1, momentum=0.9)


def frozen(net: Any) -> Any:
    net[0].weight.requires_grad = False
    return optim.Adam(net.parameters(), lr=0.1)


def restored(net: Any) -> Any:
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    optimizer.load_state_dict({"step": np.array(3)}, strict=False)
    return optimizer


def assigned(net: Any) -> Any:
    with td.no_grad():
        for p in net.parameters():
            p.assign(p * 0.5)
    return optim.SGD(net.parameters(), lr=0.1)


# Any two of these follow one another: what one has left the next may not take for its.
MAKERS: list[Make] = [
    lambda net: optim.SGD(net.parameters(), lr=0.1),
    lambda net: optim.SGD(net.parameters(), lr=0.2),
    lambda net: optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
    lambda net: optim.SGD(net.parameters(), lr=0.1, momentum=0.5),
    lambda net: optim.SGD(net.parameters(), lr=0.1, weight_decay=0.1),
    lambda net: optim.SGD(net.parameters(), lr=0.1, clip_norm=0.1),
    lambda net: optim.SGD(net.parameters(), lr=0.1, clip_norm=0.2),
    lambda net: optim.SGD(net.parameters(), lr=0.1, accumulate=2),
    lambda net: optim.SGD(net.parameters(), lr=0.1, clip_weights=0.1),
    lambda net: optim.Adam(net.parameters(), lr=0.1),
    lambda net: optim.Adam(net.parameters(), lr=0.1, betas=(0.5, 0.9)),
    lambda net: optim.Adam(net.parameters(), lr=0.1, on_nan="skip"),
    lambda net: optim.AdamW(net.parameters(), lr=0.1),
    lambda net: optim.RMSProp(net.parameters(), lr=0.1),
    lambda net: optim.Adagrad(net.parameters(), lr=0.1),
    lambda net: optim.Adam(net.parameters(), lr=optim.schedules.cosine(0.1, 10)),
    lambda net: optim.Adam(net.parameters(), lr=optim.schedules.cosine(0.2, 20)),
    lambda net: optim.Optimizer(net.parameters(), 0.1, optim.rules.trace(0.9)),
    lambda net: optim.Optimizer(net.parameters(), 0.1, optim.rules.trace(0.5)),
    lambda net: optim.SGD(net[2].parameters(), lr=0.1, momentum=0.9),
    lambda _: optim.SGD(lr=0.1, momentum=0.9),
    grouped,
    frozen,
    restored,
    assigned,
]


def trained(make: Make, backward: bool, dtype: str = "float32") -> list[Any]:
    """Losses, weights and states of a model that is made and takes three steps."""
    rng = np.random.default_rng(0)
    with td.options(seed=0):
        net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
        net = net.astype(dtype)
        optimizer, found = make(net), list[Any]()
    for _ in range(3):
        x = rng.standard_normal((6, 5)).astype(dtype)
        loss = td.cross_entropy(net(x), rng.integers(0, 3, 6))
        if backward:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        else:
            optimizer.step(loss)
        found.append(loss.numpy())
    found += [p.numpy() for p in net.parameters()]
    return found + [x for _, x in sorted(optimizer.state_dict().items())]


def same(one: list[Any], other: list[Any]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in pairs)


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many roots each run had that followed no plan, where none is known."""
    td.clear_cache()
    runs, run_anew = list[int](), evaluate._run_anew

    def counted(roots: Any, *rest: Any) -> Any:
        runs.append(len(roots))
        return run_anew(roots, *rest)

    monkeypatch.setattr(evaluate, "_run_anew", counted)
    yield runs
    td.clear_cache()


@pytest.mark.parametrize("backward", [False, True])
def test_each_comes_to_what_it_does_alone(backward: bool, anew: list[int]) -> None:
    first = [trained(make, backward) for make in MAKERS]
    for make, expected in zip(MAKERS, first, strict=True):
        assert same(trained(make, backward), expected)
    for make, expected in zip(MAKERS, first, strict=True):
        td.clear_cache()
        assert same(trained(make, backward), expected)


@pytest.mark.skipif(native is None, reason="plans of small programs are the core's")
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("k", [0, 2, 5, 9, 12, MAKERS.index(grouped)])
def test_a_first_step_follows_the_plan_of_another(
    k: int, backward: bool, anew: list[int]
) -> None:
    for _ in range(2):  # its own draws and parameters have run, too
        trained(MAKERS[k], backward)
    anew.clear()
    trained(MAKERS[k], backward)
    assert not anew
    trained(MAKERS[k], backward, "float64")
    assert anew  # what is of another type is another step


def test_what_a_first_step_let_go_of_is_told_as_by_the_first(anew: list[int]) -> None:
    for _ in range(3):
        net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
        y = net(np.ones((2, 5), np.float32))
        td.optim.SGD(net[2].parameters(), lr=0.1).step(y.sum())
        (g,) = td.grad(y.sum(), [net[0].weight])  # as others are trained by it yet
        assert g.shape == (4, 5)
        with pytest.raises(td.GradientError):
            z = net(np.ones((2, 5), np.float32))
            td.optim.SGD(net.parameters(), lr=0.1).step(z.sum())
            td.grad(z.sum(), [net[0].weight])
