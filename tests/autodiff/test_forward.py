"""Forward mode against reverse mode."""

from __future__ import annotations

import numpy as np

import treadle as td


def test_the_two_modes_meet() -> None:
    rng = np.random.default_rng(0)
    x = td.asarray(rng.standard_normal(4))
    w = td.asarray(rng.standard_normal((3, 4)))
    y = td.sin(w @ x) * 2.0
    t, u = rng.standard_normal(4), rng.standard_normal(3)
    along = float((td.jvp(y, [x], [td.asarray(t)]) * u).sum())
    against = float((td.vjp(y, [x], td.asarray(u))[0] * t).sum())
    assert abs(along - against) <= 1e-12 * abs(along)
    full = td.jacobian(y, [x])[0].numpy()
    np.testing.assert_allclose(full @ t, td.jvp(y, [x], [td.asarray(t)]).numpy())


def test_an_independent_input_is_refused_or_zero() -> None:
    x, z = td.param("x", init=1.0), td.param("z", init=1.0)
    try:
        td.grad(x * 2.0, [z])
        raise AssertionError("nothing was raised")
    except td.GradientError as error:
        assert "does not depend on z" in str(error)
    assert float(td.grad(x * 2.0, [z], unused="zero")[0]) == 0.0


def test_a_gradient_is_of_a_float_scalar() -> None:
    x = td.param("x", shape=(2,), init=1.0)
    try:
        td.grad(x * 2.0, [x])
        raise AssertionError("nothing was raised")
    except td.GradientError as error:
        assert "scalar" in str(error)


def test_looking_under_no_grad_keeps_the_recipe() -> None:
    x = td.param("x", init=3.0)
    y = x * x
    with td.no_grad():
        assert float(y) == 9.0
    assert float(td.grad(y, [x])[0]) == 6.0


def test_no_grad_makes_constants() -> None:
    x = td.param("x", init=3.0)
    with td.no_grad():
        target = x * x
    assert float(td.grad(x * target, [x])[0]) == 9.0
