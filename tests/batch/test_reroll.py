"""Loops that Python wrote out: as loops of the graph they come to what they came to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.batch.reroll import reroll
from treadle.graph.traversal import pending

F, nn = td.nn.functional, td.nn
BATCH, WIDTH, HIDDEN, WORDS = 3, 4, 5, 7


def _weights(seed: int, *shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [td.param(init=rng.normal(size=s).astype(np.float64)) for s in shapes]


def _data(length: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(BATCH, length, WIDTH))


class _Net:
    """What the loops are made of, in double precision."""

    def __init__(self) -> None:
        shapes = [(WIDTH + HIDDEN, HIDDEN), (HIDDEN,), (WIDTH, HIDDEN), (HIDDEN, WIDTH)]
        self.w, self.b, self.v, self.out = _weights(1, *shapes)

    @property
    def parameters(self) -> list[Any]:
        return [self.w, self.b, self.v, self.out]

    def memory(self, source: Any) -> Any:
        return td.tanh(td.asarray(source) @ self.v)

    def cell(self, x: Any, h: Any) -> Any:
        return td.tanh(td.concat([x, h], 1) @ self.w + self.b)


def attention(net: _Net, source: Any, target: Any, tail: Any = None) -> Any:
    """A decoder with attention, whose context is carried beside its state."""
    memory = net.memory(source)
    words = td.tanh(td.asarray(target) * 0.5 + net.out.sum())
    h, scores = memory[:, -1], []
    for t in range(target.shape[1] - 1):
        h = net.cell(words[:, t], h)
        shares = F.softmax((memory * h[:, None]).sum(-1), -1)
        h = h + (shares[:, :, None] * memory).sum(1)
        scores.append(h @ net.out)
    return td.stack(scores, 1) if tail is None else tail(scores)


def backwards(net: _Net, source: Any, target: Any) -> Any:
    """From the last word to the first, joined along the first dimension."""
    memory, h = net.memory(source), td.zeros((BATCH, HIDDEN), td.float64)
    words, found = td.tanh(td.asarray(target) + net.b.sum()), []
    for t in reversed(range(target.shape[1])):
        h = net.cell(words[:, t], h) + memory.mean(1)
        found.append(h @ net.out)
    return td.concat(found, 0)


def free(net: _Net, source: Any, target: Any) -> Any:
    """Each step reads what the one before has made, by its largest score."""
    memory = net.memory(source)
    table = td.asarray(_data(WORDS)[0]) + net.out.sum()
    h = memory[:, 0]
    ids = td.argmax(memory[:, 0] * 2.0, -1)
    scores = []
    for _ in range(target.shape[1]):
        h = net.cell(table[ids], h) + memory.mean(1)
        scores.append(h @ net.out)
        ids = td.argmax(scores[-1], -1)
    return td.stack(scores)


def total(net: _Net, source: Any, target: Any) -> Any:
    """Losses added up in the loop, and the last state."""
    memory, h, loss = net.memory(source), td.zeros((BATCH, HIDDEN), td.float64), 0.0
    words = td.tanh(td.asarray(target) + net.b.sum())
    for t in range(target.shape[1]):
        h = net.cell(words[:, t], h) * memory.mean(1)
        loss = loss + ((h @ net.out - words[:, t]) ** 2).sum()
    return loss + (h * h).sum()


def two_states(net: _Net, source: Any, target: Any) -> Any:
    """Two states beside each other, the second of the first before it."""
    memory = net.memory(source)
    h = c = memory[:, 0]
    found = []
    for _ in range(target.shape[1]):
        h, c = net.cell(memory[:, 1] @ net.out, c), h * 0.5 + memory.mean(1)
        found.append(td.concat([h, c], 1))
    return td.stack(found, 2)


LOOPS: list[Callable[..., Any]] = [attention, backwards, free, total, two_states]


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("length", [6, 9])
def test_values_and_gradients_stay(loop: Callable[..., Any], length: int) -> None:
    net, source, target = _Net(), _data(4, 5), _data(length, 6)

    def made() -> Any:
        return loop(net, source, target)

    with td.options(autobatch=False):
        wanted = td.evaluate((made() ** 2).sum(), td.grad((made() ** 2).sum()))
    y = made()
    before = len(pending([y]))
    assert reroll([y]) and len(pending([y])) < before - 2 * length
    whole = (y**2).sum()
    grads = td.grad(whole)
    value, found = td.evaluate(whole, grads)
    assert value == pytest.approx(wanted[0], rel=1e-12)
    for g, own in zip(found, wanted[1], strict=True):
        np.testing.assert_allclose(g, own, rtol=1e-9, atol=1e-12)


def test_lengths_never_seen_compile_nothing() -> None:
    net = _Net()
    optimizer = td.optim.SGD(net.parameters, lr=1e-3)

    def step(n: int, m: int) -> float:
        y = attention(net, _data(n), _data(m))
        return float(optimizer.step((y * y).mean()))

    for n, m in ((11, 12), (12, 14), (13, 13)):
        step(n, m)
    before = _kernels()
    for n, m in ((14, 12), (12, 13), (13, 14)):
        step(n, m)
    assert _kernels() == before


def _kernels() -> int:
    info = td.cache_info()
    return int(info.compiled + info.from_disk)


def test_a_value_that_is_held_keeps_its_steps() -> None:
    net, states = _Net(), []

    def noted(scores: list[Any]) -> Any:
        states.extend(scores)
        return td.stack(scores, 1)

    y = attention(net, _data(4), _data(9), noted)
    assert not reroll([y])
    (g,) = td.grad((y * y).sum(), [states[3]])
    assert np.abs(g.numpy()).max() > 0


def test_what_the_last_step_left_stays_a_node() -> None:
    net, source, target = _Net(), _data(4), _data(9)
    memory, h, scores = net.memory(source), td.zeros((BATCH, HIDDEN), td.float64), []
    words = td.tanh(td.asarray(target) + net.b.sum())
    for t in range(9):
        h = net.cell(words[:, t], h) * memory.mean(1)
        scores.append(h @ net.out)
    y = td.stack(scores, 1)
    scores.clear()
    assert reroll([y])
    (g,) = td.grad((y * y).sum(), [h])
    wanted = 2 * (h.numpy() @ net.out.numpy()) @ net.out.numpy().T
    np.testing.assert_allclose(g.numpy(), wanted, rtol=1e-9)


def test_steps_with_weights_of_their_own_are_no_loop() -> None:
    layers = _weights(3, *[(HIDDEN, HIDDEN)] * 8)
    h = td.tanh(td.asarray(_data(HIDDEN)[0, :BATCH, :1]) * layers[0][0])
    for w in layers:
        h = td.tanh(h @ w) + 1.0
    assert not reroll([h])


def test_rows_stay_rows() -> None:
    """What reads leaves and Variables alone is done with others of its kind at once."""
    net, xs = _Net(), [td.asarray(_data(1, k)[:, 0]) for k in range(9)]
    h = td.zeros((BATCH, HIDDEN), td.float64)
    for x in xs:
        h = net.cell(x, h)
    assert not reroll([h])


def test_what_another_graph_reads_keeps_its_steps() -> None:
    net, kept = _Net(), []

    def noted(scores: list[Any]) -> Any:
        kept.append(scores[2].sum())
        return td.stack(scores, 1)

    y = attention(net, _data(4), _data(9), noted)
    (g,) = td.grad((y * y).sum() + kept[0], [net.out])
    with td.options(autobatch=False):
        z = attention(net, _data(4), _data(9), noted)
        (own,) = td.grad((z * z).sum() + kept[1], [net.out])
        wanted = own.numpy()
    np.testing.assert_allclose(g.numpy(), wanted, rtol=1e-9)
    assert float(kept[0]) == pytest.approx(float(kept[1]), rel=1e-12)


def test_an_error_in_a_loop_tells_the_line() -> None:
    net, source = _Net(), _data(4)
    memory, h = net.memory(source), td.zeros((BATCH, HIDDEN), td.float64)
    table = net.out.sum() + td.asarray(_data(1)[0])
    places = (td.asarray(_data(9)) * memory.sum() * 0 + 8).astype(td.int32)
    for t in range(9):
        h = net.cell(td.take(table, places[:, t, 0], axis=0), h) * memory.mean(1)
    with pytest.raises(td.TreadleError, match=r"td\.take\(table"):
        h.sum().numpy()


def shifted(net: _Net, source: Any, back: int) -> Any:
    """Each step reads the state of some steps before."""
    memory = net.memory(source)
    states = [memory[:, k] * 0.5 for k in range(back)]
    for t in range(source.shape[1]):
        last = states.pop(0)
        context = (memory * last[:, None]).sum(1)
        states.append(td.tanh((memory[:, t] + context) @ net.w[WIDTH:] + last))
    return (td.stack(states) ** 2).sum()


def in_pairs(net: _Net, source: Any, _: int) -> Any:
    """Each step of a second loop reads what that of the first has made."""
    memory = net.memory(source)
    h, first = memory.mean(1), []
    for _ in range(source.shape[1]):
        h = td.tanh((h * 0.5 + memory.mean(1)) @ net.w[WIDTH:])
        first.append(h)
    g = memory[:, 0]
    for x in first:
        g = td.tanh((g * 0.5 + x) @ net.w[WIDTH:])
    return (g * g).sum()


@pytest.mark.parametrize("back", [1, 2, 3, 5])
@pytest.mark.parametrize("loop", [shifted, in_pairs])
def test_what_a_step_reads_is_of_the_step_before(
    loop: Callable[..., Any], back: int
) -> None:
    def found(engine: str) -> list[Any]:
        with td.options(engine=engine):
            net, source = _Net(), _data(12)
            loss = loop(net, source, back)
            return [*td.evaluate(loss, *td.grad(loss, [net.v, net.w]))]

    for x, y in zip(found("native"), found("reference"), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)


def sentence(net: _Net, emissions: Any, tags: Any) -> Any:
    """A chain's log-partition and the score of its tags, in two loops of Python."""
    scores, moves = td.asarray(emissions) @ net.out, net.w[:WIDTH, :WIDTH]
    total = scores[0]
    for t in range(1, len(tags)):
        total = td.logsumexp(total[:, None] + moves, 0) + scores[t]
    gold = scores[0, tags[0]]
    for t in range(1, len(tags)):
        gold = gold + net.w[tags[t - 1], tags[t]] + scores[t, tags[t]]
    return td.logsumexp(total, 0) - gold


def _sentences(*lengths: int) -> list[Any]:
    rng = np.random.default_rng(3)
    pairs = [(rng.normal(size=(n, HIDDEN)), rng.integers(0, WIDTH, n)) for n in lengths]
    return [(x, [int(tag) for tag in tags]) for x, tags in pairs]


def test_loops_of_a_minibatch_are_found_at_once() -> None:
    """Short ones, too, beside a long one; each step reads tags of its own."""

    def made() -> Any:
        parts = [sentence(net, *pair) for pair in _sentences(9, 3, 6, 4)]
        return parts[0] + parts[1] + parts[2] + parts[3]

    net = _Net()
    with td.options(autobatch=False):
        wanted = td.evaluate(made(), *td.grad(made(), [net.out, net.w]))
    loss = made()
    assert reroll([loss])
    assert sum(type(x.op).__name__ == "Scan" for x in pending([loss])) == 8
    found = td.evaluate(loss, *td.grad(loss, [net.out, net.w]))
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_minibatches_never_seen_compile_nothing() -> None:
    net = _Net()
    optimizer = td.optim.SGD(net.parameters, lr=1e-3)

    def step(*lengths: int) -> None:
        parts = [sentence(net, *pair) for pair in _sentences(*lengths)]
        optimizer.step(parts[0] + parts[1])

    for lengths in ((9, 12), (13, 8), (11, 14)):
        step(*lengths)
    before = td.cache_info().misses
    for lengths in ((10, 15), (16, 9), (12, 17)):
        step(*lengths)
    assert td.cache_info().misses == before


@pytest.mark.parametrize("length", [4, 6])
def test_what_is_read_after_all_steps_makes_a_loop(length: int) -> None:
    """One node of data is read beside the value of each step, by nodes side by side."""
    net = _Net()
    memory = td.tanh(td.asarray(_data(1)[:, 0]) @ net.v)
    h, states = td.zeros((BATCH, HIDDEN), td.float64), []
    for _ in range(length):
        h = td.tanh(h + net.b) + td.sigmoid(h)
        states.append(h)
    loss = td.concat([x * memory for x in states]).sum()
    del h, states
    assert reroll([loss])
    assert "Scan" in [type(x.op).__name__ for x in pending([loss])]


def test_trees_are_not_searched_for_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their nodes repeat, too, and read nothing that is computed of data together."""
    net = _Net()

    def tree(depth: int) -> Any:
        if not depth:
            return td.tanh(td.asarray(_data(1)[:, 0]) @ net.v)
        left, right = tree(depth - 1), tree(depth - 1)
        gates = td.split(td.concat([left, right], 1) @ both, HIDDEN, 1)
        return td.concat([td.tanh(x) for x in gates], 1)

    (both,) = _weights(2, (2 * HIDDEN, HIDDEN))
    loss = tree(5).sum()
    monkeypatch.delattr("treadle.batch.reroll.repeated")
    assert not reroll([loss])
