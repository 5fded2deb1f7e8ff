"""Computations as functions of C: values of calls, any threads at once, refusals."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.core.twins import needs_core

pytestmark = needs_core
_DOUBLES = ctypes.POINTER(ctypes.c_double)
_KIND = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_uint64, *[_DOUBLES] * 3, ctypes.c_void_p
)
RNG = np.random.default_rng(5)
ROWS = RNG.standard_normal((40, 6))


def regression(x: td.Tensor) -> td.Tensor:
    return -0.5 * td.sum((td.asarray(ROWS) @ x - 1.0) ** 2) - 0.5 * td.sum(x * x)


def picked(x: td.Tensor) -> td.Tensor:
    return td.sum(td.exp(td.take(x, td.asarray([0, 0, 3, 5]))) * 0.1)


def looped(x: td.Tensor) -> td.Tensor:
    return td.scan(lambda s, k: (td.tanh(s) + x, s), x, td.arange(5))[0].sum()


def linear(x: td.Tensor) -> td.Tensor:
    return td.sum(x)  # whose gradient is a constant


def made(f: Callable[[Any], td.Tensor], n: int = 6) -> Any:
    x = td.placeholder((n,), "float64")
    value = f(x)
    return td.computation((value, td.grad(value, x)), x)


def called(f: Any, x: np.ndarray[Any, Any]) -> tuple[int, float, np.ndarray[Any, Any]]:
    gradient, value = np.full(x.shape, np.nan), np.full((), np.nan)
    places = [a.ctypes.data_as(_DOUBLES) for a in (x, gradient, value)]
    code = _KIND(f.address)(len(x), *places, f.data)
    return code, float(value), gradient


@pytest.mark.parametrize("f", [regression, picked, looped, linear])
def test_the_values_of_a_call(f: Any) -> None:
    own = made(f)
    for _ in range(5):
        x = RNG.standard_normal(6)
        code, value, gradient = called(own, x)
        wanted = own(x)
        assert code == 0 and value == float(wanted[0])
        assert gradient.tobytes() == wanted[1].tobytes()
        assert own.address == made(linear).address  # of all: what differs is the data


def test_threads_at_once_beside_calls_and_collections() -> None:
    own = made(regression)
    inputs = RNG.standard_normal((4, 200, 6))
    wanted = [[own(x) for x in rows] for rows in inputs]
    wrong: list[int] = []

    def run(k: int) -> None:
        for x, (value, gradient) in zip(inputs[k], wanted[k], strict=True):
            code, ours, slope = called(own, x)
            if code or ours != value or slope.tobytes() != gradient.tobytes():
                wrong.append(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for _ in range(20):
        own(inputs[0, 0])
        gc.collect()
    for t in threads:
        t.join()
    assert not wrong


def test_what_is_wrong_is_told_by_a_number() -> None:
    own = made(lambda x: td.sum(td.log(x)))
    assert called(own, np.ones(7))[0] == -1  # another n
    assert called(own, -np.ones(6))[0] == 4  # no value
    assert called(own, np.zeros(6))[0] == 3  # no gradient
    assert called(own, np.ones(6))[0] == 0
    ids = td.Variable(np.array([0, 9]), trainable=False)
    outside = made(lambda x: td.sum(td.take(x, ids)))
    with pytest.raises(td.TreadleError):
        outside(np.ones(6))


def test_variables_keep_the_values_they_have() -> None:
    scale = td.Variable(np.full(6, 2.0))
    own = made(lambda x: td.sum(scale * x))
    assert called(own, np.ones(6))[1] == 12
    scale.assign(np.full(6, 3.0))
    assert called(own, np.ones(6))[1] == 12
    assert float(own(np.ones(6))[0]) == 18


def test_what_is_no_such_function_is_refused() -> None:
    x, n = td.placeholder((6,), "float64"), td.placeholder((), "float64")
    single = td.placeholder((6,), "float32")
    y, w = td.sum(x * n), td.Variable(np.ones(6))
    refused = [
        td.computation((y, td.grad(y, x)), x, n),
        td.computation(td.sum(x), x),
        td.computation((td.sum(single), single * 2), single),
        td.computation((td.sum(x), td.random.normal((6,), dtype="float64") * x), x),
    ]
    update = w.assign(w + x)
    refused.append(td.computation((td.sum(x), x * 2), x))
    for one in refused:
        with pytest.raises(td.ArgumentError, match="a function of C takes"):
            _ = one.address
    del update
