"""Values of rows that come again: not looked at anew, on the values of now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, trees
from treadle.runtime import rows
from treadle.runtime.rows import counts

SEEN = 3  # runs after which a graph is known: the first ones may become plans


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A list that grows where a graph is put into groups."""
    found = list[int]()
    real = rows._rows_of

    def noted(*given: Any, **named: Any) -> Any:
        nonlocal found
        made = real(*given, **named)
        found += [] if made is None else [1]
        return made

    rows._plans._table.clear()
    monkeypatch.setattr(rows, "_rows_of", noted)
    yield found


def inputs(k: float) -> list[Any]:
    return [td.constant(np.sin(np.arange(6.0) * j + k), "float64") for j in range(30)]


def loss_of(net: Net, xs: Any) -> Any:
    states = [net.leaf_cell(x) for x in xs]
    tops = [net.inner_cell(h, c, h, c)[0] for h, c in states]
    return td.stack([(h * h).sum() for h in tops]).sum()


def reference(net: Net, k: float) -> list[Any]:
    with td.options(autobatch=False, engine="reference"):
        loss = loss_of(net, inputs(k))
        grads = td.grad(loss, [net.below, net.inner])
        return [x.copy() for x in td.evaluate(loss, *grads)]


def test_values_of_now(looked: list[int]) -> None:
    net = Net()
    for k in range(SEEN + 5):
        if k == SEEN + 1:  # in the first one Variables had another age
            del looked[:]
        before = counts.runs
        loss = loss_of(net, inputs(k / 3))
        value = float(loss)
        assert counts.runs == before + 1
        grads = td.evaluate(*td.grad(loss, [net.below, net.inner]))
        for x, y in zip([value, *grads], reference(net, k / 3), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
        td.assign(net.below, net.below.numpy() * 1.1)
        td.assign(net.inner, net.inner.numpy() * 0.9)
        td.evaluate(net.below, net.inner)
    assert not looked


def test_bits_are_those_of_the_first_run(looked: list[int]) -> None:
    net = Net(cells=False)
    forest = trees(8, 6)

    def run() -> bytes:
        loss = td.stack(net.losses(forest)).mean()
        value = loss.numpy().tobytes()
        grads = td.grad(loss, net.parameters, unused="zero")
        return b"".join([value, *[x.tobytes() for x in td.evaluate(*grads)]])

    first = [run() for _ in range(SEEN)]
    del looked[:]
    assert {run() for _ in range(3)} == {*first} and not looked


def test_what_is_held_or_trained_decides(looked: list[int]) -> None:
    net = Net()
    for _ in range(SEEN + 1):
        float(loss_of(net, inputs(0)))
    del looked[:]
    xs = inputs(0)
    kept = net.keep()
    float(loss_of(net, xs))
    assert looked and len(kept) == 30
    with td.options(autobatch=False, engine="reference"):
        other = Net().leaf_cell(xs[7])[1].numpy()
    np.testing.assert_allclose(kept[7].numpy(), other, rtol=1e-10)
    net = Net()
    net.below.trainable = False
    del looked[:]
    loss = loss_of(net, xs)
    float(loss)
    assert looked
    (g,) = td.grad(loss, [net.inner])
    np.testing.assert_allclose(g.numpy(), reference(net, 0)[2], rtol=1e-10)


def test_a_derivative_by_data_and_a_second_one(looked: list[int]) -> None:
    net = Net()

    def run() -> list[Any]:
        xs = inputs(1)
        loss = loss_of(net, xs)
        value = float(loss)
        (g,) = td.grad(loss, [net.inner])
        (h,) = td.grad((g * g).sum(), [net.below])
        (x,) = td.grad(loss, [xs[3]])
        return [value, *td.evaluate(g, h, x)]

    found = [run() for _ in range(SEEN + 2)]
    with td.options(autobatch=False, engine="reference"):
        wanted = run()
    for got in found:
        for x, y in zip(got, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-11)


def test_a_position_out_of_range_is_told(looked: list[int]) -> None:
    net = Net()

    def run(last: int) -> float:
        ids = [td.constant(k % 9, "int64") for k in range(30)]
        ids[-1] = td.constant(last, "int64")
        return float(loss_of(net, [td.rows(net.table, k) for k in ids]))

    right = [run(3) for _ in range(SEEN + 1)]
    with pytest.raises(td.RunError, match="99"):
        run(99)
    assert run(3) == right[0] == right[-1]


def test_computed_of_variables(looked: list[int]) -> None:
    """What all rows share is computed anew."""
    net = Net()

    def run() -> tuple[float, Any]:
        turned = td.exp(net.below).T
        tops = [td.tanh(turned @ x) for x in inputs(2)]
        loss = td.stack([(h * h).sum() for h in tops]).sum()
        return float(loss), td.grad(loss, [net.below])[0].numpy()

    for k in range(SEEN + 3):
        td.assign(net.below, np.cos(np.arange(108.0).reshape(6, 18) + k))
        td.evaluate(net.below)
        got = run()
        with td.options(autobatch=False, engine="reference"):
            for x, y in zip(got, run(), strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-10)
