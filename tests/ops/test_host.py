"""Functions of the host: types, gradients, engines, rows, errors, how often called."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.batch.nets import Net
from treadle.runtime.rows import counts

W = np.array([1.0, 10.0, 100.0])
SORT: dict[str, Any] = {
    "of tensors": {"gradient": lambda g, y, x: g[td.argsort(td.argsort(x))]},
    "of arrays": {"host_gradient": lambda g, y, x: g[np.argsort(np.argsort(x))]},
}


@pytest.fixture(params=["native", "reference", "device"])
def engine(request: Any) -> Any:
    with td.options(engine=request.param, dtype="float64"):
        yield request.param


@pytest.mark.parametrize("how", SORT)
@pytest.mark.parametrize("pure", [True, False])
def test_a_function_with_a_gradient_works_everywhere(
    engine: str, how: str, pure: bool
) -> None:
    sort = td.py_function(np.sort, pure=pure, **SORT[how])
    x = td.param("x", init=np.array([3.0, 1.0, 2.0]))
    rows = np.array([[2.0, 1.0, 0.0], [4.0, 9.0, 5.0]])

    def both(y: Any) -> Any:
        return y.numpy().tolist(), td.grad((y * W).sum(), [x])[0].tolist()

    assert both(sort(x)) == ([1.0, 2.0, 3.0], [100.0, 1.0, 10.0])
    assert both(td.function(sort)(x)) == both(sort(x))
    p = td.placeholder((3,), name="p")
    f = td.computation({"y": sort(p)}, p)
    assert f([3, 2, 1])["y"].tolist() == [1.0, 2.0, 3.0]
    assert td.vmap(sort)(rows).tolist() == np.sort(rows).tolist()
    each = td.vmap(sort)(td.stack([x, x * 2]))
    assert td.grad((each * W).sum(), [x])[0].tolist() == [300.0, 3.0, 30.0]
    last = td.foldl(lambda c, r: sort(c + r), x, td.asarray(rows))
    found, slope = both(last)
    assert found == [6.0, 10.0, 11.0] and sorted(slope) == W.tolist()
    with td.options(check=True):
        assert both(sort(x + 0.0)) == both(sort(x))
        assert td.optim.SGD(lr=0.1).step((sort(x) * W).sum()) == 321.0


def test_second_derivatives_are_those_of_the_gradient() -> None:
    cube = td.py_function(lambda x: x**3, gradient=lambda g, y, x: g * 3 * x**2)
    x = td.param("x", init=np.array([1.0, 2.0]), dtype="float64")
    assert np.diag(td.hessian(cube(x).sum(), x).numpy()).tolist() == [6.0, 12.0]
    assert td.jvp(cube(x), [x], [td.ones((2,), "float64")]).tolist() == [3.0, 12.0]


@pytest.mark.parametrize(
    ("result", "types"),
    [
        (None, ["float32[2, 3]"]),
        ("int64", ["int64[2, 3]"]),
        (((4,), "bool"), ["bool[4]"]),
        (np.zeros(5), ["float64[5]"]),
        (lambda t: ((t.size,), t.dtype), ["float32[6]"]),
        ([((), "int32"), lambda t: t][:1], ["int32[]"]),
        (lambda t: [t, ((2,), "float64")], ["float32[2, 3]", "float64[2]"]),
    ],
)
def test_the_result_is_declared_in_several_ways(result: Any, types: Any) -> None:
    def zeros(x: Any) -> Any:
        found = [np.zeros(t.shape, t.dtype) for t in declared]
        return tuple(found) if len(found) > 1 else found[0]

    y = td.py_function(zeros, result)(td.ones((2, 3)))
    declared = [v.type for v in (y if isinstance(y, list) else [y])]
    assert [repr(t) for t in declared] == types
    td.evaluate(y)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda x: td.py_function(lambda x: {}[1], label="f")(x), td.RunError,
         "f: the function f raised KeyError: 1"),
        (lambda x: td.py_function(lambda x: x[:1])(x), td.RunError,
         "returned float32[1] where float32[3] was declared"),
        (lambda x: td.py_function(lambda x: x * 1j)(x), td.RunError,
         "returned complex64[3] where float32[3]"),
        (lambda x: td.py_function(lambda x: "text")(x), td.RunError, "was declared"),
        (lambda x: td.py_function(lambda x: x, lambda t: [t, t])(x)[0], td.RunError,
         "returned 1 results, 2 were declared"),
        (lambda x: td.grad(td.py_function(np.sort)(x).sum(), [x])[0],
         td.GradientError, "gradient=(of tensors) or host_gradient=(of arrays)"),
        (lambda x: td.py_function(np.sort, gradient=lambda g, y, x: (g, g))(x),
         td.ArityError, "returns 2 of 1 cotangents"),
        (lambda x: td.py_function(np.sort, gradient=lambda g, y, x: np.ones(7))(x),
         td.ShapeError, "by operand 0"),
        (lambda x: td.py_function(3), td.ArgumentError, "takes a function, not int"),
        (lambda x: td.py_function(lambda: 1.0)(), td.ArgumentError, "to be declared"),
        (lambda x: td.callback(lambda v: v.nothing, x), td.RunError,
         "raised AttributeError"),
    ],
)  # fmt: skip
def test_errors_name_the_function_and_the_line(
    make: Any, error: Any, says: str
) -> None:
    x = td.param("x", init=np.ones(3, np.float32))
    with pytest.raises(error, match=re.escape(says)) as told:
        make(x).numpy()
    assert __file__ in str(told.value)


def test_an_error_keeps_where_it_came_from() -> None:
    with pytest.raises(td.RunError) as told:
        td.py_function(lambda x: 1 // 0)(td.constant(1.0)).numpy()
    assert isinstance(told.value.__cause__, ZeroDivisionError)


def test_arrays_are_the_functions_own() -> None:
    kept: list[Any] = []

    def spoil(x: Any) -> Any:
        kept.append(x)
        x[:] = -1.0
        return x

    x = td.asarray([1.0, 2.0])
    y = td.py_function(spoil)(x)
    assert y.tolist() == [-1.0, -1.0] and x.tolist() == [1.0, 2.0]
    kept[0][:] = 5.0
    assert y.tolist() == [-1.0, -1.0]


def test_pure_functions_are_merged_and_others_are_not() -> None:
    for pure, times in ((True, 1), (False, 2)):
        calls: list[int] = []
        f = td.py_function(lambda x: calls.append(1) or x, pure=pure)
        x = td.asarray([1.0, 2.0])
        td.evaluate(f(x) + f(x))
        assert len(calls) == times
        dropped = f(x)
        td.evaluate(x + 1)
        assert len(calls) == times and dropped.shape == (2,)


@pytest.mark.parametrize("wrap", [lambda f: f, td.function])
def test_an_effect_happens_once_also_when_a_gradient_follows(wrap: Any) -> None:
    calls: list[str] = []
    noisy = td.py_function(
        lambda x: calls.append("f") or x * np.random.default_rng().uniform(1, 2),
        gradient=lambda g, y, x: g * y / x,
    )
    told = wrap(lambda x: td.callback(lambda v: calls.append("c"), td.tanh(x)))
    x = td.param("x", init=np.array([1.0, 2.0]), dtype="float64")
    for _ in range(3):
        calls.clear()
        y = wrap(lambda x: td.exp(noisy(td.sin(x))))(told(x)).sum()
        value = float(y)
        (g,) = td.grad(y, [x])
        assert g.numpy().shape == (2,) and float(y) == value
        assert calls == ["c", "f"]


@pytest.mark.parametrize("kind", ["custom", "of tensors", "of arrays", "callback"])
def test_cells_that_run_as_rows_have_them(kind: str) -> None:
    calls: list[int] = []

    def host(x: Any) -> Any:
        calls.append(1)
        return np.tanh(x)

    def pulled(g: Any, y: Any, x: Any) -> Any:
        return g * (1 - y * y)

    marks = {
        "custom": td.custom_gradient(td.tanh, pulled),
        "of tensors": td.py_function(host, gradient=pulled),
        "of arrays": td.py_function(host, host_gradient=pulled),
        "callback": lambda x: td.tanh(td.callback(host, x)),
    }

    def found(mark: Any) -> list[Any]:
        net = Net()
        cell = td.function(lambda x: mark(net._leaf(x)[0]))
        leaves = [cell(td.rows(net.table, k % 7)) for k in range(40)]
        loss = td.stack([(x * x).sum() for x in leaves]).sum()
        return [float(loss), *[g.numpy() for g in td.grad(loss, [net.table])]]

    expected, before = found(td.tanh), counts.runs
    for a, b in zip(expected, found(marks[kind]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)
    assert counts.runs > before and len(calls) == (0 if kind == "custom" else 40)


def test_treadle_can_be_used_inside() -> None:
    f = td.py_function(lambda x: td.sum(td.asarray(x)).numpy(), ((), "float64"))
    assert float(f(np.ones(3))) == 3.0


# -- gradients of one's own ----------------------------------------------------------


def test_a_custom_gradient_replaces_the_one_of_the_graph() -> None:
    @td.custom_gradient
    def rounded(x: Any) -> Any:
        return td.round(x)

    @rounded.gradient
    def _(g: Any, y: Any, x: Any) -> Any:
        return g

    x = td.param("x", init=np.array([0.4, 1.6]))
    (g,) = td.grad((rounded(x) * x).sum(), [x])
    np.testing.assert_allclose(g.numpy(), [0.4, 3.6], rtol=1e-6)
    with td.options(check=True):
        assert rounded(x + 0.0).tolist() == [0.0, 2.0]


def test_custom_gradients_of_several_results_and_operands() -> None:
    f = td.custom_gradient(
        lambda a, b: {"sum": a + b, "product": a * b},
        lambda g, y, a, b: (2.0 * g[0] + g[1] * b, None),
    )
    a, b = td.param("a", init=3.0), td.param("b", init=5.0)
    y = f(a, b)
    assert float(y["sum"]) == 8.0 and float(y["product"]) == 15.0
    found = td.grad(y["sum"] + y["product"], [a, b], unused="zero")
    assert [float(g) for g in found] == [7.0, 0.0]
    assert float(td.grad(y["product"], [a])[0]) == 5.0


def test_custom_gradients_by_rows_with_shared_operands() -> None:
    f = td.custom_gradient(lambda x, w: x @ w, lambda g, y, x, w: (3 * g * w, g * x))
    w = td.param("w", init=np.array([1.0, 2.0]))
    x = td.param("x", init=np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    y = td.vmap(f, in_axes=(0, None))(x, w)
    gx, gw = td.grad(y.sum(), [x, w])
    assert gx.tolist() == [[3.0, 6.0]] * 3 and gw.tolist() == [9.0, 12.0]


def test_parameters_around_a_custom_gradient_are_named() -> None:
    w, x = td.param("w", init=2.0), td.param("x", init=3.0)
    f = td.custom_gradient(lambda x: x * w, lambda g, y, x: g)
    with pytest.raises(td.GradientError, match="reads the parameters w around it"):
        f(x)
    ok = td.custom_gradient(lambda x: x * td.stop_gradient(w), lambda g, y, x: g * w)
    assert float(td.grad(ok(x), [x])[0]) == 2.0  # the gradient may read what it likes
    with pytest.raises(td.ArgumentError, match="has no gradient yet"):
        td.custom_gradient(td.sin)(x)


@pytest.mark.parametrize("pure", [np.ones(2), td.asarray([True, False]), "yes", None])
def test_whether_a_function_is_pure_is_true_or_false(pure: Any) -> None:
    with pytest.raises(td.TreadleError, match="pure is True or False"):
        td.py_function(np.sort, pure=pure)
