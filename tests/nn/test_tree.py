"""Tree cells do what their formulas say, on any tree, one by one and batched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.nn.cells import lstm, sig
from treadle import nn
from treadle.runtime.rows import counts

IN, H = 3, 4
W = dict[str, Any]
State = tuple[Any, Any]


def cut(x: Any, count: int) -> list[Any]:
    return np.split(x, count, -1)


def child_sum(w: W, x: Any, children: list[State], forget: float) -> State:
    s = sum((h for h, _ in children), np.zeros(H))
    own = w["bias_ih"] if x is None else x @ w["weight_ih"].T + w["bias_ih"]
    (i, f, g, o), (ui, uf, ug, uo) = cut(own, 4), np.split(w["weight_hh"], 4)
    c = sig(i + ui @ s) * np.tanh(g + ug @ s)
    c = c + sum(sig(f + uf @ h + forget) * ck for h, ck in children)
    return sig(o + uo @ s) * np.tanh(c), c


def nary(w: W, x: Any, children: list[State], forget: float) -> State:
    n = w["weight_hh"].shape[1] // H
    hs = [*[h for h, _ in children], *[np.zeros(H)] * (n - len(children))]
    cs = [*[c for _, c in children], *[np.zeros(H)] * (n - len(children))]
    own = w["bias_ih"] if x is None else x @ w["weight_ih"].T + w["bias_ih"]
    i, f, g, o = cut(own, 4)
    ui, *uf, ug, uo = cut(w["weight_hh"] @ np.concatenate(hs), 3 + n)
    vi, *vf, vo = [0.0] * (2 + n)
    if "weight_ch" in w:
        vi, *vf, vo = cut(w["weight_ch"] @ np.concatenate(cs), 2 + n)
    c = sig(i + ui + vi) * np.tanh(g + ug)
    c = c + sum(sig(f + uf[k] + vf[k] + forget) * cs[k] for k in range(n))
    return sig(o + uo + vo) * np.tanh(c), c


def sequential(w: W, x: Any, children: list[Any], forget: float) -> Any:
    def over(name: str, steps: list[Any]) -> Any:
        own = {k[len(name) + 1 :]: v for k, v in w.items() if k.startswith(name)}
        n = own["weight_hh"].shape[1]
        h, c = np.zeros(n), np.zeros(n)
        for step in steps:
            h, c = lstm(own, step, (h, c))
        return h

    first = [] if x is None else [x]
    ahead = over("ahead", [*first, *children])
    if "back.weight_hh" not in w:
        return ahead
    return np.concatenate([ahead, over("back", [*first, *children[::-1]])])


Formula = Callable[[W, Any, list[Any], float], Any]
ROWS: list[tuple[str, Any, Formula, float]] = [
    ("sum", lambda d: nn.ChildSumTreeLSTMCell(IN, H, dtype=d), child_sum, 0.0),
    (
        "sum, forget bias",
        lambda d: nn.ChildSumTreeLSTMCell(IN, H, dtype=d, forget_bias=1.0),
        child_sum,
        1.0,
    ),
    ("binary", lambda d: nn.NaryTreeLSTMCell(IN, H, dtype=d), nary, 0.0),
    (
        "ternary, peepholes",
        lambda d: nn.NaryTreeLSTMCell(IN, H, 3, dtype=d, peepholes=True),
        nary,
        0.0,
    ),
    ("in order", lambda d: nn.SequentialTreeCell(4, dtype=d), sequential, 0.0),
    ("both ways", lambda d: nn.SequentialTreeCell(4, True, dtype=d), sequential, 0.0),
]
Tree = Any  # a word, or (word or None, children)
FOREST: list[Tree] = [
    1,
    (None, [2, (3, [0, 4])]),
    ((5, [1])),
    (None, [(None, [1, 2]), (None, [3, (4, [5, 0])])]),
    (2, [(None, [(None, [1, 1]), 2]), 3]),
]


def folded(tree: Tree, word: Any, cell: Any) -> Any:
    if isinstance(tree, int):
        return cell(word(tree), [])
    own, children = tree
    return cell(
        None if own is None else word(own), [folded(c, word, cell) for c in children]
    )


def parts(state: Any) -> list[Any]:
    return list(state) if isinstance(state, tuple) else [state]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_values_and_gradients_of_trees(row: tuple[str, Any, Formula, float]) -> None:
    _, make, formula, forget = row
    cell, rng = make("float64"), np.random.default_rng(2)
    words = rng.normal(size=(6, cell.input_size))
    w = cell.state_dict()
    table = td.param("words", init=words, dtype="float64")
    trained = [table, *cell.parameters()]
    names = ["words", *[name for name, _ in cell.named_parameters()]]
    with td.options(engine="reference"):
        states = [folded(t, lambda k: table[k], cell) for t in FOREST]
        for tree, state in zip(FOREST, states, strict=True):
            want = folded(
                tree, words.__getitem__, lambda x, cs: formula(w, x, cs, forget)
            )
            for a, b in zip(parts(state), parts(want), strict=True):
                np.testing.assert_allclose(a.numpy(), b, rtol=1e-10)
        loss = sum((y * y).sum() for state in states for y in parts(state))
        grads = [g.numpy() for g in td.grad(loss, trained)]
    ways = [rng.normal(size=g.shape) for g in grads]

    def value(step: float) -> float:
        moved = {k: {**w, "words": words}[k] + step * d
                 for k, d in zip(names, ways, strict=True)}  # fmt: skip
        own = {**w, **moved}
        found = [
            folded(t, moved["words"].__getitem__,
                   lambda x, cs: formula(own, x, cs, forget))
            for t in FOREST
        ]  # fmt: skip
        return float(sum((y * y).sum() for state in found for y in parts(state)))

    slope = sum(float((g * d).sum()) for g, d in zip(grads, ways, strict=True))
    want = (value(1e-5) - value(-1e-5)) / 2e-5
    assert slope == pytest.approx(want, rel=1e-6)


@pytest.mark.parametrize("row", [ROWS[0], ROWS[3]], ids=lambda row: row[0])
def test_trees_of_cells_are_batched(row: tuple[str, Any, Formula, float]) -> None:
    cell = row[1]("float64")
    table = td.param(init=np.random.default_rng(3).normal(size=(6, IN)), dtype="f8")
    call = td.function(lambda x, children: cell(x, children))

    def run() -> list[Any]:
        states = [folded(t, lambda k: td.rows(table, k), call) for t in FOREST * 4]
        loss = td.stack([(h * h).sum() for h, _ in states]).sum()
        grads = td.grad(loss, [table, *cell.parameters()])
        return [float(loss), *[g.numpy() for g in grads]]

    before = counts.runs
    batched = run()
    assert counts.runs > before
    with td.options(autobatch=False, engine="reference"):
        for a, b in zip(batched, run(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def encoded(encoder: Any, tree: Tree, words: Any) -> list[Any]:
    def children(node: Tree) -> Any:
        return () if isinstance(node, int) else node[1]

    def word(node: Tree) -> Any:
        own = node if isinstance(node, int) else node[0]
        return None if own is None else words[own]

    return encoder(tree, children=children, inputs=word)


def test_layers_over_whole_trees() -> None:
    words = np.random.default_rng(4).normal(size=(6, IN))
    with td.options(engine="reference"):
        one = nn.NaryTreeLSTMCell(IN, H, dtype="float64")
        cells = [one, nn.NaryTreeLSTMCell(H, H, dtype="float64")]
        nodes = encoded(nn.TreeEncoder(cells), FOREST[3], words)
        assert len(nodes) == 9 and nodes[-1][0] is FOREST[3]
        below = dict(enumerate(encoded(nn.TreeEncoder(one), FOREST[3], words)))
        want = folded(FOREST[3], words.__getitem__, one)[0]
        np.testing.assert_allclose(below[8][1].numpy(), want.numpy(), rtol=1e-12)
        w = cells[1].state_dict()
        leaf = nary(w, below[0][1].numpy(), [], 0.0)[0]
        np.testing.assert_allclose(nodes[0][1].numpy(), leaf, rtol=1e-10)


def test_from_the_root_down() -> None:
    words = np.random.default_rng(5).normal(size=(6, IN))
    with td.options(engine="reference", dtype="float64"):
        cell = nn.NaryTreeLSTMCell(IN, H)
        encoder = nn.TreeEncoder(cell, bidirectional=True)
        tree = (None, [1, (None, [2, 3])])
        nodes = encoded(encoder, tree, words)
        up = encoded(nn.TreeEncoder(cell), tree, words)
        outputs = [y.numpy() for _, y in up]
        first, second = (c.state_dict() for c in encoder.down[0])
        zero = np.zeros(H), np.zeros(H)
        root = lstm(first, outputs[4], zero)
        inner = lstm(second, outputs[3], root)
        for k, want in ((4, root), (3, inner), (0, lstm(first, outputs[0], root)),
                        (1, lstm(first, outputs[1], inner)),
                        (2, lstm(second, outputs[2], inner))):  # fmt: skip
            found = nodes[k][1].numpy()
            np.testing.assert_allclose(found[:H], outputs[k], rtol=1e-12)
            np.testing.assert_allclose(found[H:], want[0], rtol=1e-10)
        two = nn.TreeEncoder([cell, nn.NaryTreeLSTMCell(2 * H, H)], bidirectional=True)
        assert encoded(two, tree, words)[-1][1].shape == (2 * H,)


def test_deep_trees_do_not_recurse() -> None:
    tree: Tree = 0
    for k in range(1200):
        tree = (k % 6, [tree])
    encoder = nn.TreeEncoder(nn.ChildSumTreeLSTMCell(IN, H))
    nodes = encoded(encoder, tree, td.zeros((6, IN)))
    assert len(nodes) == 1201


def test_wrong_trees_are_refused() -> None:
    cell, total = nn.NaryTreeLSTMCell(IN, H), nn.ChildSumTreeLSTMCell(IN, H)
    leaf = cell(td.ones(IN))
    with pytest.raises(td.ArgumentError, match="3 children are more than the arity"):
        cell(None, [leaf] * 3)
    for one in (cell, total, nn.SequentialTreeCell(4)):
        with pytest.raises(td.ArgumentError, match="an input or children"):
            one(None)
    with pytest.raises(td.ShapeError, match="width 3"):
        cell(td.ones(IN + 1))
    for wrong in (
        lambda: nn.NaryTreeLSTMCell(IN, H, 0),
        lambda: nn.SequentialTreeCell(3, True),
        lambda: nn.TreeEncoder([]),
        lambda: nn.TreeEncoder([cell, nn.NaryTreeLSTMCell(IN + 2, H)]),
    ):
        with pytest.raises(td.ArgumentError):
            wrong()
