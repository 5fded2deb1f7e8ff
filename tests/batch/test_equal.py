"""Units that are equal are computed once: words that come again, whole subtrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from tests.batch.nets import WIDTH, Net, Tree, trees
from tests.batch.test_batching import agree, both, value_and_gradients
from tests.core.twins import in_python
from treadle.batch import equal
from treadle.batch.equal import number_values
from treadle.runtime.rows import counts


@pytest.fixture(autouse=True)
def small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the equals of small graphs be found, too."""
    monkeypatch.setattr("treadle.runtime.rows.MOST", 0)


def rows_of(net: Net, forest: list[Tree]) -> int:
    before = counts.rows
    value_and_gradients(net, forest)
    return counts.rows - before


def words(t: Tree) -> set[int]:
    return {t} if isinstance(t, int) else words(t[0]) | words(t[1])


def inner(t: Tree) -> list[Tree]:
    return [] if isinstance(t, int) else [t, *inner(t[0]), *inner(t[1])]


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_trees_whose_words_come_again(cells: bool, seed: int) -> None:
    net, forest = Net(cells), trees(seed, 20)
    agree(both(lambda: value_and_gradients(net, forest)))


def test_what_is_equal_is_one_row() -> None:
    forest = trees(1, 30, 9)
    leaves = set().union(*map(words, forest))
    cells = {t for own in forest for t in inner(own)}
    roots = len(set(forest))
    # A look-up and a cell for each word, cells, the affine map and loss of each root.
    made = rows_of(Net(), forest)
    least = 2 * len(leaves) + len(cells)
    assert least < made <= least + 8 * roots


def test_the_same_trees_again_are_no_more_rows() -> None:
    forest, net = trees(2, 21), Net()  # whose labels come again after 3
    losses = len(forest) * 3
    assert rows_of(net, forest * 4) <= rows_of(net, forest) + 3 * losses
    once, again = value_and_gradients(net, forest), value_and_gradients(net, forest * 4)
    agree((once, again))


def made(own: list[Any]) -> Any:
    while len(own) > 1:
        pairs = zip(own[::2], own[1::2], strict=False)
        own = [td.tanh(x * y + x) for x, y in pairs] + own[len(own) & ~1 :]
    return own[0].sum()


def param(name: str, *shape: int) -> td.Parameter:
    draw = np.random.default_rng(len(name))
    return td.param(name, init=draw.normal(size=shape), dtype="float64")


@pytest.mark.parametrize("cells", [True, False])
def test_results_that_are_held_have_a_gradient_of_their_own(cells: bool) -> None:
    net, forest = Net(cells), trees(8, 20, 4)
    inside = net.keep()

    def run() -> list[Any]:
        inside.clear()
        loss = td.stack(net.losses(forest)).sum()
        value = float(loss)
        return [value, *[g.numpy() for g in td.grad(loss, inside, unused="zero")]]

    agree(both(run))


@pytest.mark.parametrize("read", [False, True])
def test_what_is_held_has_a_gradient_of_its_own(read: bool) -> None:
    table, weight = param("table", 5, WIDTH), param("w", WIDTH, WIDTH)
    cell = td.function(lambda x: td.tanh(x @ weight))

    def run() -> list[Any]:
        leaves = [cell(td.rows(table, k % 5)) for k in range(40)]
        loss = made(leaves)
        value = [float(loss)] if read else []
        grads = td.grad(loss, [leaves[0], leaves[5], leaves[7], table, weight])
        return [*value, *[g.numpy() for g in grads]]

    agree(both(run))


def test_data_that_is_asked_for_has_a_gradient_of_its_own() -> None:
    data = [td.asarray(np.full(WIDTH, 0.1 * k)).stored for k in range(3)]
    weight = param("w", WIDTH, WIDTH)
    cell = td.function(lambda x: td.tanh(x @ weight))

    def run() -> list[Any]:
        xs = [td.asarray(data[k % 3]) for k in range(40)]
        loss = made([cell(x) for x in xs])
        return [g.numpy() for g in td.grad(loss, [xs[0], xs[3], weight])]

    agree(both(run))


def test_draws_are_equal_to_themselves_alone() -> None:
    table = td.param("table", init=np.random.default_rng(0).normal(size=(5, WIDTH)))
    cell = td.function(lambda x: td.tanh(x) * td.random.uniform((WIDTH,)))
    one = td.rows(table, 1)
    found = [cell(td.rows(table, 1)) for _ in range(20)] + [
        cell(one) for _ in range(20)
    ]
    every = np.stack(td.evaluate(*found))
    assert len(np.unique(every[:, 0])) == len(every)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_python_finds_the_same_equals(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 40))
    kinds = np.array(
        data.draw(st.lists(st.integers(-1, 5), min_size=count, max_size=count))
    )
    sizes = np.where(kinds < 0, 0, 1 + kinds % 3)
    starts = np.cumsum(sizes) - sizes
    words = np.zeros(int(sizes.sum()), np.int64)
    for k in range(count):
        for j in range(starts[k], starts[k] + sizes[k]):
            words[j] = data.draw(st.integers(0, max(min(k - 1, 4), 0)))

    one = number_values(kinds, starts, sizes, words, 2).tolist()
    with in_python(equal):
        assert one == number_values(kinds, starts, sizes, words, 2).tolist()
    own = [one[x] for x in words.tolist()]
    # Two are equal if and only if they do the same to the same.
    said: list[Any] = list(range(count))
    for k, kind in enumerate(kinds.tolist()):
        read = own if kind >= 2 else words.tolist()
        if kind >= 0:
            said[k] = kind, *read[starts[k] : starts[k] + sizes[k]]
    assert one == [said.index(x) for x in said]
