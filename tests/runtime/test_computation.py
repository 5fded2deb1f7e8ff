"""Computations: placeholders, replayed updates, fresh draws, bad bindings."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.trees import flatten


def test_placeholders_are_bound_by_position_or_name() -> None:
    x, y = td.placeholder((2,), name="x"), td.placeholder((), name="y")
    f = td.computation({"sum": x + y, "product": x * y}, x, y)
    out = f([1.0, 2.0], y=3.0)
    assert out["sum"].tolist() == [4.0, 5.0] and out["product"].tolist() == [3.0, 6.0]


@pytest.mark.parametrize(
    "tree",
    [
        lambda x, y: x + y,
        lambda x, y: [x, y],
        lambda x, y: (x * y,),
        lambda x, y: {"sum": x + y, "both": (x, [y, {"x": x}])},
        lambda x, y: [],
        lambda x, y: {"nothing": None, "number": 3.0},
    ],
)
def test_outputs_are_any_tree_of_tensors(tree: Any) -> None:
    x, y = td.placeholder((2,), name="x"), td.placeholder((), name="y")
    a, b = np.array([1.0, 2.0], np.float32), np.float32(3.0)
    found = td.computation(tree(x, y), x, y)(a, b)
    leaves, structure = flatten(found)
    expected, wanted = flatten(tree(a, b))
    assert structure == wanted
    assert all(map(np.array_equal, leaves, expected))


@pytest.mark.parametrize(
    ("values", "named", "error", "says"),
    [
        ((), {}, td.ArityError, "no value for x, n"),
        (
            (1, 2, 3.0, np.ones(2)),
            {},
            td.ArityError,
            "too many values: 3.0, float64[2]",
        ),
        ((1,), {"z": 1}, td.ArityError, "no placeholder is named z; no value for n"),
        ((1,), {"x": 1, "n": 1}, td.ArityError, "two values for x"),
        (
            (1, 2, 3),
            {"u": 1, "v": 2},
            td.ArityError,
            "too many values: 3; no placeholder is named u, v",
        ),
        (
            (np.ones(3), "text"),
            {},
            td.ShapeError,
            "'x' is float32[2], got (3,); placeholder 'n' is int32[]: str is no array",
        ),
        ((1, 1.5), {}, td.DTypeError, "'n' is int32[], got numbers that are not whole"),
        (
            (np.ones(3),),
            {},
            td.ArityError,
            "no value for n; placeholder 'x' is float32[2], got (3,)",
        ),
    ],
)
def test_everything_wrong_with_the_bindings_is_named_at_once(
    values: Any, named: Any, error: Any, says: str
) -> None:
    x, n = td.placeholder((2,), name="x"), td.placeholder((), "int32", name="n")
    f = td.computation(x * n, x, n)
    with pytest.raises(error, match=re.escape(says)) as told:
        f(*values, **named)
    assert "placeholders: x, n" in str(told.value) and __file__ in str(told.value)
    assert f([1.0, 2.0], 3.0).tolist() == [3.0, 6.0]  # a whole number as a float


def test_placeholders_left_out_are_all_named() -> None:
    x, y, z = (td.placeholder(name=name) for name in "xyz")
    f = td.computation(x + y + z, x)
    with pytest.raises(td.ArityError, match="without a value: y, z"):
        f(1.0)
    y.assign(2.0), z.assign(3.0)
    assert float(f(1.0)) == 6.0  # what is assigned is its value


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda x: (x, x), "'x' is given twice"),
        (lambda x: (x, td.placeholder(name="x")), "'x' is the name of two"),
        (lambda x: (x + 1,), "takes placeholders, not float32[]"),
        (lambda x: (3,), "takes placeholders, not 3"),
    ],
)
def test_wrong_placeholders_are_refused(make: Any, says: str) -> None:
    x = td.placeholder(name="x")
    with pytest.raises(td.ArgumentError, match=re.escape(says)):
        td.computation(x * 2, *make(x))


def test_variables_are_bound_to_their_newest_version() -> None:
    w = td.param("w", init=1.0)
    f = td.computation(w * 2.0)
    assert float(f()) == 2.0
    w.assign(5.0)
    assert float(f()) == 10.0


def test_values_already_known_are_not_reused() -> None:
    w = td.param("w", init=1.0)
    y = w * 2.0
    assert float(y) == 2.0
    f = td.computation(y + 1.0)
    w.assign(4.0)
    assert float(f()) == 9.0


def test_training_by_computation() -> None:
    x = td.placeholder((3,), name="x")
    w = td.param("w", shape=(3,), init=1.0)
    loss = (w * x).sum()
    w.assign(w - 0.1 * td.grad(loss, [w])[0])
    step = td.computation(loss, x)
    assert float(step([1.0, 2.0, 3.0])) == 6.0
    np.testing.assert_allclose(w.numpy(), [0.9, 0.8, 0.7], rtol=1e-6)
    assert float(step([1.0, 0.0, 0.0])) == pytest.approx(0.9)


def test_draws_are_new_at_each_call() -> None:
    f = td.computation(td.random.uniform((4,)))
    assert f().tolist() != f().tolist()
