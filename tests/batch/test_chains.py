"""Steps one after the other, one row each: sequences alone, trees that are chains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net
from treadle.engines.base import engine
from treadle.runtime.rows import counts

WIDTH, WORDS = 5, 9


def in_order(a: int) -> int:
    return 3 * a % WORDS


class Reader:
    """A recurrent network over words, by a kind of cell; its steps may be functions."""

    def __init__(self, kind: str, function: bool) -> None:
        draw = np.random.default_rng(4)

        def param(name: str, *shape: int) -> td.Parameter:
            return td.param(name, init=draw.normal(size=shape), dtype="float64")

        self.table = param("table", WORDS, WIDTH)
        self.top = param("top", WIDTH, WORDS)
        many = {"lstm": 4, "gru": 3, "elman": 1}[kind]
        self.own = param("own", many * WIDTH, WIDTH)
        self.past = param("past", many * WIDTH, WIDTH)
        self.kind = kind
        self.step = td.function(self._step) if function else self._step
        self.parameters = [self.table, self.own, self.past, self.top]

    def _step(self, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        if self.kind == "elman":
            return td.tanh(self.own @ x + self.past @ h), c
        if self.kind == "lstm":
            i, f, o, u = td.split(self.own @ x + self.past @ h, 4)
            c = td.sigmoid(f) * c + td.sigmoid(i) * td.tanh(u)
            return td.sigmoid(o) * td.tanh(c), c
        (r, z, n), (a, b, d) = td.split(self.own @ x, 3), td.split(self.past @ h, 3)
        keep = td.sigmoid(z + b)
        return (1 - keep) * td.tanh(n + td.sigmoid(r + a) * d) + keep * h, c

    def loss(self, words: list[int], every: bool) -> Any:
        h = c = td.zeros(WIDTH, dtype="float64")
        found = []
        for word in words:
            h, c = self.step(td.rows(self.table, word), h, c)
            found.append(h)
        read = td.stack(found if every else found[-1:]) @ self.top
        labels = [in_order(word) for word in (words if every else words[-1:])]
        return td.nn.functional.cross_entropy(read, labels, reduction="sum")


def trained(reader: Reader, words: list[int], every: bool) -> list[Any]:
    """A loss, and what the parameters are after a step, which are as they were then."""
    before = [p.numpy().copy() for p in reader.parameters]
    loss = float(td.optim.SGD(lr=0.5).step(reader.loss(words, every)))
    found = [p.numpy().copy() for p in reader.parameters]
    for p, x in zip(reader.parameters, before, strict=True):
        td.assign(p, x)
    td.evaluate(*reader.parameters)
    return [loss, *found]


def rows_of(run: Callable[[], Any]) -> tuple[Any, int]:
    """What a run gives, and how many runs of rows there were."""
    before = counts.runs
    return run(), counts.runs - before


def agree(run: Callable[[], Any]) -> None:
    """Rows were run, and gave what node by node is given."""
    got, ran = rows_of(run)
    assert ran, "nothing was run as rows"
    with td.options(autobatch=False, engine="reference"):
        want = run()
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("every", [True, False])
@pytest.mark.parametrize("function", [True, False])
@pytest.mark.parametrize("kind", ["lstm", "gru", "elman"])
def test_a_sequence_by_itself(kind: str, function: bool, every: bool) -> None:
    reader = Reader(kind, function)
    for length in (13, 18, 13):
        words = [in_order(k) for k in range(length)]
        agree(lambda own=words: trained(reader, own, every))
        with td.no_grad():
            agree(lambda own=words: [float(reader.loss(own, every))])


@pytest.mark.parametrize("function", [True, False])
def test_another_length_is_no_other_program(function: bool) -> None:
    reader, optimizer = Reader("lstm", function), td.optim.SGD(lr=0.1)
    native: Any = engine("native")

    def step(length: int) -> None:
        float(optimizer.step(reader.loss([in_order(k) for k in range(length)], True)))

    for length in (13, 40, 16, 23):
        step(length)
    before = [linked for linked, _ in native.programs.values()]
    for length in (14, 17, 31):
        step(length)
    made = [linked for linked, _ in native.programs.values() if linked not in before]
    # Of the loss and the update, not of each step.
    assert all(len(linked.plain.steps) < 31 for linked in made)


def test_trees_that_are_chains() -> None:
    net = Net()
    tree: Any = 0
    for word in (1, 2, 3, 4, 5) * 3:
        tree = (tree, word)

    def run() -> list[Any]:
        with td.no_grad():
            return [float(td.stack(net.losses([tree])).mean())]

    agree(run)


def test_what_may_be_derived_later_is_a_program() -> None:
    """A batched run is derived once, and not by data that nobody asked for in time."""
    reader = Reader("elman", function=False)
    words = [in_order(k) for k in range(16)]
    loss, ran = rows_of(lambda: reader.loss(words, True))
    (g,) = td.grad(loss, [reader.past])
    (twice,) = td.grad((g * g).sum(), [reader.past])
    assert twice.numpy().shape == reader.past.shape and not ran
    x = td.constant(np.linspace(-1, 1, WIDTH))
    h = x
    for _ in range(16):
        h = td.tanh(reader.past @ h + reader.own @ x)
    h.numpy()
    assert td.grad(h.sum(), [x])[0].numpy().shape == (WIDTH,)


def test_elementwise_steps_are_one_kernel() -> None:
    x = td.constant(np.linspace(-1, 1, 8))
    z = x
    for _ in range(60):
        z = z * x + 0.5
    with td.no_grad():
        _, ran = rows_of(z.numpy)
    assert not ran


def test_layers_with_weights_of_their_own_are_a_program() -> None:
    draw = np.random.default_rng(0)
    layers = [td.param(f"w{k}", init=draw.normal(size=(8, 8))) for k in range(12)]
    x = td.constant(draw.normal(size=(4, 8)).astype(np.float32))
    for w in layers:
        x = td.relu(x @ w)
    _, ran = rows_of(lambda: td.optim.SGD(lr=0.1).step(x.sum()))
    assert not ran
