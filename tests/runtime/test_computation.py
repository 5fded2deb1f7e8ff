"""Computations: placeholders, replayed updates, fresh draws, bad bindings."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td


def test_placeholders_are_bound_by_position_or_name() -> None:
    x, y = td.placeholder((2,), name="x"), td.placeholder((), name="y")
    f = td.computation({"sum": x + y, "product": x * y}, x, y)
    out = f([1.0, 2.0], y=3.0)
    assert out["sum"].tolist() == [4.0, 5.0] and out["product"].tolist() == [3.0, 6.0]


@pytest.mark.parametrize(
    ("values", "named", "says"),
    [
        ((), {}, "no value for x, y"),
        ((1.0, 2.0, 3.0), {}, "1 values too many"),
        ((1.0,), {"z": 1.0}, "no placeholder is named z; no value for y"),
    ],
)
def test_wrong_bindings_are_all_named(values: tuple, named: dict, says: str) -> None:  # type: ignore[type-arg]
    x, y = td.placeholder(name="x"), td.placeholder(name="y")
    with pytest.raises(td.ArityError, match=says):
        td.computation(x + y, x, y)(*values, **named)


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
