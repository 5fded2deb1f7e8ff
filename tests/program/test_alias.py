"""Memory that is written over: operands in the arena, old versions, lent results."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.engines.base import engine
from treadle.loops.index import Index, LoopAxis
from treadle.program.alias import _meet

RNG = np.random.default_rng(7)
X = RNG.standard_normal((48, 64)).astype(np.float32)
W = RNG.standard_normal((64, 80)).astype(np.float32)
LABELS = RNG.integers(0, 80, 48)
JOINED = RNG.standard_normal((48, 80)).astype(np.float32)
SIZE = 48 * 80 * 4


def scores() -> td.Tensor:
    return td.asarray(X) @ td.asarray(W)


def numpy_softmax(y: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    e = np.exp(y - y.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _slope() -> td.Tensor:
    y = scores()
    loss = td.cross_entropy(y, LABELS, reduction="sum")
    return td.grad(loss, [y])[0] @ td.asarray(W.T)


def _slope_by_numpy() -> np.ndarray[Any, Any]:
    p = numpy_softmax(X @ W)
    p[np.arange(48), LABELS] -= 1
    return p @ W.T


def _beside_a_join(y: td.Tensor) -> td.Tensor:
    parts = [td.asarray(JOINED[:, :32]), td.asarray(JOINED[:, 32:])]
    return td.exp(y - y.max()) + td.concat(parts, 1)


def _parts_turned(y: td.Tensor) -> td.Tensor:
    return y + td.concat([y[:, 48:], y[:, :48]], 1)


# What is computed, what NumPy says, and how often the scores' size lies in the arena.
CASES: list[tuple[str, Callable[[], td.Tensor], Callable[[], Any], float]] = [
    (
        "element by element",
        lambda: td.exp(scores() ** 2).T @ td.asarray(X),
        lambda: np.exp((X @ W) ** 2).T @ X,
        1,
    ),
    ("cross entropy's slope", _slope, _slope_by_numpy, 1),
    (
        "in a loop for each part of a join",
        lambda: _beside_a_join(scores()) @ td.asarray(W.T),
        lambda: (np.exp(X @ W - (X @ W).max()) + JOINED) @ W.T,
        1,
    ),
    (
        "the parts of a join turned around",
        lambda: _parts_turned(td.tanh(scores())) @ td.asarray(W.T),
        lambda: (np.tanh(X @ W) + np.roll(np.tanh(X @ W), 32, 1)) @ W.T,
        2,
    ),
    (
        "turned around: every element is read after another was written",
        lambda: (td.tanh(scores()) + td.tanh(scores())[::-1]) @ td.asarray(W.T),
        lambda: (np.tanh(X @ W) + np.tanh(X @ W)[::-1]) @ W.T,
        2,
    ),
]


@pytest.mark.parametrize(("name", "make", "by_numpy", "times"), CASES)
@pytest.mark.parametrize("mode", ["fast", "poison", "guard"])
def test_operands_that_die_are_written_over(
    name: str,
    make: Callable[[], td.Tensor],
    by_numpy: Callable[[], Any],
    times: float,
    mode: str,
) -> None:
    with td.options(arena=mode):
        np.testing.assert_allclose(make().numpy(), by_numpy(), rtol=2e-3, atol=1e-3)
    arena = td.lower(make()).memory.arena
    assert times <= arena / SIZE < times + 0.5, name


def test_a_result_of_another_shape_takes_over_the_buffer() -> None:
    y = td.exp(td.asarray(X)).reshape(64, 48)
    assert "reshape" not in td.lower(y).program
    np.testing.assert_allclose(y.numpy(), np.exp(X).reshape(64, 48), rtol=1e-6)


def test_two_results_never_share_memory() -> None:
    whole = td.exp(td.asarray(X))
    flat, square = whole.reshape(-1), whole.reshape(64, 48)
    a, b, c = td.evaluate(whole, flat, square)
    assert not any(np.shares_memory(p, q) for p, q in ((a, b), (b, c), (a, c)))
    np.testing.assert_array_equal(a.reshape(-1), b)
    np.testing.assert_array_equal(b, c.reshape(-1))


def test_a_variable_never_shares_memory_with_what_was_assigned() -> None:
    v = td.param("v", init=np.zeros((64, 48), np.float32))
    y = td.exp(td.asarray(X))
    v.assign(y.reshape(64, 48))
    kept = y.numpy().copy()
    optimizer = td.optim.SGD(lr=1.0)
    for _ in range(3):
        optimizer.step((v * v).sum())
    np.testing.assert_array_equal(y.numpy(), kept)


def test_an_initial_array_is_taken_over_only_when_asked() -> None:
    mine = np.ones(3, np.float32)
    v = td.Variable(mine)
    mine[0] = 5
    assert v.numpy().tolist() == [1, 1, 1]
    taken = td.Variable(mine, copy=False)
    assert np.shares_memory(taken.numpy(), mine) and not mine.flags.writeable


def test_all_states_of_an_embedding_are_updated_in_place() -> None:
    table = td.nn.Embedding(50, 16)
    head = td.nn.Linear(16, 50)
    optimizer = td.optim.AdamW(lr=1e-3)
    ids = RNG.integers(0, 50, (4, 6))
    for _ in range(2):
        flat = ids.reshape(-1)
        optimizer.step(td.cross_entropy(head(table(ids)).reshape((-1, 50)), flat))
    linked, _ = next(reversed(engine("native").programs.values()))  # type: ignore[attr-defined]
    program = linked.program
    shared = {result for result, _ in program.shared}
    large = {n for _, n, t in program.results if t.size >= 16}
    assert len(large) >= 9
    assert large <= shared


def _all_places(
    i: Index, outer: list[LoopAxis], inner: list[LoopAxis]
) -> dict[Any, set[int]]:
    """The places that each step of the outer loops takes in."""
    axes = [*outer, *inner]
    found: dict[Any, set[int]] = {}
    for at in itertools.product(*[range(x.extent) for x in axes]):
        place = i.value(dict(zip(axes, at, strict=True)))
        found.setdefault(at[: len(outer)], set()).add(place)
    return found


def test_two_steps_meet_exactly_where_they_do() -> None:
    rng = np.random.default_rng(5)
    seen = {True: 0, False: 0}
    for _ in range(400):
        outer = [LoopAxis(f"i{k}", int(n)) for k, n in enumerate(rng.integers(2, 5, 2))]
        inner = LoopAxis("j", int(rng.integers(2, 4)))
        sizes = rng.integers(-12, 13, 2)
        base = sum(
            (Index.of(x) * s for x, s in zip(outer, sizes, strict=True)), Index()
        )
        a = base + int(rng.integers(0, 9))
        b = base + int(rng.integers(0, 9))
        wide = rng.random() < 0.5
        if wide:
            b = b + Index.of(inner)  # every number of its bounds is taken
        own, other = _all_places(a, outer, []), _all_places(b, outer, [inner])
        for same in (False, True):
            want = any(
                own[x] & other[y]
                for x, y in itertools.product(own, other)
                if same or x != y
            )
            assert _meet(a, b, outer, same) == _meet(b, a, outer, same) == want
            seen[want] += 1
    assert min(seen.values()) > 50
