"""The statements of Owl's document: pictures, optimizations, a wish."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import treadle as td


def test_s20_labels_tell_op_references_and_shape() -> None:
    x, y = td.ones((8, 4)), td.ones((1, 4))
    picture = td.to_dot(td.sin(x * y))
    for part in ("Sin", "Multiply", "8, 4", "1, 4", "refs"):
        assert part in picture, part


def unrolled(length: int) -> td.Tensor:
    """An LSTM by its formulas."""
    own, past = (td.param(f"w{n}", init=np.ones((16, n))) for n in (3, 4))
    h, c, losses = td.zeros((2, 4)), td.zeros((2, 4)), []
    for x in np.ones((length, 2, 3), np.float32):
        i, f, g, o = td.split(x @ own.T + h @ past.T, 4, -1)
        c = td.sigmoid(f) * c + td.sigmoid(i) * td.tanh(g)
        h = td.sigmoid(o) * td.tanh(c)
        losses.append((h * h).mean())
    return td.stack(losses).sum()


def test_s19_an_unrolled_lstm_grows_by_the_step_and_rules_make_it_smaller() -> None:
    sizes = []
    for length in (4, 8, 12):
        told = {s.stage: s.nodes for s in td.explain(unrolled(length)).sizes}
        assert told["rewrite"] < told["inline"]
        sizes.append(told["rewrite"])
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0]


X = td.param("x", init=np.ones((4, 1), np.float32))
Y = td.param("y", init=np.ones((4, 3), np.float32))


@pytest.mark.parametrize(
    ("y", "formula"),
    [
        pytest.param(
            lambda: td.constant(2.0) * 3.0 + X, "6 + x", id="constant folding"
        ),
        pytest.param(lambda: X + 0, "x", id="adding zero"),
        pytest.param(lambda: Y * td.repeat(X, 3, 1), "y * x", id="redundant repeat"),
    ],
)
def test_s21_what_is_simplified(y: Callable[[], td.Tensor], formula: str) -> None:
    assert str(td.simplify(y())) == formula


def test_s21_product_and_sum_and_adagrad_take_one_pass() -> None:
    with td.options(engine="native"):
        assert td.lower(Y * Y + X).steps == 1
        w = td.param("w", init=np.ones((100,), np.float32))
        td.optim.Adagrad(lr=0.1).step((w * w).sum())
        kernels = td.latest_program().kernels.split("\n\n")
    update = [k for k in kernels if "sqrt" in k]
    assert len(update) == 1 and "divide" in update[0] and "subtract" in update[0]


def test_s22_a_graph_that_repeats_is_found_by_itself() -> None:
    w = td.param("w", init=np.ones((3, 3), np.float32))
    optimizer = td.optim.SGD(lr=0.01)

    def step(deep: bool) -> None:
        y = td.tanh(w @ w)
        optimizer.step((td.sin(y) if deep else y).sum())

    with td.options(engine="native"):
        for deep in (False, True):
            step(deep)
        before = td.cache_info()
        for deep in (False, False, True, False):
            step(deep)  # another structure takes its own program, without a word
        after = td.cache_info()
    assert (after.misses, after.hits) == (before.misses, before.hits + 4)
