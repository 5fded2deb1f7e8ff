"""Nodes of several results: a run that makes one makes all that somebody holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.types import Type
from treadle.engines.base import engine
from treadle.graph import look as looking
from treadle.graph.look import look
from treadle.graph.numbers import number_of, number_of_type
from treadle.graph.traversal import _visited, pending

nn = td.nn


def values(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def programs() -> int:
    cache = engine("native").programs  # type: ignore[attr-defined]
    return int(cache.hits + cache.misses)


def test_a_result_that_somebody_holds_is_there_with_the_other_one() -> None:
    cell = nn.LSTMCell(3, 4)
    h, c = cell(values(2, 3), (values(2, 4), values(2, 4)))
    h.numpy()
    assert c.stored is not None
    before = programs()
    c.numpy()
    assert programs() == before


def test_a_result_that_nobody_holds_is_not_computed() -> None:
    w, v = td.param(init=values(64, 64)), td.param(init=values(64, 64, seed=1))
    g, other = td.grad(td.tanh(values(8, 64) @ w @ v).sum(), [w, v])
    del other
    g.numpy()
    program = td.latest_program()
    assert program is not None
    # The one forward product, and one back to the first weight through the other.
    assert program.program.count(" = product") <= 4


def test_states_of_cells_that_are_read_at_each_step_are_computed_once() -> None:
    cell, head = nn.LSTMCell(5, 8), nn.Linear(8, 6)
    table = nn.Embedding(6, 5)

    def sample(steps: int) -> list[int]:
        with td.no_grad():
            h = c = td.zeros((1, 8))
            ids = [1]
            for _ in range(steps):
                h, c = cell(table(np.array(ids[-1:])), (h, c))
                pending_nodes.append(len(pending([h, c])))
                ids.append(int(head(h)[0].argmax()))
        return ids

    pending_nodes: list[int] = []
    with td.options(engine="reference"):
        wanted = sample(12)
    pending_nodes.clear()
    assert sample(12) == wanted
    assert pending_nodes[-1] == pending_nodes[2]


@pytest.mark.parametrize("before", [True, False])
def test_truncated_steps_do_not_grow(before: bool) -> None:
    """States carried over steps (Williams and Peng 1990): nothing before is kept."""
    cell, head = nn.LSTMCell(3, 4), nn.Linear(4, 3)
    rng = np.random.default_rng(0)
    for p in (*cell.parameters(), *head.parameters()):
        p.assign(rng.standard_normal(p.shape).astype(np.float32) * 0.3)
    first = [p.numpy() for p in (*cell.parameters(), *head.parameters())]

    def train(by_value: bool) -> tuple[list[float], list[int]]:
        for p, w in zip((*cell.parameters(), *head.parameters()), first, strict=True):
            p.assign(w)
        optimizer = td.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
        h = c = td.zeros((2, 4))
        losses, sizes = [], []
        for k in range(8):
            loss = 0.0
            for t in range(3):
                h, c = cell(values(2, 3, seed=10 * k + t), (h, c))
                loss = loss + (head(h) ** 2).mean()
            if before and not by_value:
                h, c = h.detach(), c.detach()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[attr-defined]
            optimizer.step()
            if by_value:
                h, c = td.asarray(h.numpy()), td.asarray(c.numpy())
            elif not before:
                h, c = h.detach(), c.detach()
            losses.append(float(loss))
            sizes.append(len(td.nodes(c)))
        return losses, sizes

    losses, sizes = train(by_value=False)
    wanted, _ = train(by_value=True)
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    assert len(set(sizes)) == 1


def test_what_a_step_has_made_of_both_results_is_cut() -> None:
    """Neither refers to the weights before, which are written over."""
    cell = nn.LSTMCell(3, 4)
    optimizer = td.optim.SGD(cell.parameters(), lr=0.1)
    for _ in range(3):
        h, c = cell(values(2, 3), (values(2, 4), values(2, 4)))
        optimizer.step((h * h).sum())
        assert not h.inputs and not c.inputs
        with pytest.raises(td.GradientError, match="let go"):
            td.grad(c.sum(), list(cell.parameters()))


def _by_python(*given: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(looking, "native", None)
        return look(*given)


def test_walks_of_the_core_and_of_python_see_the_same_results() -> None:
    cell = nn.LSTMCell(3, 4)
    h, c = cell(values(2, 3), (values(2, 4), values(2, 4)))
    loss = (h * h).sum()
    assert [x.serial for x in _visited([loss])] == [x.serial for x in pending([loss])]
    assert c.serial in {x.serial for x in pending([loss])}
    for x in td.nodes([loss, c]):  # the core reads numbers that Python has given
        if isinstance(x.type, Type):
            number_of_type(x.type)
        number_of(x.op)
    del x
    found = []
    for walked in (look, _by_python):
        seen = walked([loss], (), {}, False)
        assert seen is not None
        found.append(([x.serial for x in seen.nodes], seen.held, seen.key))
        del seen  # what it lists would count
    assert found[0] == found[1]
    del c
    assert len(pending([loss])) == len(_visited([loss])) == len(found[0][0]) - 1
