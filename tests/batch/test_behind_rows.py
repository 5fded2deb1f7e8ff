"""Graphs that come once: their rows run first, and what reads these follows a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, Tree, trees
from tests.batch.test_batching import agree
from treadle.runtime import evaluate
from treadle.runtime.again import Plans

# Each of another form, of as many words: what reads the rows is alike in all.
TREES = list({repr(t): t for t in trees(11, 400) if 30 < len(repr(t)) < 34}.values())
Step = Callable[[td.optim.Optimizer, Any], Any]


def at_once(opt: td.optim.Optimizer, loss: Any) -> Any:
    return opt.step(loss)


def in_two(opt: td.optim.Optimizer, loss: Any) -> Any:
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss


def read(opt: td.optim.Optimizer, loss: Any) -> Any:
    float(loss)
    return opt.step(loss)


def trained(step: Step, forest: list[Tree], credit: bool = False) -> tuple[Any, Any]:
    """The losses and weights of a step by each tree, and the optimizer."""
    net = Net(False)
    opt = td.optim.Adam(net.parameters, lr=0.01)
    opt._plans._table.credit = 32 * credit
    losses = [float(step(opt, loss)) for t in forest for loss in net.losses([t])]
    return [losses, *[p.numpy() for p in net.parameters]], opt


@pytest.mark.parametrize("step", [at_once, in_two, read])
def test_steps_of_trees_never_seen_follow_a_plan(step: Step) -> None:
    forest, x = TREES[:12], td.param("x", init=1.0)
    gradient = td.grad(td.exp(x), x)  # of something else, which waits
    got, opt = trained(step, forest)
    plans: list[Plans] = [opt._plans, opt._behind_rows]
    assert sum(x.hits for x in plans) > len(forest) / 2
    assert float(gradient) == pytest.approx(np.e)
    with td.options(autobatch=False):
        want, _ = trained(step, forest)
    agree((got, want))


def test_the_way_of_a_step_decides_no_bit() -> None:
    """Whole graphs that are planned at the first sight, and rows that run first."""
    for x, y in zip(*[trained(at_once, TREES[:8], k)[0] for k in (0, 1)], strict=True):
        np.testing.assert_array_equal(x, y)


def test_how_many_rows_are_held_changes_no_plan() -> None:
    """A plan serves whichever number the row has that is derived."""
    net = Net(False)
    inside = net.keep()
    opt = td.optim.SGD(net.parameters, lr=0.01)
    opt._plans._table.credit = 0
    for k, t in enumerate(TREES[:8]):
        inside.clear()
        (loss,) = net.losses([t])
        del inside[k // 2 :]
        opt.step(loss)
        assert all(np.isfinite(c.numpy()).all() for c in inside)
    assert opt._behind_rows.hits > 5


def test_values_of_trees_never_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    plans, behind = Plans(), Plans()
    plans._table.credit = 0
    monkeypatch.setattr(evaluate, "_plans", plans)
    monkeypatch.setattr(evaluate, "_behind_rows", behind)
    net = Net(False)

    def values() -> list[float]:
        return [float(loss) for t in TREES[:10] for loss in net.losses([t])]

    got = values()
    assert behind.hits > 5
    with td.options(autobatch=False):
        agree((got, values()))
