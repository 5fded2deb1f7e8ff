"""Axis names through loops and recurrent layers: results, gradients, mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base import trees

Call = Callable[..., Any]


def named(shape: tuple[int, ...], *names: str | None) -> td.Tensor:
    array = np.random.default_rng(len(shape)).uniform(-1, 1, shape)
    return td.asarray(array, axes=names)


X = named((5, 2, 3), "t", "n", "c")
START = named((2, 3), "n", "c")
W = named((3, 3), "c", "d")


def project(total: Any, row: Any) -> Any:
    after = td.tanh(total + row)
    return after, td.dot(after, W)


# A loop over the start and X, and the axes of its results.
LOOPS: dict[str, tuple[Call, list[Any]]] = {
    "scan": (lambda s, x: td.scan(project, s, x), [("n", "c"), ("t", "n", "d")]),
    "backwards": (
        lambda s, x: td.scan(project, s, x, reverse=True),
        [("n", "c"), ("t", "n", "d")],
    ),
    "scalars": (
        lambda s, x: td.scan(lambda a, r: (a * r, (a * r).sum()), s, x),
        [("n", "c"), ("t",)],
    ),
    "without names": (
        lambda s, x: td.scan(lambda a, r: (a * r, td.unname(r)), s, x),
        [("n", "c"), None],
    ),
    "carry without names": (
        lambda s, x: td.scan(lambda a, r: (td.unname(a) * td.unname(r), ()), s, x),
        [("n", "c")],
    ),
    "several": (
        lambda s, x: td.scan(lambda a, r: (a, (r[0] * r[1], r[1])), s, (x, x)),
        [("n", "c"), ("t", "n", "c"), ("t", "n", "c")],
    ),
    "by length": (
        lambda s, x: td.scan(lambda a, _: (a * 2, a), s, length=3),
        [("n", "c"), (None, "n", "c")],
    ),
    "map": (lambda s, x: td.map(lambda r: td.dot(r, W) * 2, x), [("t", "n", "d")]),
    "map by rows": (lambda s, x: td.map(lambda r: r.sum("n"), x), [("t", "c")]),
    "foldl": (lambda s, x: td.foldl(lambda a, r: td.sin(a * r), s, x), [("n", "c")]),
    "function": (
        lambda s, x: td.function(lambda a, b: td.scan(project, a, b))(s, x),
        [("n", "c"), ("t", "n", "d")],
    ),
    "within": (
        lambda s, x: td.map(
            lambda row: td.scan(lambda a, r: (a + r, a * r), s.sum("n"), row)[1], x
        ),
        [("t", "n", "c")],
    ),
}


@pytest.mark.parametrize("case", LOOPS)
def test_a_loop_keeps_names(case: str) -> None:
    loop, axes = LOOPS[case]
    results = trees.flatten(loop(START, X))[0]
    assert [y.axes for y in results] == axes
    with td.options(engine="reference", optimize=False):
        again = trees.flatten(loop(START, X))[0]
        judged = [y.numpy() for y in again]
    for y, wanted in zip(results, judged, strict=True):
        np.testing.assert_allclose(y.numpy(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", LOOPS)
def test_gradients_of_a_loop_have_names(case: str) -> None:
    loop, _ = LOOPS[case]

    def loss(s: Any, x: Any) -> Any:
        return sum(((y * y).sum() for y in trees.flatten(loop(s, x))[0]), td.sum(s * 0))

    found = td.grad(loss(START, X) + (X * 0).sum(), [START, X])
    assert [g.axes for g in found] == [START.axes, X.axes]
    rng, h = np.random.default_rng(1), 1e-5
    for k, g in enumerate(found):
        way = rng.uniform(-1, 1, g.shape)
        steps = []
        for sign in (1, -1):
            moved = [START, X]
            moved[k] = td.asarray(moved[k].numpy() + sign * h * way, axes=g.axes)
            steps.append(float(loss(*moved)))
        slope = (steps[0] - steps[1]) / (2 * h)
        assert abs(float((g.numpy() * way).sum()) - slope) < 1e-6 * max(1, abs(slope))


def test_second_derivatives_of_a_loop_have_names() -> None:
    _, ys = td.scan(project, START, X)
    (g,) = td.grad((ys * ys).sum(), [X])
    (gg,) = td.grad((g * g).sum(), [X])
    assert gg.axes == X.axes
    assert np.isfinite(gg.numpy()).all()


def test_rows_of_loops_have_names() -> None:
    xs = named((4, 5, 3), "b", "t", "c")
    start = named((3,), "c")

    def each(x: Any) -> Any:
        return td.scan(lambda a, r: (a + r, a * r), start, x)[1]

    rows = td.vmap(each, in_axes="b")(xs)
    assert rows.axes == ("b", "t", "c")
    for k in range(4):
        np.testing.assert_allclose(rows.numpy()[k], each(xs[k]).numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "body, message",
    [
        (lambda a, r: (td.rename_axes(a, c="d"), ()), "carry 0 is .*c=3.*d=3"),
        (lambda a, r: (a, td.rename_axes(r, c="t")), "repeat a name"),
        (lambda a, r: (a + td.ones((2, 3), "float64"), ()), "has no axis names"),
    ],
)
def test_axes_that_do_not_fit_are_refused(body: Call, message: str) -> None:
    with pytest.raises(td.AxisError, match=message):
        td.scan(body, START, X)


LAYERS: dict[str, Call] = {
    "rnn": lambda: td.nn.RNN(3, 4),
    "gru": lambda: td.nn.GRU(3, 4, 2, bidirectional=True),
    "lstm": lambda: td.nn.LSTM(3, 4, 2),
    "batch first": lambda: td.nn.LSTM(3, 4, batch_first=True),
}


@pytest.mark.parametrize("lengths", [None, [2, 5]])
@pytest.mark.parametrize("case", LAYERS)
def test_last_states_have_names(case: str, lengths: Any) -> None:
    layer, x = LAYERS[case](), td.unname(X).astype("float32")
    first = case == "batch first"
    x = td.permute_dims(x, (1, 0, 2)) if first else x
    axes = ("n", "t", "c") if first else ("t", "n", "c")
    outputs, last = layer(td.name_axes(x, *axes), None, lengths)
    _, plain_last = layer(x, None, lengths)
    assert outputs.axes == axes
    for y, wanted in zip(
        trees.flatten(last)[0], trees.flatten(plain_last)[0], strict=True
    ):
        assert y.axes == (None, "n", "c") and wanted.axes is None
        assert y.numpy().tobytes() == wanted.numpy().tobytes()
    again, _ = layer(td.name_axes(x, *axes), last, lengths)
    assert again.axes == axes
    assert again.numpy().tobytes() == layer(x, plain_last, lengths)[0].numpy().tobytes()


def test_a_state_of_another_batch_is_refused() -> None:
    layer = td.nn.RNN(3, 4)
    state = named((1, 2, 4), None, "m", "c")
    with pytest.raises(td.AxisError, match=r"a state .*m=2.* beside a batch"):
        layer(X.astype("float32"), state)


def test_a_sequence_alone_has_a_state_with_names() -> None:
    _, last = td.nn.GRU(3, 4)(named((5, 3), "t", "c").astype("float32"))
    assert last.axes == (None, "c")
