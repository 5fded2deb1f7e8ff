"""Axis names through public functions, layers, gradients and what runs rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.nn import functional as F

F32 = np.float32


def named(shape: tuple[int, ...], *names: str | None) -> td.Tensor:
    array = np.random.default_rng(0).uniform(-1, 1, shape).astype(F32)
    return td.asarray(array, axes=names)


X = named((2, 3), "n", "c")
IMAGE = named((2, 3, 4, 6), "n", "c", "h", "w")
TEXT = named((2, 5, 4), "n", "t", "d")
STACK = td.name_axes(
    td.asarray(np.stack([4 * np.eye(3, dtype=F32) + 1] * 2)), "b", None, None
)
Case = tuple[Any, Callable[[], Any], tuple[str | None, ...]]
FUNCTIONS: dict[str, Case] = {
    "sum": (X, lambda: td.sum(X, "c"), ("n",)),
    "dot": (X, lambda: td.dot(X, named((3, 7), "c", "k")), ("n", "k")),
    "matmul": (X, lambda: X @ named((3, 7), "c", "k"), ("n", "k")),
    "softmax": (X, lambda: td.softmax(X, "c"), ("n", "c")),
    "layer_norm": (X, lambda: td.layer_norm(X, td.ones(3)), ("n", "c")),
    "conv2d": (
        IMAGE,
        lambda: td.conv2d(IMAGE, td.ones((5, 3, 2, 2)), td.ones(5)),
        ("n", "c", "h", "w"),
    ),
    "conv2d by named weights": (
        IMAGE,
        lambda: td.conv2d(IMAGE, named((5, 3, 2, 2), "o", "c", None, None)),
        ("n", "o", "h", "w"),
    ),
    "conv_transpose2d": (
        IMAGE,
        lambda: td.conv_transpose2d(IMAGE, td.ones((3, 5, 2, 2)), td.ones(5)),
        ("n", "c", "h", "w"),
    ),
    "max_pool": (IMAGE, lambda: td.max_pool2d(IMAGE, 2), ("n", "c", "h", "w")),
    "avg_pool": (
        IMAGE,
        lambda: td.avg_pool2d(IMAGE, 2, padding=1, count_include_pad=False),
        ("n", "c", "h", "w"),
    ),
    "global_avg_pool": (IMAGE, lambda: td.global_avg_pool(IMAGE), ("n", "c")),
    "adaptive_avg_pool": (
        IMAGE,
        lambda: td.adaptive_avg_pool(IMAGE, 2),
        ("n", "c", "h", "w"),
    ),
    "masked_avg_pool": (X, lambda: td.masked_avg_pool(X, X > 0, "c"), ("n",)),
    "upsample": (
        IMAGE,
        lambda: td.upsample(IMAGE, 2, "linear"),
        ("n", "c", "h", "w"),
    ),
    "unfold": (IMAGE, lambda: td.unfold(IMAGE, 2), ("n", None, None)),
    "attention": (
        TEXT,
        lambda: td.attention(TEXT, TEXT, TEXT, td.zeros((5, 5))),
        ("n", "t", "d"),
    ),
    "attention to others": (
        TEXT,
        lambda: td.attention(
            TEXT, named((2, 7, 4), "n", "s", "d"), named((2, 7, 3), "n", "s", "e")
        ),
        ("n", "t", "e"),
    ),
    "attention with dropout": (
        TEXT,
        lambda: td.attention(TEXT, TEXT, TEXT, dropout=lambda w: w * 1.0),
        ("n", "t", "d"),
    ),
    "cross_entropy": (
        X,
        lambda: td.cross_entropy(X, [0, 1], reduction="none"),
        ("n",),
    ),
    "nll_loss": (X, lambda: td.nll_loss(X, [0, 1], reduction="none"), ("n",)),
    "unlikelihood": (
        X,
        lambda: td.unlikelihood(X, [0, 1], reduction="none"),
        ("n",),
    ),
    "class_hinge_loss": (
        X,
        lambda: td.class_hinge_loss(X, [0, 1], reduction="none"),
        ("n",),
    ),
    "inv": (STACK, lambda: td.linalg.inv(STACK), ("b", None, None)),
    "det": (STACK, lambda: td.linalg.det(STACK), ("b",)),
    "slogdet": (STACK, lambda: td.linalg.slogdet(STACK)[1], ("b",)),
    "solve": (STACK, lambda: td.linalg.solve(STACK, td.ones(3)), ("b", None)),
    "cholesky": (STACK, lambda: td.linalg.cholesky(STACK), ("b", None, None)),
    "lstsq": (STACK, lambda: td.linalg.lstsq(STACK, STACK), ("b", None, None)),
    "svdvals": (STACK, lambda: td.linalg.svdvals(STACK), ("b", None)),
    "matrix_power": (
        STACK,
        lambda: td.linalg.matrix_power(STACK, 3),
        ("b", None, None),
    ),
    "same unnamed dimensions": (
        STACK,
        lambda: STACK + td.linalg.inv(STACK),
        ("b", None, None),
    ),
    "F.linear": (X, lambda: F.linear(X, td.ones((7, 3)), td.ones(7)), ("n", "c")),
    "vmap": (X, lambda: td.vmap(lambda r: r * 2.0, in_axes="n")(X), ("n", "c")),
    "function": (X, lambda: td.function(lambda a: a * 2.0)(X), ("n", "c")),
    "cond": (
        X,
        lambda: td.cond(td.asarray(True), lambda: X * 2.0, lambda: X),
        ("n", "c"),
    ),
    "at": (X, lambda: X.at[0].set(named((3,), "c")), ("n", "c")),
}
LAYERS: dict[str, tuple[Any, Callable[[], Any], tuple[str | None, ...]]] = {
    "Linear": (X, lambda: td.nn.Linear(3, 7), ("n", "c")),
    "Conv2d": (IMAGE, lambda: td.nn.Conv2d(3, 5, 2), ("n", "c", "h", "w")),
    "ConvTranspose2d": (
        IMAGE,
        lambda: td.nn.ConvTranspose2d(3, 5, 2),
        ("n", "c", "h", "w"),
    ),
    "BatchNorm2d": (IMAGE, lambda: td.nn.BatchNorm2d(3), ("n", "c", "h", "w")),
    "BatchNorm2d in use": (
        IMAGE,
        lambda: td.nn.BatchNorm2d(3).eval(),
        ("n", "c", "h", "w"),
    ),
    "GroupNorm": (IMAGE, lambda: td.nn.GroupNorm(3, 3), ("n", "c", "h", "w")),
    "LayerNorm": (X, lambda: td.nn.LayerNorm(3), ("n", "c")),
    "RMSNorm": (X, lambda: td.nn.RMSNorm(3), ("n", "c")),
    "PReLU": (IMAGE, lambda: td.nn.PReLU(3), ("n", "c", "h", "w")),
    "Flatten": (IMAGE, lambda: td.nn.Flatten(), ("n", None)),
    "Upsample": (IMAGE, lambda: td.nn.Upsample(scale_factor=2), ("n", "c", "h", "w")),
    "LSTMCell": (X, lambda: td.nn.LSTMCell(3, 6), ("n", "c")),
    "GRU": (TEXT, lambda: td.nn.GRU(4, 6, batch_first=True), ("n", "t", "d")),
    "MultiHeadAttention": (
        TEXT,
        lambda: td.nn.MultiHeadAttention(4, 2),
        ("n", "t", "d"),
    ),
    "TransformerEncoderLayer": (
        TEXT,
        lambda: td.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0),
        ("n", "t", "d"),
    ),
    "a network": (
        IMAGE,
        lambda: td.nn.Sequential(
            td.nn.Conv2d(3, 5, 3, padding=1),
            td.nn.BatchNorm2d(5),
            td.nn.ReLU(),
            td.nn.MaxPool2d(2),
            td.nn.Flatten(),
            td.nn.Linear(30, 4),
        ),
        ("n", None),
    ),
}


def first(y: Any) -> td.Tensor:
    """The first of several results, or the one there is."""
    found: td.Tensor = y[0] if isinstance(y, tuple) else y
    return found


def same_without_names(x: td.Tensor, f: Callable[[Any], Any]) -> td.Tensor:
    """f(x), whose values and gradient are those of x without names."""
    y = first(f(x))
    array = y.numpy()
    bare = td.unname(x)
    again = first(f(bare))
    np.testing.assert_array_equal(array, again.numpy())
    weights = named(y.shape, *(None,) * y.ndim)
    (g,) = td.grad((td.unname(y) * weights).sum(), [x])
    (wanted,) = td.grad((again * weights).sum(), [bare])
    assert g.axes == x.axes and wanted.axes is None
    np.testing.assert_allclose(g.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_carry_names_and_so_do_their_gradients(name: str) -> None:
    x, call, wanted = FUNCTIONS[name]
    y = call()
    assert y.axes == wanted
    assert np.isfinite(y.numpy()).all()
    (g,) = td.grad((td.unname(y) * 1.0).sum(), [x])
    assert g.axes == x.axes and g.shape == x.shape
    assert np.isfinite(g.numpy()).all()


@pytest.mark.parametrize("name", LAYERS)
def test_layers_do_the_same_with_names(name: str) -> None:
    x, made, wanted = LAYERS[name]
    with td.options(seed=0):
        layer = made()
        y = same_without_names(x, layer)
    assert y.axes == wanted


def test_names_cost_nothing_in_the_program() -> None:
    def network(x: td.Tensor) -> td.Tensor:
        return td.softmax(td.layer_norm(x, td.ones(3)) * 2.0, 1)

    bare = td.asarray(X.numpy())
    assert td.lower(network(X)).program == td.lower(network(bare)).program


OUTER = {
    "a bias of another name": lambda: td.conv2d(
        IMAGE, td.ones((3, 3, 1, 1)), named((3,), "k")
    ),
    "a sum of another name": lambda: X + named((3,), "k"),
    "a choice of another name": lambda: td.where(X > 0, X, named((3,), "k")),
    "a weight of another name": lambda: td.layer_norm(X, named((3,), "k")),
    "labels of another name": lambda: td.cross_entropy(
        X, td.asarray([0, 1], axes=("k",))
    ),
    "a mean of another name": lambda: td.batch_norm(
        X, named((3,), "k"), td.asarray(np.ones(3, F32), axes=("k",))
    ),
    "an unnamed sum": lambda: X + td.ones(3),
    "a value of another name": lambda: X.at[0].set(named((3,), "k")),
    "stacks of two names": lambda: td.linalg.solve(STACK, td.rename_axes(STACK, b="k")),
    "a state of another name": lambda: td.nn.GRUCell(3, 6)(X, named((2, 6), "k", "c")),
    "batches of two names": lambda: td.nn.MultiHeadAttention(4, 2)(
        TEXT, named((2, 7, 4), "k", "s", "d")
    ),
    "equal names of two lengths": lambda: (
        named((1, 1), "n", None) + named((2, 3), "n", "c")
    ),
    "names that are too few": lambda: td.reshape(X, (3, 2), axes=("n",)),
    "names that change in a broadcast": lambda: td.broadcast_to(
        X, (4, 2, 3), axes=("m", "c", "n")
    ),
}


@pytest.mark.parametrize("name", OUTER)
def test_what_does_not_match_by_name_is_an_error(name: str) -> None:
    """The trap of ngraph#21: it never becomes an outer sum, nor is it dropped."""
    with pytest.raises(td.AxisError):
        OUTER[name]()


def test_named_weights_are_put_in_order() -> None:
    w = td.asarray(np.arange(6, dtype=F32).reshape(3, 2), axes=("c", "n"))
    y = td.layer_norm(X, w, axis=("n", "c"))
    plain = td.layer_norm(td.unname(X), td.unname(w).T, axis=(0, 1))
    np.testing.assert_allclose(y.numpy(), plain.numpy(), rtol=1e-6)


def test_named_labels_are_put_in_order() -> None:
    scores = named((2, 3, 5), "n", "c", "t")
    labels = np.arange(10).reshape(5, 2) % 3
    y = td.cross_entropy(
        scores, td.asarray(labels, axes=("t", "n")), axis="c", reduction="none"
    )
    plain = td.cross_entropy(scores.numpy(), labels.T, axis=1, reduction="none")
    assert y.axes == ("n", "t")
    np.testing.assert_array_equal(y.numpy(), plain.numpy())


def test_a_table_with_names_keeps_a_sparse_gradient() -> None:
    table = td.Variable(np.ones((9, 4), F32), trainable=True, axes=("word", "d"))
    y = td.embedding(table, td.asarray([[1, 2]], axes=("n", "t")))
    assert y.axes == ("n", "t", "d")
    (g,) = td.grad(y.sum(), [table])
    assert g.axes == ("word", "d")
    td.optim.SGD([table], lr=1.0).step(y.sum())
    assert table.numpy()[:3].tolist() == [[1.0] * 4, [0.0] * 4, [0.0] * 4]


def test_flattened_axes_come_apart_again() -> None:
    flat = td.flatten(IMAGE, "h", "w", name="pixel")
    assert flat.axes == ("n", "c", "pixel")
    back = td.unflatten(flat, "pixel", (td.Axis("h", 4), td.Axis("w", -1)))
    assert td.axes_of(back) == td.axes_of(IMAGE)
    np.testing.assert_array_equal(back.numpy(), IMAGE.numpy())


def test_slices_and_broadcasts_by_name() -> None:
    part = td.slice_axes(IMAGE, w=slice(1, 3), n=0)
    np.testing.assert_array_equal(part.numpy(), IMAGE.numpy()[0, :, :, 1:3])
    assert part.axes == ("c", "h", "w")
    wide = td.broadcast_axes(X, td.Axis("c", 3), td.Axis("t", 2), td.Axis("n", 2))
    assert wide.axes == ("c", "t", "n")
    np.testing.assert_array_equal(wide.numpy()[:, 1], X.numpy().T)
    with pytest.raises(td.AxisError, match="would lose"):
        td.broadcast_axes(X, td.Axis("c", 3))


def test_axes_of_two_lengths_are_no_set() -> None:
    a, b = td.Axes(td.Axis("n", 2)), td.Axes(td.Axis("n", 3))
    for combined in (lambda: a | b, lambda: a & b, lambda: a - b, lambda: a + b):
        with pytest.raises(td.AxisError, match="'n'"):
            combined()
    assert a != b and a["n"].length == 2 and "n" in a and len(a | a) == 1


def test_tensors_stack_along_a_new_named_axis() -> None:
    x = td.name_axes(np.arange(3.0), "n")
    y = td.stack([x, 2 * x], "time")
    assert y.type.axes == ("time", "n") and y.tolist()[1] == [0.0, 2.0, 4.0]
    assert td.stack([td.zeros(3)] * 2, td.Axis("t", 2)).type.axes == ("t", None)
    with pytest.raises(td.AxisError, match="repeat a name"):
        td.stack([x, x], "n")
    with pytest.raises(td.AxisError, match="length 3"):
        td.stack([x, x], td.Axis("t", 3))
