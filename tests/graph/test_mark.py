"""Building on trial, and going back."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, trees


def program(trial: bool) -> list[Any]:
    """Draws, assignments and a gradient, with or without something on trial between."""
    with td.options(seed=5):
        count = td.Variable(0.0, name="count")
        w = td.param("w", init=np.ones(3))
        count += 1
        h = td.dropout(w * 2, 0.5)
        if trial:
            mark = td.mark()
            count += 10
            guess = td.dropout(h * 3, 0.5) + td.random.normal((3,))
            assert guess.shape == (3,)
            mark.revert()
        count += 1
        y = (td.dropout(h, 0.5) * count).sum()
        return [y.numpy(), td.grad(y, [w])[0].numpy(), float(count)]


def test_what_follows_is_what_it_would_have_been() -> None:
    for x, y in zip(program(False), program(True), strict=True):
        np.testing.assert_array_equal(x, y)
    assert program(True)[2] == 2.0


def test_values_may_be_asked_for_on_trial() -> None:
    net = Net()
    forest = trees(30, 16)

    def run(trial: bool) -> list[Any]:
        with td.options(seed=9):
            states = [net.encode(t) for t in forest]
            chosen = []
            for k, (h, c) in enumerate(states):
                if not trial:
                    chosen.append(h)
                    continue
                mark = td.mark()
                other = net.inner_cell(h, c, *states[k - 1])[0]
                better = float(td.dropout(other, 0.5).sum()) > 1e9
                mark.revert()
                chosen.append(other if better else h)
            loss = td.stack([(h * h).sum() for h in chosen]).sum()
            return [float(loss), *td.evaluate(*td.grad(loss, net.parameters[:4]))]

    for x, y in zip(run(False), run(True), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


def test_marks_nest() -> None:
    v = td.Variable(0.0)
    outer = td.mark()
    v += 1
    inner = td.mark()
    v += 2
    inner.revert()
    inner.revert()
    v += 4
    kept = td.mark()
    outer.revert()
    for gone in (inner, kept):
        with pytest.raises(td.StateError, match="an earlier mark was reverted to"):
            gone.revert()
    assert float(v) == 0.0


def test_what_was_built_on_trial_goes_away() -> None:
    x = td.param("x", init=2.0)
    mark = td.mark()
    y = td.exp(x)
    alive = weakref.ref(y)
    mark.revert()
    del y
    gc.collect()
    assert alive() is None


def test_what_a_run_has_carried_out_stays() -> None:
    v, w = td.Variable(0.0, name="v"), td.param("w", init=2.0)
    v += 1
    mark = td.mark()
    assert float(w * 3) == 6.0  # carries out the first assignment
    mark.revert()
    assert float(v) == 1.0
    td.optim.SGD(lr=0.25).step(w * w)
    mark.revert()
    assert float(w) == 1.0
    v += 1
    assert float(w) == 1.0
    with pytest.raises(
        td.StateError, match="'v' was assigned since the mark"
    ) as caught:
        mark.revert()
    assert "model.eval()" in str(caught.value)


def test_a_mark_belongs_where_it_was_made() -> None:
    mark = td.mark()
    caught: list[BaseException] = []

    def elsewhere() -> None:
        try:
            mark.revert()
        except td.StateError as error:
            caught.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "another thread" in str(caught[0])
    with td.options(seed=1), pytest.raises(td.StateError, match="seed scope"):
        mark.revert()
    with td.options(threads=1):
        mark.revert()
    with pytest.raises(td.StateError, match="traced once"):
        td.function(lambda x: (td.mark(), x)[1])(td.constant(1.0))


def test_marks_are_not_kept() -> None:
    mark = weakref.ref(td.mark())
    gc.collect()
    assert mark() is None
