"""Autocast: which ops run in 16 bits, what stays float32, in traces and in training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

F = nn.functional
X = np.random.default_rng(0).normal(size=(2, 8, 8)).astype(np.float32)

NARROW: dict[str, Callable[[Any], Any]] = {
    "matmul": lambda x: x @ x,
    "linear": lambda x: nn.Linear(8, 3)(x),
    "einsum": lambda x: td.einsum("nij,nkj->nik", x, x),
    "tensordot": lambda x: td.tensordot(x, x, [[2], [2]]),
    "conv": lambda x: nn.Conv1d(8, 4, 3)(x),
    "conv transposed": lambda x: nn.ConvTranspose1d(8, 4, 3)(x),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "heads": lambda x: nn.MultiHeadAttention(8, 2)(x, x, x),
    "softmax behind": lambda x: td.softmax(x @ x),
    "relu behind": lambda x: td.relu(x @ x),
}
WIDE: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: td.sum(x),
    "add": lambda x: x + x,
    "layer norm behind": lambda x: nn.LayerNorm(8)(x @ x),
    "mse": lambda x: F.mse_loss(x @ x, x @ x),
    "cross entropy": lambda x: F.cross_entropy((x @ x)[0], np.arange(8)),
    "lstm": lambda x: nn.LSTM(8, 4)(x)[0],
    "gru": lambda x: nn.GRU(8, 4)(x)[0],
    "encoder": lambda x: nn.TransformerEncoderLayer(8, 2, 16)(x),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", [*NARROW, *WIDE])
def test_the_width_of_results(name: str, dtype: str) -> None:
    f, x = {**NARROW, **WIDE}[name], td.asarray(X)
    with td.options(seed=1):
        wanted = f(x)
    for _ in range(3):  # the third follows what the second has put down
        with td.options(seed=1), td.autocast(dtype=dtype):
            y = f(x)
        assert y.dtype.name == (dtype if name in NARROW else "float32")
        error = np.abs(y.numpy().astype(np.float32) - wanted.numpy()).max()
        assert error <= 0.05 * max(1.0, np.abs(wanted.numpy()).max())
        with td.options(seed=1):
            assert f(x).dtype == td.float32


def test_a_product_is_that_of_rounded_operands() -> None:
    x = td.asarray(X[0])
    with td.autocast():
        y = x @ x.T
    narrow = x.astype("bfloat16")
    assert np.array_equal(y.numpy(), (narrow @ narrow.T).numpy())


def test_what_is_no_float32_stays() -> None:
    x = td.asarray(X[0], "float64")
    with td.autocast():
        assert (x @ x).dtype == td.float64
        assert (td.eye(3, dtype="int32") @ td.eye(3, dtype="int32")).dtype == td.int32
        with td.autocast(enabled=False):
            assert (td.ones((2, 2)) @ td.ones((2, 2))).dtype == td.float32
    with td.autocast("cpu", dtype="float16", enabled=True):
        assert (td.ones((2, 2)) @ td.ones((2, 2))).dtype == td.float16
    with pytest.raises(td.OptionError, match="float16, bfloat16 or None"):
        td.autocast(dtype="float32").__enter__()


def test_a_function_is_traced_for_each() -> None:
    layer = nn.Linear(8, 4)
    call = td.function(lambda x: layer(x))
    for _ in range(3):
        assert call(X[0]).dtype == td.float32
        with td.autocast():
            assert call(X[0]).dtype == td.bfloat16


def test_training_keeps_parameters_and_gradients_wide() -> None:
    with td.options(seed=2):
        net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    labels = np.arange(16) % 8
    inputs = X.reshape(16, 8)
    with td.autocast():
        loss = F.cross_entropy(net(inputs), labels)
    weight = net[0].weight
    (gradient,) = td.grad(loss, [weight])
    assert loss.dtype == gradient.dtype == weight.dtype == td.float32
    optimizer = td.optim.Adam(lr=0.01)
    for _ in range(100):
        with td.autocast():
            loss = F.cross_entropy(net(inputs), labels)
        last = optimizer.step(loss)
    assert float(last) < 0.1 and weight.dtype == td.float32
