"""Trees as rows on devices: the CPU's losses, and no more copies and launches."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch import test_late
from tests.batch.nets import Tree, tree
from tests.engines.gpus import GPUS, gpu
from treadle.base.errors import TreadleError
from treadle.engines.gpu import bodies
from treadle.engines.gpu.memory import Counts
from treadle.engines.native.forest import parts, tape
from treadle.runtime.rows import counts

WORDS, TREES = 11, 12


class Encoder:
    """Trees in plain recursion, with a class for each."""

    def __init__(self) -> None:
        nn = td.nn
        self.table, self.join = nn.Embedding(WORDS, 16), nn.Linear(32, 16)
        self.out, self.labels = nn.Linear(16, 5), np.arange(TREES, dtype=np.int32) % 5

    def encoded(self, tree: Tree) -> td.Tensor:
        if isinstance(tree, int):
            return self.table(td.asarray(np.int32(tree)))
        return td.tanh(self.join(td.concat(list(map(self.encoded, tree)), axis=-1)))

    def loss(self, trees: list[Tree]) -> td.Tensor:
        rows = td.stack([self.out(self.encoded(x)) for x in trees])
        return td.cross_entropy(rows, td.asarray(self.labels))


def trees(seed: int) -> list[Tree]:
    """Trees of up to nine words, that differ from seed to seed."""
    rng = random.Random(seed)
    return [tree(rng, rng.randint(2, 9)) for _ in range(TREES)]


def steps(name: str, seeds: list[int], tell: Callable[[], Any]) -> list[float]:
    """The losses of steps of Adam on trees of some seeds; `tell` is called after each.
    All have been run as rows."""
    with td.options(engine=name, seed=3):
        net, optimizer, losses = Encoder(), td.optim.Adam(lr=0.01), []
        for seed in seeds:
            before = counts.runs
            losses.append(float(optimizer.step(net.loss(trees(seed)))))
            assert counts.runs == before + 1
            tell()
    return losses


@pytest.mark.parametrize("name", GPUS)
def test_trees_have_the_losses_of_the_cpu(name: str) -> None:
    seeds = [0, 1, 2, 0, 1, 2, 0, 1]  # some forests follow plans
    want = steps("native", seeds, lambda: None)
    np.testing.assert_allclose(steps(name, seeds, lambda: None), want, rtol=1e-5)


@pytest.mark.parametrize("name", GPUS)
def test_a_step_copies_words_in_and_the_loss_out(name: str) -> None:
    made = [gpu(name).store.counts]
    steps(name, [0, 0, 1, 1, 1, 2, 0], lambda: made.append(gpu(name).store.counts))
    counted = [after - before for before, after in pairwise(made)]
    words = 8 * words_of(trees(1))
    labels = 4 * TREES
    planned = counted[4]
    assert planned == Counts(2, words + labels, 1, 4, planned.launches)
    # A forest that was never seen has the places of its rows as well, there and back.
    new = counted[5]
    assert (new.copies_in, new.copies_out, new.bytes_out) == (4, 1, 4)


def words_of(tree: Any) -> int:
    """How many words some trees have."""
    return 1 if isinstance(tree, int) else sum(map(words_of, tree))


@pytest.mark.parametrize("name", GPUS)
def test_a_step_launches_no_more_than_the_steps_of_the_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [0]
    run = tape.StepTable.run

    def counting(table: Any, *arguments: Any, **more: Any) -> Any:
        records[-1] += len(table.records)
        return run(table, *arguments, **more)

    monkeypatch.setattr(tape.StepTable, "run", counting)
    with td.options(autobatch=True):
        steps("native", [0, 1, 2], lambda: records.append(0))
    launches = [gpu(name).store.counts.launches]
    steps(name, [0, 1, 2], lambda: launches.append(gpu(name).store.counts.launches))
    for k in (1, 2):  # beside rows: the loss with its gradient, and Adam
        assert 0 < launches[k + 1] - launches[k] <= records[k] + 20


@pytest.mark.parametrize("name", GPUS)
def test_values_are_derived_after_they_were_looked_at(name: str) -> None:
    found = []
    for own in ("native", name):
        with td.options(engine=own, seed=3):
            net, forest = Encoder(), trees(5)
            loss = net.loss(forest)
            weights = [net.table.weight, net.join.weight, net.out.bias]
            value = float(loss)
            grads = [g.numpy() for g in td.grad(loss, weights)]
            found.append([np.float32(value), *grads])
    for x, want in zip(*found, strict=True):
        np.testing.assert_allclose(x, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", GPUS)
def test_a_word_out_of_range_is_refused_and_nothing_is_lost(name: str) -> None:
    with td.options(engine=name, seed=3):
        net, optimizer = Encoder(), td.optim.SGD(lr=0.1)
        optimizer.step(net.loss(trees(0)))
        before = net.join.weight.numpy().copy()
        wrong = [(WORDS, (1, 2)), *trees(1)[1:]]
        with pytest.raises(TreadleError, match=f"{WORDS}"):
            float(optimizer.step(net.loss(wrong)))
        np.testing.assert_array_equal(net.join.weight.numpy(), before)
        assert np.isfinite(float(optimizer.step(net.loss(trees(1)))))


@pytest.mark.parametrize("name", GPUS)
def test_memory_of_rows_comes_back(name: str) -> None:
    live = []
    for k in range(4):
        with td.options(engine=name):
            net = Encoder()
            float(net.loss(trees(k % 2)))
        del net
        gc.collect()
        live.append(gpu(name).store.live)
    # Constants and places of rows stay, as long as programs do.
    assert live[3] == live[2] == live[1]


@pytest.mark.parametrize("name", GPUS)
def test_a_new_number_of_rows_translates_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = td.param("w", init=np.linspace(-1, 1, 6, dtype=np.float32))
    scaled = td.function(lambda x: td.tanh(x * w))

    def run(n: int) -> None:
        with td.options(engine=name):
            x = [np.full(6, k / n, np.float32) for k in range(n)]
            loss = td.stack([scaled(td.constant(row)) for row in x]).sum()
            found, grad = float(loss), td.grad(loss, [w])[0].numpy()
        values = np.tanh(np.array(x) * w.numpy())
        assert found == pytest.approx(values.sum(), rel=1e-4, abs=1e-4)
        want = ((1 - values**2) * np.array(x)).sum(0)
        np.testing.assert_allclose(grad, want, rtol=1e-4)

    run(70)
    run(60)  # its sums over rows are of another number
    monkeypatch.setattr(bodies, "TranslatedBody", None)
    monkeypatch.setattr(parts, "TranslatedBody", None)
    for n in (61, 67, 90, 131):
        before = counts.runs
        run(n)
        assert counts.runs > before


@pytest.mark.parametrize("name", GPUS)
@pytest.mark.parametrize("spelling", ["without_gradients_between", "two_derivatives"])
def test_derivatives_of_rows_that_were_looked_at(name: str, spelling: str) -> None:
    values = getattr(test_late, spelling)
    with td.options(autobatch=False, engine="reference"):
        want = values(test_late.Net())
    net = test_late.Net()
    with td.options(engine=name):
        for _ in range(3):  # a sum's last terms, and numbers that go in their place
            for x, y in zip(values(net), want, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-12)
