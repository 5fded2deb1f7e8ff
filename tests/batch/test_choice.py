"""Which graphs run as rows: by counted records, whatever has run before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net, trees
from treadle import nn
from treadle.engines.native.forest.program import ForestProgram
from treadle.runtime.rows import counts

F = nn.functional
WIDTH = 6
Graph = Callable[[], Any]


class Models:
    """Parameters and data of all graphs here."""

    def __init__(self) -> None:
        self.draw = np.random.default_rng(0)
        h = WIDTH
        self.lstm = [[self.param(h, 4 * h), self.param(h, 4 * h)] for _ in range(2)]
        self.experts = [self.param(h, h) for _ in range(4)]
        self.layers = [self.param(h, h) for _ in range(40)]
        self.square, self.top = self.param(h, h), self.param(h, h)
        self.scale = self.param(h)
        self.wide = [self.param(16, 16) for _ in range(3)]
        self.data = [self.array(h) for _ in range(256)]
        self.net, self.plain = Net(dtype="float32"), Net(cells=False, dtype="float32")
        self.words, self.out = nn.Embedding(20, h), nn.Linear(2 * h, 3)
        self.ways = [nn.LSTMCell(h, h) for _ in range(2)]
        self.cells = [td.function(lambda x, s, f=f: f(x, s)) for f in self.ways]
        self.makes = nn.Sequential(nn.Linear(h, h), nn.Tanh(), nn.Linear(h, 2))
        self.judges = nn.Sequential(nn.Linear(2, h), nn.Tanh(), nn.Linear(h, 1))

    def param(self, *shape: int) -> td.Parameter:
        return td.Parameter(self.draw.normal(size=shape).astype("float32") / 3)

    def array(self, *shape: int) -> td.Tensor:
        return td.constant(self.draw.normal(size=shape).astype("float32"))

    def sequences(self, count: int, length: int) -> Any:
        """Stacked LSTMs over some sequences, op by op."""
        total = td.zeros(())
        for k in range(count):
            states = [(td.zeros(WIDTH), td.zeros(WIDTH))] * 2
            for x in (self.data * 4)[k * length : (k + 1) * length]:
                for layer, (below, inner) in enumerate(self.lstm):
                    h, c = states[layer]
                    i, f, o, u = td.split(x @ below + h @ inner, 4)
                    c = td.sigmoid(f) * c + td.sigmoid(i) * td.tanh(u)
                    x = td.sigmoid(o) * td.tanh(c)
                    states[layer] = x, c
            total = total + (x * x).sum()
        return total

    def vectors(self, count: int) -> Any:
        """Vector code: the same elementwise ops on different data."""
        pairs = zip(self.data[:count], self.data[1:], strict=False)
        return td.stack([(td.tanh(x * self.scale) * y).sum() for x, y in pairs]).sum()

    def towers(self, count: int, depth: int = 4) -> Any:
        """A few layers of the same weights over each input."""
        tops = []
        for x in self.data[:count]:
            for _ in range(depth):
                x = td.tanh(x @ self.square + 1.0)
            tops.append((x * x).sum())
        return td.stack(tops).sum()

    def deep(self) -> Any:
        """Layers with weights of their own, one after the other."""
        x = self.data[0]
        for w in self.layers:
            x = td.tanh(x @ w)
        return x.sum()

    def mixture(self) -> Any:
        """Experts with weights of their own, and what weighs them."""
        x = td.stack(self.data[:8])
        weights = td.softmax(x @ self.square)
        parts = [
            weights[:, k : k + 1] * td.tanh(td.tanh(x @ w) @ self.top)
            for k, w in enumerate(self.experts)
        ]
        total = parts[0] + parts[1] + parts[2] + parts[3]
        return (total * total).mean()

    def examples(self, count: int) -> Any:
        """A loss for each example."""
        logits = [td.tanh(x @ self.square) @ self.top for x in self.data[:count]]
        losses = [F.cross_entropy(x, k % WIDTH) for k, x in enumerate(logits)]
        return td.stack(losses).mean()

    def matrices(self, rows: int) -> Any:
        """Layers over each of some matrices of so many rows, the same for all."""
        tops = []
        for k in range(12):
            x = td.constant(self.draw.normal(size=(rows, 16)).astype("float32"))
            for w in self.wide:
                x = td.tanh(x @ w + float(k % 2))
            tops.append((x * x).sum())
        return td.stack(tops).sum()

    def forest(self, count: int, plain: bool = False) -> Any:
        net = self.plain if plain else self.net
        return td.stack(net.losses(trees(5, count))).mean()

    def tagger(self, *lengths: int) -> Any:
        """Sentences that are read from both ends."""
        losses = []
        for length in lengths:
            read = [self.words(k * 7 % 20) for k in range(length)]
            left = self._states(self.cells[0], read)
            right = self._states(self.cells[1], read[::-1])[::-1]
            pairs = zip(left, right, strict=True)
            scores = [self.out(td.concat([x, y])) for x, y in pairs]
            losses.append(F.cross_entropy(td.stack(scores), np.arange(length) % 3))
        return td.stack(losses).mean()

    def _states(self, cell: Any, read: Any) -> list[Any]:
        state, found = (td.zeros(WIDTH), td.zeros(WIDTH)), []
        for x in read:
            state = cell(x, state)
            found.append(state[0])
        return found

    def pair(self) -> Any:
        """The losses of two networks that play against each other."""
        noise = td.stack(self.data[:16])
        self.fake = fake = self.makes(noise)  # the name holds it
        ones, zeros = np.ones((16, 1), "float32"), np.zeros((16, 1), "float32")
        loss = F.binary_cross_entropy_with_logits
        real = noise[:, :2]
        judged = loss(self.judges(real), ones)
        judged = judged + loss(self.judges(td.stop_gradient(fake)), zeros)
        return judged + loss(self.judges(self.makes(noise)), ones)

    def episode(self, steps: int) -> Any:
        """What is seen one after the other, judged and followed by one loss."""
        seen = self.data[:steps]
        chosen = [
            td.log(F.softmax(self.makes(x), -1)[k % 2]) for k, x in enumerate(seen)
        ]
        ahead = np.arange(steps, dtype="float32") - td.stack(
            [self.judges(self.makes(x))[0] for x in seen]
        )
        policy = (td.stack(chosen) * td.stop_gradient(ahead)).mean()
        return (ahead * ahead).mean() - policy


# What runs as rows: values, and steps.
GRAPHS: dict[str, tuple[Callable[[Models], Any], bool, bool]] = {
    "an LSTM of 3 steps": (lambda m: m.sequences(1, 3), False, False),
    "an LSTM of 20 steps": (lambda m: m.sequences(1, 20), False, True),
    "2 LSTMs": (lambda m: m.sequences(2, 6), False, True),
    "4 LSTMs": (lambda m: m.sequences(4, 6), True, True),
    "16 LSTMs": (lambda m: m.sequences(16, 3), True, True),
    "64 LSTMs": (lambda m: m.sequences(64, 3), True, True),
    "vectors": (lambda m: m.vectors(30), True, True),
    "few vectors": (lambda m: m.vectors(2), False, False),
    "2 towers": (lambda m: m.towers(2), False, False),
    "12 towers": (lambda m: m.towers(12), True, True),
    "40 towers": (lambda m: m.towers(40), True, True),
    "matrices of 2 rows": (lambda m: m.matrices(2), True, True),
    "matrices of 16 rows": (lambda m: m.matrices(16), False, False),
    "layers": (lambda m: m.deep(), False, False),
    "a mixture": (lambda m: m.mixture(), False, False),
    "8 examples": (lambda m: m.examples(8), True, True),
    "100 examples": (lambda m: m.examples(100), True, True),
    "two that play": (lambda m: m.pair(), False, False),
    "an episode": (lambda m: m.episode(11), True, True),
    "a small tree": (lambda m: m.net.losses([((1, 2), (3, 4))])[0], False, False),
    "3 trees": (lambda m: m.forest(3), True, True),
    "24 trees": (lambda m: m.forest(24), True, True),
    "24 trees op by op": (lambda m: m.forest(24, plain=True), True, True),
    "a sentence of 3": (lambda m: m.tagger(3), False, False),
    "a sentence of 20": (lambda m: m.tagger(20), False, True),
    "sentences": (lambda m: m.tagger(7, 3, 9, 12, 5, 8, 9), True, True),
}


@pytest.fixture(scope="module")
def models() -> Models:
    return Models()


def chosen(run: Callable[[], object]) -> bool:
    """Whether something runs as rows."""
    before = counts.runs
    run()
    return counts.runs > before


def decisions(models: Models, make: Callable[[Models], Any]) -> tuple[bool, bool]:
    """Whether a value of a graph and a step down from it run as rows."""
    optimizer = td.optim.SGD(lr=1e-3)
    value = chosen(lambda: float(make(models)))
    return value, chosen(lambda: float(optimizer.step(make(models))))


@pytest.mark.parametrize("name", GRAPHS)
def test_what_runs_as_rows(models: Models, name: str) -> None:
    make, *wanted = GRAPHS[name]
    assert [decisions(models, make) for _ in range(3)] == [tuple(wanted)] * 3


def test_what_has_run_before_decides_nothing(models: Models) -> None:
    """In another order, and in the midst of all others, it is the same."""
    td.clear_cache()
    float(models.towers(7, 3) + models.sequences(5, 2))
    for make, *wanted in reversed(GRAPHS.values()):
        assert decisions(models, make) == tuple(wanted)


def test_what_is_not_counted_to_the_end_does_not_pay(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting may end early: the whole counts say the same."""
    pays, told = ForestProgram.pays, []

    def compared(program: ForestProgram) -> bool:
        answer, (together, alone) = pays(program), program.costs()
        forest = program.forest
        counted = 2 * together <= alone and not forest.is_wide
        assert answer == (counted or bool(forest.varies))
        told.append(answer)
        return answer

    monkeypatch.setattr(ForestProgram, "pays", compared)
    td.clear_cache()
    for make, *_ in GRAPHS.values():
        float(make(models))
    assert set(told) == {False, True}
