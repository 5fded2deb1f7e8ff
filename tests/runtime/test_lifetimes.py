"""Values die with their last reference: a loop leaves nothing to the collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import treadle as td
from treadle.engines.native.execution.run import memory_of

Step = Callable[[], object]


def assigning() -> Step:
    v = td.Variable(np.zeros(1000, np.float32))

    def step() -> None:
        v.assign(td.asarray(np.ones(1000, np.float32)) + v)
        td.evaluate(v)

    return step


def evaluating() -> Step:
    return lambda: td.evaluate({"a": td.exp(td.ones(1000)), "b": [td.ones(3) * 2]})


def training() -> Step:
    model = td.nn.Linear(30, 20)
    optimizer = td.optim.Adam(lr=1e-3)
    return lambda: float(optimizer.step((model(td.ones((4, 30))) ** 2).mean()))


def calling() -> Step:
    f = td.function(lambda x: td.exp(x).sum())
    return lambda: f(td.ones(1000)).numpy()


@pytest.mark.parametrize("make", [assigning, evaluating, training, calling])
def test_a_loop_frees_its_results_without_the_collector(
    make: Callable[[], Step],
) -> None:
    step = make()
    for _ in range(2):
        step()
    gc.collect()
    gc.disable()
    try:
        before = memory_of("fast").results.live_bytes()
        for _ in range(3):
            step()
        assert memory_of("fast").results.live_bytes() == before
    finally:
        gc.enable()


def test_networks_that_are_trained_once_and_dropped_are_gone() -> None:
    """No key of a graph that is looked at for rows keeps a Variable alive."""
    gone = []
    for _ in range(4):
        net = td.nn.Sequential(td.nn.Linear(6, 8), td.nn.ReLU(), td.nn.Linear(8, 3))
        optimizer = td.optim.SGD(net.parameters(), lr=0.1)
        float(optimizer.step(net(np.ones((4, 6), "f")).sum()))
        gone += [weakref.ref(p) for p in net.parameters()]
    del net, optimizer
    gc.collect()
    assert not [ref for ref in gone if ref() is not None]
