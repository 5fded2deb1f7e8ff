"""Loops on the devices there are: launches in a row, nothing copied between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.engines.gpus import GPUS, gpu
from tests.engines.test_gpu import IDS, recurrent
from treadle.engines.gpu import bound, linked
from treadle.engines.gpu.memory import Counts


@pytest.mark.parametrize("name", GPUS)
def test_loops_copy_nothing_but_feeds_and_the_loss(name: str) -> None:
    with td.options(engine=name, seed=3):
        loss, optimizer = recurrent(), td.optim.Adam(lr=0.01)
        for _ in range(3):
            before = gpu(name).store.counts
            float(optimizer.step(loss()))
        counts = gpu(name).store.counts - before
    words, state = 4 * IDS.size, 4 * IDS.shape[1] * 24  # where the LSTM begins
    assert counts == Counts(3, 2 * words + state, 1, 4, counts.launches)


@pytest.mark.parametrize("name", GPUS)
def test_launches_are_bound_once_to_memory_that_stays(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps and all iterations of loops: later runs hand over what is there."""
    driver, calls = gpu(name).driver, []

    def bind(*arguments: Any) -> Any:
        calls.append(arguments)
        return real(*arguments)

    with td.options(engine=name, seed=3):
        loss, optimizer = recurrent(), td.optim.Adam(lr=0.01)
        for _ in range(4):
            float(optimizer.step(loss()))
        real = driver.bind
        monkeypatch.setattr(driver, "bind", bind)
        before = gpu(name).store.counts
        for _ in range(3):
            float(optimizer.step(loss()))
    assert (gpu(name).store.counts - before).launches > 100
    assert not calls


def states(s: Any, x: Any) -> Any:
    """Three carries that change places: what one is made of becomes the others."""
    a, b, c = s
    return (b, c, td.tanh(a @ td.full((9, 9), 0.1) + x)), (a * 2, b)


def stacked(s: Any, x: Any) -> Any:
    """The same, with what the new one was before each iteration."""
    return states(s, x)[0], (s[0], s[2])


def sorted_words(s: Any, x: Any) -> Any:
    """Rows of 5 bytes, one of which is passed on as it is."""
    a, b = s
    return (td.sort((a ^ x).astype("int32")) == 1, b), (a, b)


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("length", "most"), [(1, 4096), (5, 4096), (6, 4096), (7, 2)])
def test_carries_may_change_places(
    name: str,
    length: int,
    most: int,
    reverse: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where launches are too many to be remembered, or handed over at once."""
    monkeypatch.setattr(linked, "CALLS", most)
    monkeypatch.setattr(bound, "TOGETHER", most)
    rng, found = np.random.default_rng(0), {}
    start = rng.normal(size=(3, 4, 9)).astype(np.float32)
    rows, bits = rng.normal(size=(length, 4, 9)), rng.random((length + 2, 5)) < 0.5
    for own in ("native", name):
        with td.options(engine=own):
            x = td.asarray(rows.astype(np.float32))
            runs = [(f, start, x) for f in (states, stacked)]
            runs.append((sorted_words, bits[:2], td.asarray(bits[2:])))
            ends = [td.scan(f, tuple(s), x, reverse=reverse) for f, s, x in runs]
            found[own] = [y.numpy() for last, ys in ends for y in (*last, *ys)]
    for y, want in zip(found[name], found["native"], strict=True):
        np.testing.assert_allclose(y.astype(float), want.astype(float), 1e-5, 1e-6)


def chosen() -> Any:
    """A loop of seven iterations, by data, and a branch on what it makes."""
    rng = np.random.default_rng(0)
    weights, start = (rng.normal(size=n).astype(np.float32) for n in ((9, 9), (9, 4)))

    def step(state: Any) -> Any:
        x, n = state
        return td.tanh(td.asarray(weights) @ x), n + 1

    def run(limit: int) -> list[np.ndarray[Any, Any]]:
        most, begin = td.asarray(np.int32(limit)), td.asarray(np.int32(0))
        x, n = td.while_loop(lambda s: s[1] < most, step, (td.asarray(start), begin))
        y = td.cond(x.sum() > n, lambda v: td.asarray(weights) @ v, lambda v: -v, x)
        return list(td.evaluate(y, n))

    return run


@pytest.mark.parametrize("name", GPUS)
def test_branches_and_loops_by_data_copy_out_what_they_decide_by(name: str) -> None:
    run, want = chosen(), chosen()(7)
    with td.options(engine=name):
        for limit in (7, 0, 7, 7):
            before = gpu(name).store.counts
            found = run(limit)
    counts = gpu(name).store.counts - before
    for y, x in zip(found, want, strict=True):
        np.testing.assert_allclose(y, x, 1e-5, 1e-6)
    # Eight verdicts, the branch's and two results; what the loop begins with.
    assert (counts.copies_out, counts.bytes_out) == (11, 8 + 1 + 4 * 36 + 4)
    assert counts.copies_in == 3
