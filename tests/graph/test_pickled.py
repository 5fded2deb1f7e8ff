"""Pickles and copies: tensors, Variables, modules, optimizers, models, functions."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle import nn

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
Y = X.sum(1, keepdims=True)


def again(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


@td.function
def doubled(x: Any) -> Any:
    return x * 2


def network() -> nn.Module:
    with td.options(seed=1):
        return nn.Sequential(
            nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 1)
        )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool", "complex64"])
def test_a_tensor_is_its_value(dtype: str) -> None:
    x = td.asarray([[1, 0]], dtype, axes=("n", "c"))
    x.name = "x"
    y = again(x)
    assert y.type is x.type and y.name == "x"
    assert np.array_equal(y.numpy(), x.numpy())
    assert again(td.ones(3) * 2).tolist() == [2.0] * 3


@pytest.mark.parametrize("f", [td.relu, td.mse_loss, td.norm, td.einsum])
def test_a_function_whose_calls_are_planned_is_its_name(f: Any) -> None:
    assert again(f) is f and copy.deepcopy(f) is f


def test_a_variable_keeps_what_was_set() -> None:
    v = td.Parameter([1.0, 2.0], name="v")
    v.metadata["layer"] = 3
    v.grad = td.asarray([0.5, 0.5])
    v.freeze_rows([1])
    v += 1
    w = again(v)
    assert type(w) is td.Parameter and w.name == "v" and w.trainable
    assert w.metadata == {"layer": 3} and w.grad.tolist() == [0.5, 0.5]
    assert w.frozen.tolist() == [False, True]
    w += 1
    assert (w.tolist(), v.tolist()) == ([3.0, 4.0], [2.0, 3.0])
    v.trainable = False
    assert not again(v).trainable


def test_a_placeholder_without_a_value_has_none() -> None:
    x = td.placeholder((2,), name="x")
    y = again(x)
    assert td.computation(y * 2, y)([1.0, 2.0]).tolist() == [2.0, 4.0]
    with pytest.raises(td.UnboundError):
        y.numpy()
    z = again(td.placeholder((), initial_value=3.0))
    assert float(z) == 3.0


def test_what_is_shared_is_shared_again() -> None:
    p = td.Parameter([1.0])
    a, b = again((p, p))
    assert a is b


def test_a_trace_has_no_values_to_pickle() -> None:
    with pytest.raises(td.TraceError, match="a pickle has values"):
        td.function(lambda x: len(pickle.dumps(x)))(td.ones(2))


@pytest.mark.parametrize("through", [again, copy.deepcopy], ids=["pickle", "deepcopy"])
def test_training_goes_on_alike(through: Any) -> None:
    def steps(net: Any, opt: Any, count: int) -> list[float]:
        net.eval()
        return [float(opt.step(((net(X) - Y) ** 2).mean())) for _ in range(count)]

    net, opt = network(), td.optim.Adam(lr=0.05)
    steps(net, opt, 3)
    opt.lr = 0.1
    other = through((net, opt))
    assert other[1].lr == pytest.approx(0.1) and other[1].count.item() == 3
    assert steps(net, opt, 3) == steps(*other, 3)
    groups = td.optim.SGD([{"params": list(net.parameters()), "lr": 0.5}], momentum=0.9)
    steps(net, groups, 2)
    assert steps(*through((net, groups)), 2) == steps(net, groups, 2)


def test_a_model_predicts_and_trains_alike() -> None:
    model = td.Model(network(), "mse", metrics=["mae"])
    model.fit(X, Y, verbose=0)
    other = again(model)
    assert other.evaluate(X, Y) == model.evaluate(X, Y)
    one, two = (m.fit(X, Y, epochs=2, verbose=0).history for m in (model, other))
    assert list(one) == list(two)


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "BatchNorm1d": (3,), "Conv1d": (1, 2, 3), "Conv2d": (1, 2, 3), "Dropout": (0.5,),
    "Embedding": (5, 3), "GRU": (3, 4), "LSTM": (3, 4), "LayerNorm": (3,),
    "Linear": (3, 4), "MultiheadAttention": (4, 2), "RNN": (3, 4),
    "TransformerEncoderLayer": (4, 2),
}  # fmt: skip


def test_every_layer_pickles() -> None:
    count = 0
    for name in dir(nn):
        kind = getattr(nn, name)
        if not (inspect.isclass(kind) and issubclass(kind, nn.Module)):
            continue
        try:
            layer = kind(*ARGUMENTS.get(name, ()))
        except TypeError:
            continue  # it needs arguments
        other = again(layer)
        states = layer.state_dict(), other.state_dict()
        assert list(states[0]) == list(states[1])
        for x, y in zip(*(s.values() for s in states), strict=True):
            assert np.array_equal(x, y)
        count += 1
    assert count > 20


def test_every_optimizer_pickles() -> None:
    count = 0
    for name in dir(td.optim):
        kind = getattr(td.optim, name)
        if inspect.isclass(kind) and issubclass(kind, td.optim.Optimizer):
            assert type(again(kind())) is kind
            count += 1
    assert count > 5


def test_functions_are_known_by_name_or_made_again() -> None:
    assert again(doubled) is doubled
    net = network().eval()
    f = td.function(net)
    wanted = f(X).numpy()
    for other in (again(f), copy.deepcopy(f)):
        assert np.array_equal(other(X).numpy(), wanted)
        assert other.f is not net
    assert copy.deepcopy(td.function(lambda x: x + 1))(1.0).item() == 2.0


def predicted(net: nn.Module, x: Any) -> Any:
    return net(x).numpy()


def test_a_process_that_is_spawned_infers_with_a_pickled_module() -> None:
    net = network().eval()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(predicted, (net, X))
    assert np.array_equal(found, net(X).numpy())


def test_joblib_hashes_and_sends() -> None:
    joblib = pytest.importorskip("joblib")
    x = td.asarray([1.0, 2.0])
    assert joblib.hash(x) == joblib.hash(td.asarray([1.0, 2.0]))
    net = network().eval()
    calls = [joblib.delayed(predicted)(net, part) for part in (X, X[:2])]
    for jobs in (1, 2):
        found = joblib.Parallel(n_jobs=jobs)(calls)
        assert np.array_equal(found[0], net(X).numpy())
        assert np.array_equal(found[1], net(X[:2]).numpy())


_kept: list[td.Model] = []


def keep(model: td.Model) -> None:
    _kept.append(model)


def predicted_by_kept(x: Any) -> Any:
    return _kept[0].predict(x)


def test_a_pool_of_processes_predicts_with_one_model() -> None:
    model = td.Model(network(), "mse")
    model.fit(X, Y, verbose=0)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, keep, (model,)) as pool:
        found = list(pool.map(predicted_by_kept, [X[:2], X[2:]]))
    for part, values in zip([X[:2], X[2:]], found, strict=True):
        assert np.array_equal(values, model.predict(part))


METHODS = FunctionType, type(td.sum.__call__)
NAMESPACES = [td, td.fft, td.linalg, td.random, td.optim, nn, nn.functional, nn.init]


@pytest.mark.parametrize("place", NAMESPACES, ids=lambda place: place.__name__)
def test_every_function_and_method_is_its_name(place: Any) -> None:
    for name in dir(place):
        x = getattr(place, name)
        if not callable(x):
            continue
        assert again(x) is x, name
        if isinstance(x, type) and not issubclass(x, tuple):
            for word in dir(x):
                method = getattr(x, word, None)
                if word[0] != "_" and isinstance(method, METHODS):
                    assert again(method) == method, f"{name}.{word}"


def test_operators_are_their_names() -> None:
    for word in ("__mul__", "__rsub__", "__lt__", "__eq__", "__matmul__"):
        for kind in (td.Tensor, td.Parameter):
            assert again(getattr(kind, word)) == getattr(kind, word)


def test_initializers_keep_their_settings() -> None:
    for init in (nn.init.kaiming_normal(mode="out"), nn.init.constant(value=2.0)()):
        assert repr(again(init)) == repr(copy.deepcopy(init)) == repr(init)
    assert again(nn.init.constant(value=2.0))((2,)).tolist() == [2.0, 2.0]
    assert again(nn.init.xavier) is nn.init.xavier
