"""Serrano's stages, memory, Model, and every message of its verification."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.types import Type
from treadle.graph.leaves import Constant
from treadle.graph.tensor import Tensor, copied
from treadle.ops.families import Output

X, Y = td.ones((2, 3)), td.ones((3, 4))
IMAGE, FILTERS = td.ones((1, 3, 8, 8)), td.ones((4, 3, 3, 3))


def broken(made: Tensor, *inputs: Tensor) -> Tensor:
    """A node on other operands than those it was made for."""
    return copied(made, inputs)


def unsorted() -> Tensor:
    y = X + X
    object.__setattr__(y, "serial", 0)
    return y


def valued(value: Any) -> Tensor:
    y = X + X
    y.stored = value
    return y


GRAPHS: dict[str, tuple[Callable[[], Any], str]] = {
    "a data symbol is not bound": (
        lambda: td.placeholder((2,), name="images") * 2.0,
        "placeholder 'images' is not bound",
    ),
    "a scalar to be fed is nil": (
        lambda: td.placeholder((), name="rate") * 2.0,
        "placeholder 'rate' is not bound",
    ),
    "a tensor is nil": (
        lambda: Tensor(Constant(), (), X.type),
        "is a leaf without a value",
    ),
    "the graph is not sorted": (unsorted, "which was made after it"),
    "an operator failed its check, with its own message": (
        lambda: broken(X + X, X, Y),
        "does not fit its inputs: shapes (2, 3) and (3, 4) do not broadcast",
    ),
    "inputs are nil": (lambda: broken(X + X), "has lost its inputs"),
    "outputs are nil or of a wrong shape": (
        lambda: valued(np.broadcast_to(np.float32(0), (5,))),
        "has type float32[2, 3] and a value of float32[5]",
    ),
    "the number of inputs of a matrix product": (
        lambda: broken(X @ Y, X),
        "takes 2 operands, got 1",
    ),
    "the number of inputs of a broadcast operator": (
        lambda: broken(X + X, X, X, X),
        "takes 2 operands, got 3",
    ),
    "the number of outputs": (
        lambda: Tensor(Output(2), td.top_k(X, 2)[0].inputs, X.type),
        "result 2 of 2 is asked for",
    ),
    "the shape of an output": (
        lambda: Tensor((X + X).op, (X, X), Type((9,), X.dtype)),
        "has type float32[9], its inputs make float32[2, 3]",
    ),
    "input shapes differ": (
        lambda: broken(td.concat([X, X]), X, Y),
        "(3, 4)",
    ),
    "input ranks differ": (
        lambda: broken(td.concat([X, X]), X, td.ones((3,))),
        "(3,)",
    ),
    "the rank of a transposed matrix": (
        lambda: broken(X.T, td.ones((2, 3, 4))),
        "is no permutation of 3 dimensions",
    ),
    "the rank of a factor": (lambda: broken(X @ Y, X, td.ones(())), "ij,jk->ik"),
    "the rank of an image": (
        lambda: broken(td.nn.functional.conv2d(IMAGE, FILTERS), X, FILTERS),
        "a convolution takes x[n, c, *spatial]",
    ),
    "the matrix product's rule": (lambda: broken(X @ Y, X, X), "do not meet"),
    "not broadcastable to the target": (
        lambda: broken(td.broadcast_to(td.ones((1, 3)), (2, 3)), Y),
        "do not broadcast",
    ),
    "the axis of a reduction": (
        lambda: broken(X.sum(axis=1), td.ones((2,))),
        "axis 1 is out of range for 1 dimension",
    ),
    "the dimension of a softmax": (
        lambda: broken(td.softmax(X, axis=1), td.ones((2,))),
        "axis 1 is out of range for 1 dimension",
    ),
}


@pytest.mark.parametrize("kind", GRAPHS)
def test_verify_tells_of_a_graph_where(kind: str) -> None:
    make, says = GRAPHS[kind]
    valid, message = td.verify(make())
    assert not valid and says in message, message


def image_layer(**wrong: Any) -> td.Tensor:
    given = {"in_channels": 3, "out_channels": 4, "kernel_size": 3, **wrong}
    return td.nn.Conv2d(**given)(IMAGE)


def loaded(layer: Any, **wrong: Any) -> None:
    state = {k: v for k, v in layer.state_dict().items() if k not in wrong}
    layer.load_state_dict(state | {k: v for k, v in wrong.items() if v is not None})


P, S = td.placeholder((2,), name="p"), td.placeholder((), name="s")
TWICE, PLUS = td.computation(P * 2.0, P), td.computation(S + 1.0, S)
LAYERS: dict[str, tuple[Callable[[], Any], str]] = {
    "an input dimension is not the layer's": (
        lambda: td.nn.Linear(4, 2)(X),
        "got 3 columns, takes 4",
    ),
    "a weight is nil": (
        lambda: loaded(td.nn.Linear(2, 2), weight=None),
        "missing: weight",
    ),
    "the rank of a weight": (
        lambda: loaded(td.nn.Linear(2, 2), weight=np.ones(2)),
        "weight is (2,), here (2, 2)",
    ),
    "the shape of a weight": (
        lambda: loaded(td.nn.Linear(2, 2), weight=np.ones((3, 3))),
        "weight is (3, 3), here (2, 2)",
    ),
    "a bias is nil": (lambda: loaded(td.nn.Linear(2, 2), bias=None), "missing: bias"),
    "the rank of a bias": (
        lambda: loaded(td.nn.Linear(2, 2), bias=np.ones((2, 1))),
        "bias is (2, 1), here (2,)",
    ),
    "the shape of a bias": (
        lambda: loaded(td.nn.Linear(2, 2), bias=np.ones(3)),
        "bias is (3,), here (2,)",
    ),
    "a moving mean is nil": (
        lambda: loaded(td.nn.BatchNorm2d(3), running_mean=None),
        "missing: running_mean",
    ),
    "the length of a moving mean": (
        lambda: loaded(td.nn.BatchNorm2d(3), running_mean=np.ones(4)),
        "running_mean is (4,), here (3,)",
    ),
    "the length of a moving variance": (
        lambda: loaded(td.nn.BatchNorm2d(3), running_var=np.ones(4)),
        "running_var is (4,), here (3,)",
    ),
    "the length of an offset": (
        lambda: loaded(td.nn.BatchNorm2d(3), bias=np.ones(4)),
        "bias is (4,), here (3,)",
    ),
    "the length of a scale": (
        lambda: loaded(td.nn.BatchNorm2d(3), weight=np.ones(4)),
        "weight is (4,), here (3,)",
    ),
    "the channels of a normalization": (
        lambda: td.nn.BatchNorm2d(4)(IMAGE),
        "takes (n, 4, ...) of 4 dimensions, got float32[1, 3, 8, 8]",
    ),
    "the number of alphas": (
        lambda: td.nn.PReLU(4)(IMAGE),
        "(1, 3, 8, 8) and (4, 1, 1) do not broadcast",
    ),
    "the number of filters": (
        lambda: image_layer(out_channels=0),
        "out_channels is a whole number from 1 up, got 0",
    ),
    "the kernel's size": (
        lambda: image_layer(kernel_size=0),
        "is a whole number from 1 up",
    ),
    "a stride": (lambda: image_layer(stride=0), "is a whole number from 1 up"),
    "a dilation": (lambda: image_layer(dilation=0), "is a whole number from 1 up"),
    "a patch's size": (lambda: td.unfold(IMAGE, 0), "are positive"),
    "a pool's size": (lambda: td.nn.MaxPool2d(0)(IMAGE), "is a whole number from 1 up"),
    "padding that leaves nothing": (
        lambda: image_layer(kernel_size=9),
        "a window of 9 is wider than 8 padded",
    ),
    "a shape is nil where a parameter is to be made": (
        lambda: td.nn.Linear(None, 2),  # type: ignore[arg-type]
        "in_features is a whole number",
    ),
    "an array of a wrong shape is bound to a tensor": (
        lambda: TWICE(np.ones(3, np.float32)),
        "placeholder 'p' is float32[2], got (3,)",
    ),
    "something that is no array is bound to a tensor": (
        lambda: TWICE("two"),
        "placeholder 'p' is float32[2]: str is no array of numbers",
    ),
    "an array is bound to a scalar": (
        lambda: PLUS([1.0, 2.0]),
        "placeholder 's' is float32[], got (2,)",
    ),
    "something that is no number is bound to a scalar": (
        lambda: PLUS(None),
        "placeholder 's' is float32[]: None holds no numbers",
    ),
    "binding failed for a label": (
        lambda: TWICE(q=np.ones(2)),
        "no placeholder is named q; no value for p",
    ),
    "nothing to be trained, backward is impossible": (
        lambda: X.sum().backward(),
        "reads no trainable parameter",
    ),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_an_error_tells_of(kind: str) -> None:
    make, says = LAYERS[kind]
    with pytest.raises(td.TreadleError) as caught:
        make()
    assert says in str(caught.value), str(caught.value)


def test_the_stage_of_a_node_is_its_longest_path() -> None:
    x = td.param("x", init=1.0)
    z = td.sin(td.cos(x)) + x
    stages = td.stages(z)
    assert [[n.op.name for n in stage] for stage in stages] == [
        ["parameter"],
        ["Cos"],
        ["Sin"],
        ["Add"],
    ]
    for k, stage in enumerate(stages):
        below = {n.serial for earlier in stages[:k] for n in earlier}
        for node in stage:
            assert below.issuperset(x.serial for x in node.inputs)


def test_s26_all_memory_is_planned_and_only_what_is_updated_has_a_gradient() -> None:
    w, fixed = (td.param(name, init=np.ones((8, 8))) for name in ("w", "fixed"))
    fixed.trainable = False
    y = td.tanh(w @ fixed)
    loss = (y @ y.T).sum()
    with td.options(engine="native"):
        foretold = td.memory(loss)
        loss.backward()
    assert foretold.planned > 0 and foretold.total >= foretold.workspace
    assert w.grad is not None and fixed.grad is None


def test_s27_a_model_trains_until_an_epoch_or_an_early_stop_and_predicts() -> None:
    x = np.linspace(-1.0, 1.0, 16, dtype=np.float32)[:, None]
    model = td.Model(td.nn.Linear(1, 1), "mse", td.optim.SGD(lr=0.5))
    assert len(model.fit(x, 2.0 * x, epochs=3, verbose=0).epoch) == 3
    stop = td.train.EarlyStopping("loss", patience=1)
    history = model.fit(x, 2.0 * x, epochs=500, verbose=0, callbacks=[stop])
    assert len(history.epoch) < 500
    np.testing.assert_allclose(model.predict(x), 2.0 * x, atol=1e-2)
