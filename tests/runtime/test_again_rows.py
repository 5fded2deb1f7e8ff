"""Steps of graphs that run as rows, and look like one before: the same bits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import WORDS, Net, Tree, trees
from tests.core.twins import needs_core
from tests.engines.test_pool import failing_after
from treadle.engines.native.execution.pool import Pool
from treadle.graph import look
from treadle.runtime import planning
from treadle.runtime.rows import counts

F = td.nn.functional
O = td.optim  # noqa: E741
STEPS = 6


@pytest.fixture(autouse=True, params=["at once", "part by part"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The core runs plans of small rows; others are gone through by Python."""
    if request.param == "part by part":
        monkeypatch.setattr(planning, "small_programs", lambda parts: [])


def renamed(t: Tree, shift: int) -> Tree:
    """A tree of the same form with other words."""
    if isinstance(t, int):
        return (t + shift) % WORDS
    return tuple([renamed(x, shift) for x in t])


def forest(shift: int) -> list[Tree]:
    return [renamed(t, shift) for t in trees(5, 12, 6)]


class Ways:
    """How a step uses what the trees come to; each gives the loss and what is held."""

    @staticmethod
    def plain(net: Net, shift: int) -> tuple[Any, list[Any]]:
        return td.stack(net.losses(forest(shift))).mean(), []

    @staticmethod
    def joined(net: Net, shift: int) -> tuple[Any, list[Any]]:
        roots = td.stack([net.encode(t)[0] for t in forest(shift)])
        labels = [(k + shift) % 3 for k in range(12)]
        return F.cross_entropy(roots @ net.top, td.asarray(labels)), []

    @staticmethod
    def held(net: Net, shift: int) -> tuple[Any, list[Any]]:
        roots = [net.encode(t)[0] for t in forest(shift)]
        loss = td.stack([(h * h).sum() for h in roots]).sum()
        return loss, roots[:3]

    @staticmethod
    def dropped(net: Net, shift: int) -> tuple[Any, list[Any]]:
        roots = td.stack([net.encode(t)[0] for t in forest(shift)])
        return (F.dropout(roots, 0.5) @ net.top).sum(), []

    @staticmethod
    def constants(net: Net, shift: int) -> tuple[Any, list[Any]]:
        rows = td.constant(np.sin(np.arange(6.0 * WORDS)).reshape(WORDS, 6), "float64")

        def encode(t: Tree) -> Any:
            if isinstance(t, int):
                return net.leaf_cell(td.rows(rows, t))
            return net.inner_cell(*encode(t[0]), *encode(t[1]))

        return td.stack([encode(t)[0].sum() for t in forest(shift)]).sum(), []

    @staticmethod
    def sequences(net: Net, shift: int) -> tuple[Any, list[Any]]:
        x = td.constant(np.cos(np.arange(60.0) + shift).reshape(10, 6), "float64")
        losses = []
        for start in range(4):
            h, c = net.leaf_cell(x[start])
            for row in td.unstack(x)[start + 1 :]:
                h, c = net.inner_cell(row, c, h, c)
            losses.append((h * h).sum())
        return td.stack(losses).sum(), []


WAYS = [name for name in vars(Ways) if not name.startswith("_")]
OTHERS = "adam", "clipped"
# Each way with one optimizer, and with one of the others.
PAIRS = [(way, "descent") for way in WAYS]
PAIRS += [(way, OTHERS[k % 2]) for k, way in enumerate(WAYS)]
VARY = "constants", "sequences"  # values tell where rows begin, or are taken apart
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "descent": lambda: O.SGD(lr=0.1),
    "adam": lambda: O.Adam(lr=0.01),
    "clipped": lambda: O.Adagrad(lr=0.01, clip_norm=0.5),
}


def trained(make: Callable[[], Any], way: str, cells: bool) -> list[Any]:
    """All that can be seen of some steps of training."""
    net, optimizer, seen = Net(cells), make(), []
    for step in range(STEPS):
        with td.options(seed=step):
            loss, held = getattr(Ways, way)(net, step)
            seen.append(optimizer.step(loss))
        assert not any(x.inputs for x in held)
        seen += [x.numpy() for x in held]
    return [
        *seen,
        *optimizer.state_dict().values(),
        *[p.numpy() for p in net.parameters],
    ]


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize(("way", "name"), PAIRS)
def test_same_bits(
    way: str,
    name: str,
    cells: bool,
    hits: list[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = counts.runs
    known = trained(OPTIMIZERS[name], way, cells)
    assert counts.runs - before >= STEPS  # by a plan or not
    if way not in VARY:
        assert len(hits) == STEPS - 2  # after the first and the one that is noted
    monkeypatch.setattr(look, "MOST", 0)
    del hits[:]
    long = trained(OPTIMIZERS[name], way, cells)
    assert not hits
    assert len(known) == len(long)
    for a, b in zip(known, long, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_subset_is_updated(hits: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def weights() -> list[Any]:
        net, optimizer = Net(), O.SGD(lr=0.1)
        for step in range(STEPS):
            loss = Ways.plain(net, step)[0]
            optimizer.update_subset([net.inner], loss)
        return [p.numpy() for p in net.parameters]

    known = weights()
    assert hits
    monkeypatch.setattr(look, "MOST", 0)
    for a, b in zip(known, weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_word_that_is_none(hits: list[Any]) -> None:
    net, optimizer = Net(), O.Adam(lr=0.1)
    for step in range(4):
        optimizer.step(Ways.plain(net, step)[0])
    assert len(hits) == 2
    before = [p.numpy().copy() for p in net.parameters]
    wrong = forest(1)
    wrong[3] = (wrong[3], WORDS + 5) if isinstance(wrong[3], int) else (0, WORDS + 5)
    like = forest(1)
    like[3] = (0, 1)
    for _ in range(3):
        optimizer.step(td.stack(net.losses(like)).mean())
    before = [p.numpy().copy() for p in net.parameters]
    wrong = [*like[:3], (0, WORDS + 5), *like[4:]]
    del hits[:]
    with pytest.raises(td.RunError, match=str(WORDS + 5)):
        optimizer.step(td.stack(net.losses(wrong)).mean())
    assert not hits
    for p, x in zip(net.parameters, before, strict=True):
        np.testing.assert_array_equal(p.numpy(), x)
    optimizer.step(td.stack(net.losses(like)).mean())
    assert not np.array_equal(net.inner.numpy(), before[2])


def test_a_label_that_is_none(hits: list[Any]) -> None:
    net, optimizer = Net(), O.Adam(lr=0.1)

    def step(label: int) -> Any:
        roots = td.stack([net.encode(t)[0] for t in forest(1)])
        labels = td.asarray([label, *range(3), *range(3), 0, 1, 1, 2, 2])
        return optimizer.step(F.cross_entropy(roots @ net.top, labels))

    for k in range(4):
        step(k % 3)
    assert len(hits) == 2
    every = [*net.parameters, *optimizer.states()]
    before = [v.numpy().copy() for v in every]
    with pytest.raises(td.RunError, match="9"):
        step(9)
    assert len(hits) == 2
    for v, x in zip(every, before, strict=True):
        np.testing.assert_array_equal(v.numpy(), x)
    step(2)
    assert not np.array_equal(net.inner.numpy(), before[2])


def test_labels_that_are_none_are_the_error_of_their_thread() -> None:
    def trained(net: Net, labels: list[int], told: list[str]) -> list[Any]:
        optimizer = O.Adam(lr=0.1)
        for label in labels:
            roots = td.stack([net.encode(t)[0] for t in forest(1)])
            wanted = td.asarray([label, *range(3), *range(3), 0, 1, 1, 2, 2])
            try:
                optimizer.step(F.cross_entropy(roots @ net.top, wanted))
            except td.RunError as error:
                told.append(str(error))
        return [p.numpy() for p in net.parameters]

    good = [k % 3 for k in range(60)]
    nets = Net(), Net()
    told: tuple[list[str], list[str]] = [], []
    mixed = [7 if k % 4 == 3 else k % 3 for k in range(60)]
    works = [
        threading.Thread(target=trained, args=(nets[0], good, told[0])),
        threading.Thread(target=trained, args=(nets[1], mixed, told[1])),
    ]
    for one in works:
        one.start()
    for one in works:
        one.join()
    assert not told[0]
    assert len(told[1]) == 15 and all("7" in x for x in told[1])
    for net, labels in ((nets[0], good), (nets[1], [x for x in mixed if x < 7])):
        for p, x in zip(net.parameters, trained(Net(), labels, []), strict=True):
            np.testing.assert_array_equal(p.numpy(), x)


@needs_core
def test_an_update_that_fails_is_told_by_the_next_step(
    hits: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    net, optimizer = Net(), O.Adam(lr=0.1)
    monkeypatch.setattr(planning, "small_programs", lambda parts: [])

    def step(shift: int) -> None:
        optimizer.step(Ways.joined(net, shift)[0])

    for k in range(4):
        step(k)
    every = [*net.parameters, *optimizer.states()]
    before = [v.numpy().copy() for v in every]
    # The way there, the loss and the way back go well.
    monkeypatch.setattr(Pool, "queue", failing_after(3))
    with pytest.raises(td.RunError, match="out of range"):
        step(4)  # it is told here or by the next step, if it has failed by then
        monkeypatch.undo()
        step(5)
        net.parameters[0].numpy()
    monkeypatch.undo()
    for v, x in zip(every, before, strict=True):
        np.testing.assert_array_equal(v.numpy(), x)
    other, alike = Net(), O.Adam(lr=0.1)
    for k in (0, 1, 2, 3, 6):
        alike.step(Ways.joined(other, k)[0])
    step(6)
    for p, q in zip(net.parameters, other.parameters, strict=True):
        np.testing.assert_array_equal(p.numpy(), q.numpy())


def test_a_table_is_changed_where_it_lies(hits: list[Any]) -> None:
    net, optimizer, places = Net(), O.SGD(lr=0.1), set()
    for step in range(STEPS):
        optimizer.step(Ways.plain(net, step)[0])
        places.add(net.table.committed.array.ctypes.data)  # type: ignore[union-attr]
    assert len(hits) == STEPS - 2  # after the first and the one that is noted
    assert len(places) == 1


def test_where_graphs_come_again_a_new_one_is_planned_at_once(hits: list[Any]) -> None:
    net, optimizer = Net(), O.SGD(lr=0.1)
    for step in range(10):
        optimizer.step(Ways.plain(net, step)[0])
    assert len(hits) == 10 - 2
    for k in range(2):
        losses = net.losses(forest(k)[:9])
        optimizer.step(td.stack(losses).mean())
        assert len(hits) == 8 + k
