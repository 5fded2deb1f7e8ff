"""The statements of Marian's document that can be checked: z = x y + sin(x)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("kind", [td.optim.SGD, td.optim.Adagrad, td.optim.Adam])
def test_s7_one_call_goes_forward_and_back_for_every_optimizer(kind: Any) -> None:
    x, z = expression()
    loss = kind(lr=0.01).step(td.abs(6 - z))
    assert float(loss) == pytest.approx(0.909297426825682, rel=1e-6)
    assert float(x) < 2.0 and x.grad is None
    _, z = expression()
    z.backward()
    assert float(z) == pytest.approx(6.909297426825682, rel=1e-7)


@pytest.mark.parametrize("ending", ["npz", "bin"])
def test_s8_items_files_and_buffers(tmp_path: Path, ending: str) -> None:
    saved, path = td.param("w", init=[1.0, 2.0]), tmp_path / f"model.{ending}"
    td.save(path, [saved])
    found = td.param("w", init=[0.0, 0.0])
    for source in (path, path.read_bytes(), list(td.load(path).items())):
        found.assign([0.0, 0.0])
        td.load(source, [found])
        assert found.tolist() == [1.0, 2.0]


def test_s8_memory_for_time_and_parameters_by_type() -> None:
    x = td.param("x", init=2.0)
    half = td.param("half", init=1.0, dtype="float16")
    y = td.checkpoint(lambda v: td.sin(v) * v)(x) + half
    assert float(td.grad(y, [x])[0]) == pytest.approx(0.0770037, rel=1e-5)
    kinds = {p.name: p.dtype for p in td.parameters(y)}
    assert kinds == {"x": td.float32, "half": td.float16}
