"""Training steps over batched runs: what they leave behind, and what they do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, trees
from treadle.runtime import evaluate, rows


def loss_of(net: Net, seed: int) -> Any:
    return td.stack(net.losses(trees(seed, 24))).mean()


def test_a_table_is_changed_where_it_lies() -> None:
    net = Net(cells=True)
    opt = td.optim.SGD(lr=0.1)
    table = net.table
    places = set()
    for step in range(4):
        before = table.numpy().copy()
        opt.step(loss_of(net, step))
        places.add(table.committed.array.ctypes.data)  # type: ignore[union-attr]
        assert not np.array_equal(before, table.numpy())
    assert len(places) == 1


def test_rows_that_are_held_keep_their_tape() -> None:
    """A state that is not behind the loss can still be derived after the step."""
    net = Net(cells=True)
    forest = trees(3, 24)
    losses = net.losses(forest)
    rest = losses[12:]
    with td.options(autobatch=False, engine="reference"):
        other = Net(cells=True)
        wanted = td.grad(
            td.stack(other.losses(forest)[12:]).sum(), other.parameters, unused="zero"
        )
        wanted = [g.numpy() for g in wanted]
    found = td.grad(td.stack(rest).sum(), net.parameters, unused="zero")
    found = [g.numpy() for g in found]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


def test_a_step_that_fails_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(cells=True)
    opt = td.optim.SGD(lr=0.1)
    opt.step(loss_of(net, 0))
    before = [p.numpy().copy() for p in net.parameters]
    loss, real = loss_of(net, 1), evaluate.work

    def fails(*args: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(evaluate, "work", fails)
    with pytest.raises(MemoryError):
        opt.step(loss)
    monkeypatch.setattr(evaluate, "work", real)
    with pytest.raises(td.GradientError, match="build the expression again"):
        opt.step(loss)
    for p, array in zip(net.parameters, before, strict=True):
        np.testing.assert_array_equal(p.numpy(), array)
    opt.step(loss_of(net, 1))


def test_a_sentence_of_a_new_length_is_rows_of_its_cells() -> None:
    """Two directions and a score a word: a program for each length costs far more."""
    table, ahead, back = (td.nn.Embedding(50, 8), *(td.nn.LSTMCell(8, 6),) * 2)
    out = td.nn.Linear(12, 5)
    ahead, back = (td.function(lambda x, s, f=f: f(x, s)) for f in (ahead, back))
    score = td.function(lambda x, y: out(td.concat([x, y])))
    zero = td.zeros(6)

    def states(cell: Any, words: Any) -> list[Any]:
        state, found = (zero, zero), []
        for x in words:
            state = cell(x, state)
            found.append(state[0])
        return found

    def loss(length: int) -> Any:
        words = [table(k * 7 % 50) for k in range(length)]
        lefts, rights = states(ahead, words), states(back, words[::-1])[::-1]
        scores = [score(x, y) for x, y in zip(lefts, rights, strict=True)]
        tags = [k % 5 for k in range(length)]
        return td.nn.functional.cross_entropy(td.stack(scores), tags)

    before, optimizer = rows.counts.runs, td.optim.SGD(lr=0.0)
    for count, length in enumerate((12, 17, 31), 1):
        found = float(optimizer.step(loss(length)))
        assert rows.counts.runs == before + count
        with td.options(autobatch=False, engine="reference"):
            np.testing.assert_allclose(found, loss(length).numpy(), rtol=1e-5)
