"""The statements of Marian's document that can be checked: z = x y + sin(x)."""

from __future__ import annotations

import logging

import pytest

import treadle as td


def expression() -> tuple[td.Parameter, td.Tensor]:
    x = td.param("x", init=2.0)
    y = td.constant(3.0)
    return x, x * y + td.sin(x)


def test_s1_value() -> None:
    _, z = expression()
    assert float(z) == pytest.approx(6.909297426825682, rel=1e-7)


def test_s2_derivative() -> None:
    x, z = expression()
    (gx,) = td.grad(z, [x])
    assert float(gx) == pytest.approx(2.5838531634528574, rel=1e-7)


def test_s3_one_step_of_descent() -> None:
    x, z = expression()
    td.optim.SGD(lr=0.005).step(td.abs(6 - z))
    assert float(x) == pytest.approx(1.9870807341827357, rel=1e-7)


def test_s4_constants_have_no_derivative() -> None:
    z = td.constant(2.0) * td.constant(3.0)
    with pytest.raises(td.GradientError, match="no trainable parameter"):
        z.backward()
    with pytest.raises(td.GradientError, match="no trainable parameter"):
        td.optim.SGD(lr=0.1).step(z)


def test_s5_the_picture_is_the_same_before_and_after_running() -> None:
    _, z = expression()
    before = td.to_dot(z)
    float(z)
    assert td.to_dot(z) == before
    assert before.startswith("digraph")


def test_s6_debug_prints_value_and_gradient(caplog: pytest.LogCaptureFixture) -> None:
    x = td.param("x", init=2.0)
    z = td.debug(x, "Parameter x") * 3.0
    with caplog.at_level(logging.DEBUG, logger="treadle"):
        td.evaluate(td.grad(z, [x])[0], z)
    text = caplog.text
    for part in ("Debug: Parameter x", "Debug Grad: Parameter x", "size=1", "float32"):
        assert part in text
    for part in ("min: 2.0", "max: 2.0", "l2-norm: 2.0", "l2-norm: 3.0", "bytes=4"):
        assert part in text
