"""Variables: versions, pending updates, guards, cuts."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import numpy as np
import pytest

import treadle as td


def test_earlier_expressions_keep_their_version() -> None:
    v = td.Variable([1.0, 2.0])
    before = v * 10
    v.assign(v + 1)
    after = v * 10
    assert before.tolist() == [10.0, 20.0] and after.tolist() == [20.0, 30.0]


def test_updates_run_once_and_in_order() -> None:
    v = td.Variable(1.0)
    v += 1
    v *= 3
    assert float(v) == 6.0 and float(v) == 6.0


def test_parts_of_a_variable_are_assigned() -> None:
    v = td.Variable(np.zeros(4, np.float32))
    v[1].assign(5.0)
    v[2:] = td.ones(2)
    assert v.tolist() == [0.0, 5.0, 1.0, 1.0]


def test_item_assignment_of_a_tensor_names_the_remedy() -> None:
    with pytest.raises(td.TraceError, match=r"x\.at"):
        td.ones(3)[0] = 2.0


def test_an_unfit_value_is_refused() -> None:
    v = td.Variable([1.0, 2.0])
    with pytest.raises(td.ShapeError, match="cannot be assigned"):
        v.assign(td.ones((3, 2)))
    with pytest.raises(td.DTypeError, match="not trainable"):
        td.Variable(1, trainable=True)


def test_a_failing_run_leaves_variables_as_they_were() -> None:
    v = td.Variable(np.array([1, 2, 3]))
    rows = td.asarray([7])
    v.assign(td.take(v, rows, 0)[0])
    with pytest.raises(td.TreadleError):
        v.numpy()
    assert v.tolist() == [1, 2, 3]


def test_a_stale_update_is_an_error() -> None:
    v = td.Variable(1.0)
    with td.explicit_updates():
        first, second = v.assign(v + 1), v.assign(v + 2)
    assert float(first) == 2.0
    with pytest.raises(td.StateError, match="changed since"):
        float(second)


def test_every_thread_sees_what_is_assigned() -> None:
    v = td.Variable(1.0)
    v.assign(v + 1)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(float(v)))
    thread.start()
    thread.join()
    assert seen == [2.0] and float(v) == 2.0


def test_two_steps_on_graphs_of_the_same_versions() -> None:
    a, b = td.param("a", init=1.0), td.param("b", init=2.0)
    loss_a, loss_b = a * b, (a * b) ** 2
    td.optim.SGD([a], lr=0.5).step(loss_a)
    td.optim.SGD([b], lr=0.5).step(loss_b)
    assert float(a) == 0.0 and float(b) == 0.0


def test_a_derivative_through_a_cut_value_raises() -> None:
    a = td.param("a", init=1.0)
    h = a * 2.0
    td.optim.SGD(lr=0.1).step(h * h)
    with pytest.raises(td.GradientError, match="recipe"):
        (h * a).backward()
    (td.stop_gradient(h) * a).backward()
    assert float(a.grad) == 2.0  # type: ignore[arg-type]


def test_a_derivative_sums_over_the_versions_read() -> None:
    v = td.Variable(3.0, trainable=True)
    first = v * 2.0
    v.assign(v + 1.0)
    (g,) = td.grad(first + v * 5.0, [v])
    assert float(g) == 7.0


def test_trainable_is_read_when_it_matters() -> None:
    a, b = td.param("a", init=1.0), td.param("b", init=1.0)
    a.trainable = False
    td.optim.SGD(lr=0.5).step(a * b)
    assert float(a) == 1.0 and float(b) == 0.5


def test_scopes_find_parameters_again() -> None:
    with td.scope("net") as net:
        w = td.param("w", shape=(2,))
        with td.scope("inner"):
            assert td.param("b").name == "net/inner/b"
    with td.scope(net):
        assert td.param("w") is w
        with pytest.raises(td.ShapeError, match="has shape"):
            td.param("w", shape=(3,))
    assert td.param("w") is not td.param("w")


def test_backward_accumulates_until_it_is_zeroed() -> None:
    x = td.param("x", init=2.0)
    (x * x).backward()
    (x * 3.0).backward()
    assert float(x.grad) == 7.0  # type: ignore[arg-type]
    x.zero_grad()
    assert x.grad is None


def test_a_layer_computes_the_same_bits_right_after_loading() -> None:
    rng = np.random.default_rng(0)
    x = td.asarray(rng.normal(size=(2, 5, 8)), "float32")
    memory = td.asarray(rng.normal(size=(2, 3, 8)), "float32")

    def made() -> td.nn.Module:
        kind = "average-attention"
        return td.nn.TransformerDecoderLayer(8, 2, 16, autoregression=kind).eval()

    one, two = made(), made()
    two.load_state_dict(one.state_dict())
    found = [layer(x, memory).numpy().tobytes() for layer in (one, two, two, one)]
    assert len(set(found)) == 1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64"])
def test_a_first_array_keeps_its_dtype(dtype: str) -> None:
    array = np.arange(6).reshape(3, 2).astype(dtype)
    for made in (
        td.param("p", init=array),
        td.param("p", (3, 2), init=array),
        td.param("p", init=td.asarray(array)),
        td.lookup("E", (3, 2), init=array),
        td.nn.Embedding.from_array(array).weight,
        td.Parameter(array),
    ):
        assert made.dtype == array.dtype
        np.testing.assert_array_equal(made.numpy(), array)
    with td.scope("net") as net:
        td.param("w", init=array)
    with td.scope(net):
        assert td.param("w").dtype == array.dtype
    assert td.lookup("E", (3, 2), init=array, dtype="complex128").dtype == "complex128"
    others: list[Any] = [0.5, [1.0, 2.0], np.float64(2.0), np.arange(2)]
    for other in (*others, lambda s, t: td.ones(2)):
        assert td.param("q", (2,), init=other).dtype == "float32"


def test_wide_data_that_meet_a_narrow_parameter_warn_with_the_line() -> None:
    layer, wide = td.nn.Linear(3, 2), np.ones((4, 3))
    p = td.param("p", (3,))
    programs = [
        lambda: layer(wide),
        lambda: td.nn.Sequential(layer, td.nn.Tanh(), td.nn.Linear(2, 2))(wide),
        lambda: p * wide,
        lambda: td.asarray(wide) + p,
        lambda: td.function(lambda x: layer(x))(td.asarray(wide)),
    ]
    for program in programs:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("default")
            assert program().dtype == "float64"
        assert [w.filename for w in told] == [__file__]
        assert "float64 data meet the float32 parameter" in str(told[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (p * 2.0 * np.float64(3)).dtype == "float32"
        assert layer(wide.astype("f4")).dtype == "float32"
        assert (td.Variable(np.ones(3, "f4")) * wide).dtype == "float64"
