"""Steps that go on beside Python as a whole: their losses are waited for when they are
looked at, and nothing else is another one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from tests.batch.nets import WORDS, Net, trees
from tests.engines.test_queue import Queued, Steps, pools
from treadle.engines.native.execution.pool import Held, Limit, Pool, pool
from treadle.engines.native.execution.run import Run
from treadle.engines.native.forest.positions import Positions
from treadle.runtime import plan_parts

__all__ = ["pools"]  # a fixture
F = td.nn.functional
STEPS = 12


class Words:
    """One program: words looked up, a hidden layer, labels that are data."""

    def __init__(self) -> None:
        draw = np.random.default_rng(1)

        def param(*shape: int) -> td.Parameter:
            return td.param("p", init=draw.normal(size=shape), dtype="float64")

        self.table = param(WORDS, 6)
        self.parameters = [self.table, param(6, 8), param(8, 3)]

    def loss(self, k: int, word: int = 2, label: int = 1) -> Any:
        table, first, last = self.parameters
        ids, labels = np.arange(k, k + 5) % WORDS, np.arange(k, k + 5) % 3
        ids[-1], labels[-1] = word, label
        scores = td.tanh(F.embedding(td.asarray(ids), table) @ first) @ last
        return F.cross_entropy(scores, td.asarray(labels))


class Trees(Net):
    """Rows that look alike each time, so that the steps come to be plans."""

    seed = 0

    def loss(self, k: int, word: int = 2, label: int = 1) -> Any:
        forest = [*trees(self.seed, 20), (word, 3)]
        self.held = [self.encode(t)[0] for t in forest]
        scores = [h @ self.top for h in self.held]
        labels = [(k + n) % 3 for n in range(len(forest) - 1)]
        return F.cross_entropy(td.stack(scores), [*labels, label])


class Others(Trees):
    """Rows that never look alike."""

    def loss(self, k: int, word: int = 2, label: int = 1) -> Any:
        self.seed = k
        return super().loss(k, word, label)


# With how many programs of a step go on beside Python: where rows are, what is made of
# their values and the update have one each.
NETS = [(Words, 1), (Trees, 2), (Others, 2)]
OPTIMIZERS = [lambda: td.optim.SGD(lr=0.1), lambda: td.optim.Adam(lr=0.01)]


def trained(net: Any, opt: Any, look: bool) -> tuple[list[Any], list[Any]]:
    losses = []
    for k in range(STEPS):
        losses.append(opt.step(net.loss(k)))
        if look:
            float(losses[-1])
            for p in net.parameters:
                p.numpy()
    return losses, [v.numpy().copy() for v in (*net.parameters, *opt.states())]


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What has begun beside Python, of programs, however small."""
    found, begin = [], Run.begin
    monkeypatch.setattr(plan_parts, "WORTH", 0.0)

    def noted(run: Run, *given: Any) -> Any:
        found.append(run.linked)
        return begin(run, *given)

    monkeypatch.setattr(Run, "begin", noted)
    return found


@pytest.mark.usefixtures("part_by_part")
@pytest.mark.parametrize(("make", "programs"), NETS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=["SGD", "Adam"])
def test_same_bits(make: Any, programs: int, optimizer: Any, begun: list[Any]) -> None:
    losses, weights = trained(make(), optimizer(), False)
    # A plan is made of the first ones, and programs are waited for some times.
    assert len(begun) >= (STEPS - 6) * programs
    others, same = trained(make(), optimizer(), True)
    assert [float(x) for x in losses] == [float(x) for x in others]
    for x, y in zip(weights, same, strict=True):
        np.testing.assert_array_equal(x, y)
    begun.clear()
    with td.options(threads=1):
        others, _ = trained(make(), optimizer(), False)
    assert not begun
    assert [float(x) for x in losses] == [float(x) for x in others]


@pytest.mark.parametrize("make", [make for make, _ in NETS])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"word": WORDS}, f"{WORDS} is out of range"), ({"label": 3}, "3 is out of")],
    ids=["word", "label"],
)
def test_a_position_out_of_range_is_told_at_once(
    make: Any, wrong: dict[str, int], message: str
) -> None:
    net, opt = make(), td.optim.Adam(lr=0.01)
    for k in range(STEPS):
        opt.step(net.loss(k))
    loss = net.loss(STEPS, **wrong)
    every = [*net.parameters, *opt.states()]
    with pytest.raises(td.TreadleError, match=message):
        opt.step(loss)
    other, alike = make(), td.optim.Adam(lr=0.01)
    for k in range(STEPS):
        alike.step(other.loss(k))
    for v, w in zip(every, [*other.parameters, *alike.states()], strict=True):
        np.testing.assert_array_equal(v.numpy(), w.numpy())
    assert float(opt.step(net.loss(1))) == float(alike.step(other.loss(1)))


@pytest.mark.parametrize("make", [Trees, Others])
def test_rows_that_somebody_holds_are_waited_for(make: Any, begun: list[Any]) -> None:
    found: list[list[Any]] = []
    x, y = np.ones(1 << 20, np.float32), np.zeros(1 << 20, np.float32)
    for busy in (True, False):
        net, opt = make(), td.optim.Adam(lr=0.01)
        found.append([])
        with td.options(threads=2):
            for k in range(STEPS):
                loss, before = net.loss(k), Steps()
                for _ in range(100 if busy and k > STEPS - 4 else 0):
                    before.add("affine", len(x), 1 << 14, x, y)
                Queued(pool(2)).add(before)  # none of the step can be over before that
                opt.step(loss)
                found[-1] += [h.numpy().copy() for h in net.held]
    for own, other in zip(*found, strict=True):
        np.testing.assert_array_equal(own, other)


def test_positions_that_count_from_the_end() -> None:
    found = []
    for word in (WORDS - 3, -3):
        net, opt = Words(), td.optim.SGD(lr=0.1)
        table, first, last = net.parameters
        losses = []
        for k in range(5):
            scores = table[td.asarray([k, 1, word])] @ first @ last
            losses.append(float(opt.step(F.cross_entropy(scores, [0, 1, 2]))))
        found.append((losses, [p.numpy().copy() for p in net.parameters]))
    assert found[0][0] == found[1][0]
    for x, y in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_array_equal(x, y)


def test_no_more_memory_is_held_than_shall_be(pools: dict[int, Pool]) -> None:
    own, x, y = pools[2], np.ones(1000, np.float32), np.zeros(1000, np.float32)
    queued, limit = Queued(own), Limit("steps", 10)
    for number in range(6):
        steps = Steps()
        for _ in range(200):
            steps.add("affine", len(x), len(x), x, y)
        own.make_room(Held(4, limit))
        queued.add(steps, Held(4, limit))
        # No more than two of them, and this one, which is not told before others are.
        assert len(queued.told) >= number - 1
    own.make_room(Held(100, limit))
    assert len(queued.told) == 6


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint64"]
)
@pytest.mark.parametrize("size", [0, 1, 3])
def test_positions_are_looked_at_where_they_lie(dtype: str, size: int) -> None:
    arrays = [np.full(size, k, dtype) for k in (4, 0, 2)]
    addresses = np.array([x.ctypes.data for x in arrays], np.int64)
    own = Positions(np.array([2, 0]), td.asarray(arrays[0]).type, 5)
    assert own.are_right(addresses.ctypes.data)
    if size:
        for wrong in (5, 127) if dtype.startswith("u") else (5, -1, 127):
            arrays[2][size - 1] = wrong
            assert not own.are_right(addresses.ctypes.data)
            arrays[2][size - 1], arrays[1][:] = 2, 100  # nobody reads that
        assert own.are_right(addresses.ctypes.data)


class Story:
    """What a loop may do between steps, in any order; all that it has seen."""

    def __init__(self) -> None:
        self.nets: list[Any] = [make() for make, _ in NETS]
        self.opts = [td.optim.Adam(lr=0.01) for _ in self.nets]
        self.losses: list[Any] = []
        self.held: list[Any] = []
        self.seen: list[Any] = []

    def do(self, action: str, which: int, k: int) -> None:
        net, opt = self.nets[which], self.opts[which]
        getattr(self, action)(net, opt, k)

    def step(self, net: Any, opt: Any, k: int) -> None:
        self.losses.append(opt.step(net.loss(k)))

    def steps(self, net: Any, opt: Any, k: int) -> None:
        for _ in range(12):
            self.step(net, opt, k)

    def fail(self, net: Any, opt: Any, k: int) -> None:
        with pytest.raises(td.TreadleError, match="out of range"):
            opt.step(net.loss(k, word=WORDS))

    def together(self, net: Any, opt: Any, k: int) -> None:
        with td.transaction():
            self.step(net, opt, k)

    def undone(self, net: Any, opt: Any, k: int) -> None:
        with pytest.raises(ZeroDivisionError), td.transaction():
            opt.step(net.loss(k))
            raise ZeroDivisionError

    def look(self, net: Any, opt: Any, k: int) -> None:
        if self.losses:
            self.seen.append(float(self.losses[k % len(self.losses)]))

    def weights(self, net: Any, opt: Any, k: int) -> None:
        self.seen.append(net.parameters[k % len(net.parameters)].numpy().copy())

    def hold(self, net: Any, opt: Any, k: int) -> None:
        p = net.parameters[k % len(net.parameters)]
        self.held.append((p * 2.0, p.numpy()[1:]))

    def assign(self, net: Any, opt: Any, k: int) -> None:
        p = net.parameters[k % len(net.parameters)]
        p.assign(p * 0.5)

    def value(self, net: Any, opt: Any, k: int) -> None:
        self.seen.append(float(net.loss(k)))

    def told(self) -> list[Any]:
        for net, opt in zip(self.nets, self.opts, strict=True):
            self.seen += [v.numpy().copy() for v in (*net.parameters, *opt.states())]
        held = [x for pair in self.held for x in (pair[0].numpy(), pair[1])]
        return [*self.seen, *held, *map(float, self.losses)]


ACTIONS = [
    name for name in vars(Story) if name not in ("do", "told") and "_" not in name
]


@given(
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 2), st.integers(0, 4)),
        min_size=3,
        max_size=10,
    )
)
@settings(max_examples=4, deadline=None)
def test_whatever_is_done_between_steps(story: list[tuple[str, int, int]]) -> None:
    found = []
    for threads in (0, 1):
        with td.options(threads=threads), pytest.MonkeyPatch.context() as patch:
            patch.setattr(plan_parts, "WORTH", 0.0)
            told = Story()
            for action, which, k in story:
                told.do(action, which, k)
            found.append(told.told())
    for x, y in zip(*found, strict=True):
        np.testing.assert_array_equal(x, y)
