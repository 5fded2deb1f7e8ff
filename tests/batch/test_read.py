"""Programs whose control flow was read from values on the way, and are derived then."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.batch import columns as columns_module
from treadle.batch.columns import columns
from treadle.core import native
from treadle.engines.native.forest.parts import native_bodies
from treadle.graph.traversal import NEWEST
from treadle.runtime.forests import counts

WIDTH = 6


class Net:
    """The parameters of a parser, and a sentence parsed by actions of a seed."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)

        def param(*shape: int) -> Any:
            return td.param(init=draw.normal(size=shape) * 0.4, dtype="float64")

        self.table = param(50, WIDTH)
        self.compose, self.score = param(2 * WIDTH, WIDTH), param(WIDTH, 3)

    def sentence(self, seed: int, n: int, read: bool) -> tuple[Any, list[Any], Any]:
        """The loss, what was read, with its values then, and the words."""
        draw = np.random.default_rng(seed)
        ids = td.asarray(draw.integers(0, 50, n))
        every = td.nn.functional.embedding(ids, self.table)
        words = [every[k] for k in range(n)]
        waiting, stack, losses, seen = (
            words[::-1],
            list[Any](),
            list[Any](),
            list[Any](),
        )
        while waiting or len(stack) > 1:
            top = stack[-1] if stack else waiting[-1]
            scores = td.tanh(top @ self.score)
            losses.append((scores * scores).sum())
            if read:
                seen.append((scores, scores.numpy().copy()))
            if waiting and (len(stack) < 2 or draw.random() < 0.5):
                stack.append(waiting.pop())
            else:
                y, x = stack.pop(), stack.pop()
                stack.append(td.tanh(td.concat([x, y]) @ self.compose))
        return sum(losses[1:], losses[0]), seen, words

    def train(self, read: bool, sentences: int, first: int = 0) -> list[Any]:
        """The losses, and what the parameters are then."""
        opt = td.optim.SGD([self.table, self.compose, self.score], lr=0.1)
        losses = []
        for k in range(first, first + sentences):
            loss, seen, words = self.sentence(k, 9 + k % 7, read)
            losses.append(float(opt.step(loss)))
            for scores, value in seen:  # what was looked at stays, to the last bit
                assert (scores.numpy() == value).all()
            assert np.isfinite(words[3].numpy()).all()
        return [*losses, *[p.numpy() for p in (self.table, self.compose, self.score)]]


@pytest.mark.parametrize("read", [False, True])
def test_steps_are_those_of_a_program(read: bool) -> None:
    before = counts.runs
    got = Net().train(read, 8)
    assert counts.runs == before + 8
    with td.options(autobatch=False):
        want = Net().train(read, 8)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_few_bodies_do_for_all_sentences() -> None:
    """Neither where a word lies in what was looked up, nor the form of a tree, nor that
    scores were read, makes another body."""
    net = Net()
    net.train(False, 10)
    net.train(True, 10)
    before, programs = len(native_bodies.known), td.cache_info().misses
    net.train(True, 20, first=100)
    assert len(native_bodies.known) <= before + 4  # an odd row at an end
    assert td.cache_info().misses <= programs + 4


def test_gradients_by_what_is_part_of_a_row() -> None:
    """Asked for before the loss was looked at, and after."""

    def run(late: bool) -> list[Any]:
        net, losses, words = Net(), [], []
        for k in range(6):
            loss, _, mine = net.sentence(k, 5 + k, False)
            losses.append(loss)
            words += mine
        loss = sum(losses[1:], losses[0])
        if late:
            float(loss)
        grads = td.grad(loss, [words[3], words[8], net.table])
        return [float(loss), *[g.numpy() for g in grads], words[4].numpy()]

    with td.options(autobatch=False):
        want = run(False)
    for late in (False, True):
        before = counts.runs
        for x, y in zip(run(late), want, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
        assert counts.runs > before


def test_what_is_computed_of_a_value_carries_on() -> None:
    w = td.param(init=np.ones(3), dtype="float64")
    h = td.tanh(w)
    h.numpy()
    y = td.concat([h, h])
    y.numpy()
    td.optim.SGD([w], lr=0.1).step(y.sum())
    with pytest.raises(td.GradientError, match="let go"):
        td.grad((y * y).sum(), [w])


@pytest.mark.skipif(native is None, reason="the core is what is compared")
@pytest.mark.parametrize("floor", [0, NEWEST])
def test_columns_behind_values_are_those_of_the_core(
    floor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss, seen, _ = Net().sentence(1, 9, True)
    serial = seen[3][0].serial
    for ends in (frozenset[int](), frozenset([serial])):
        table = columns([loss], floor, ends)
        with monkeypatch.context() as patched:
            patched.setattr(columns_module, "native", None)
            same = columns([loss], floor, ends)
        assert [x.serial for x in table.nodes] == [x.serial for x in same.nodes]
        for name in ("waiting", "marked", "serials", "depths", "sizes", "operands"):
            assert (getattr(table, name) == getattr(same, name)).all(), name
        behind = table.waiting & (table.values != 0)
        assert behind.any() == (floor == 0)
        assert serial not in ends or not behind[table.serials == serial].any()
