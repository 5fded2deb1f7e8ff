"""Other libraries with tensors: einops, pandas, SciPy, array-api-compat, json."""

from __future__ import annotations

import json
import numbers
from typing import Any

import numpy as np
import pytest

import treadle as td

X = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "int64", "uint64", "float16", "float32", "complex64"]
)
def test_numpy_reads_the_memory_and_holds_no_graph(dtype: str) -> None:
    x = td.asarray([[0, 1], [2, 3]], dtype)
    for seen in (x, x + x, x.T, td.Variable(x)):
        array = np.asarray(seen)
        assert array.dtype == x.dtype and not array.flags.writeable
        assert (array == seen.numpy()).all()
        assert np.shares_memory(array, seen.numpy())
    assert np.asarray(td.asarray(3.0)).shape == ()
    assert np.asarray(td.ones(2, "bfloat16")).dtype == td.bfloat16


def test_what_numpy_reads_is_not_written_over() -> None:
    v = td.Parameter([1.0, 2.0])
    seen = np.asarray(v)
    td.optim.SGD(lr=0.5).step((v * v).sum())
    assert seen.tolist() == [1.0, 2.0] and v.tolist() == [0.0, 0.0]


def test_a_loss_is_a_number() -> None:
    v = td.Parameter([1.5, 2.0])
    loss = td.optim.SGD(lr=0.5).step((v * v).sum())
    assert isinstance(loss, numbers.Real)
    assert round(loss) == 6 and abs(round(loss, 1) - 6.2) < 1e-6
    assert json.dumps({"loss": loss}, default=float) == '{"loss": 6.25}'
    assert float(round(td.asarray(2.567), 1)) == pytest.approx(2.6)
    model = td.Model(td.nn.Linear(1, 1), "mse")
    history = model.fit(np.ones((4, 1)), np.ones((4, 1)), verbose=0).history
    assert json.loads(json.dumps(history))["loss"] == history["loss"]


def test_einops() -> None:
    e = pytest.importorskip("einops.array_api")
    x = td.asarray(X)
    assert e.rearrange(x, "a b c -> (a c) b").tolist() == (
        X.transpose(0, 2, 1).reshape(8, 3).tolist()
    )
    assert np.allclose(e.reduce(x, "a b c -> a c", "mean"), X.mean(1))
    assert e.repeat(x, "a b c -> a d b c", d=2).shape == (2, 2, 3, 4)
    packed, shapes = e.pack([x, x[:, 0]], "a * c")
    assert packed.shape == (2, 4, 4)
    assert [part.shape for part in e.unpack(packed, shapes, "a * c")] == [
        (2, 3, 4),
        (2, 4),
    ]
    p = td.Parameter(X)
    loss = (e.rearrange(p, "a b c -> b (a c)") * 3.0).sum()
    assert (td.grad(loss, [p])[0] == 3.0).all()


def test_functions_of_einops_once_it_is_told() -> None:
    e = pytest.importorskip("einops")
    td.register_einops()
    td.register_einops()
    x, p = td.asarray(X), td.Parameter(X)
    y = e.rearrange(p, "a b c -> (a c) b")
    assert type(y) is td.Tensor
    assert y.tolist() == e.rearrange(X, "a b c -> (a c) b").tolist()
    assert (td.grad((y * 3.0).sum(), [p])[0] == 3.0).all()
    for fold in ("mean", "sum", "max", "min", "prod"):
        assert np.allclose(e.reduce(x, "a b c -> a c", fold), getattr(X, fold)(1))
    with pytest.raises(NotImplementedError, match="mean"):
        e.reduce(td.astype(x, "int32"), "a b c -> a", "mean")
    assert np.array_equal(
        e.repeat(x, "a b c -> a d (b r) c", d=2, r=3),
        e.repeat(X, "a b c -> a d (b r) c", d=2, r=3),
    )
    assert e.rearrange([x, x + 1], "k a b c -> a b (k c)").shape == (2, 3, 8)
    packed, shapes = e.pack([x, x[:, 0]], "a * c")
    assert [part.shape for part in e.unpack(packed, shapes, "a * c")] == [
        (2, 3, 4),
        (2, 4),
    ]
    assert np.allclose(
        e.einsum(x, x, "a b c, a b d -> c d"), np.einsum("abc,abd", X, X)
    )
    assert e.parse_shape(x, "a _ c") == {"a": 2, "c": 4}
    assert e.asnumpy(x) is x.numpy()


def test_pandas() -> None:
    pd = pytest.importorskip("pandas")
    columns = {"a": td.asarray([1.0, 2.0]), "b": td.asarray([3, 4])}
    frame = pd.DataFrame(columns)
    assert frame["a"].dtype == np.float32 and frame["b"].tolist() == [3, 4]
    assert pd.DataFrame(td.asarray(X[0])).shape == (3, 4)
    series = pd.Series(td.asarray([1.0, 2.0]))
    assert (series + td.asarray([1.0, 1.0])).tolist() == [2.0, 3.0]
    assert (td.asarray([1.0, 1.0]) + series).tolist() == [2.0, 3.0]
    assert td.asarray(frame).shape == (2, 2)


UNARY = ["digamma", "entr", "erf", "erfinv", "expit", "expm1", "gammaln", "i0", "j0",
         "log_ndtr", "logit", "ndtr"]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_special_functions_of_scipy(name: str) -> None:
    special = pytest.importorskip("scipy.special")
    x = np.array([0.3, 0.5], np.float32)
    value: Any = getattr(special, name)(td.asarray(x))
    assert np.allclose(value, getattr(special, name)(x))


def test_functions_of_scipy_of_two_and_along_axes() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.array([0.3, 0.5], np.float32)
    for name in ("xlogy", "gammainc", "betaln"):
        f = getattr(special, name)
        assert np.allclose(f(td.asarray(x), td.asarray(x[::-1])), f(x, x[::-1]))
    for name in ("softmax", "logsumexp", "log_softmax"):
        f = getattr(special, name)
        assert np.allclose(f(td.asarray(X), axis=1), f(X, axis=1))


def test_array_api_compat() -> None:
    compat = pytest.importorskip("array_api_compat")
    x = td.asarray(X)
    assert compat.array_namespace(x, x) is td and compat.is_array_api_obj(x)
    assert (compat.device(x), compat.size(x)) == ("cpu", 24)
    assert compat.to_device(x, "cpu").shape == X.shape
