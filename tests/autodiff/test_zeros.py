"""What has the derivative 0, what no derivative reaches, and norms at 0, as torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

ENGINES = ("native", "reference")
FLAT: dict[str, Callable[[Any], Any]] = {
    "floor": td.floor,
    "ceil": td.ceil,
    "trunc": td.trunc,
    "round": td.round,
    "rint": td.rint,
    "sign": td.sign,
    "floor_divide": lambda x: x // 0.7,
    "copysign": lambda x: td.copysign(2.0, x),
    "imag": td.imag,
    "inside": lambda x: td.exp(td.floor(x * x)),
    "in a body": td.function(lambda x: td.sign(x) * 3.0),
    "of a remainder's slope": lambda x: td.remainder(2.0, td.ceil(x)),
}
CUT: dict[str, Callable[[Any], Any]] = {
    "stop_gradient": td.stop_gradient,
    "comparison": lambda a: a > 0,
    "where": lambda a: td.where(a > 0, 1.0, 2.0),
    "whole numbers": lambda a: a.astype("int32"),
    "argmax": td.argmax,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", FLAT)
def test_a_derivative_that_is_zero_is_one(name: str, engine: str) -> None:
    w = td.param("w", init=[-1.5, 0.4, 1.2])
    with td.options(engine=engine):
        y = FLAT[name](w).sum()
        assert td.grad(y, [w])[0].tolist() == [0.0] * 3
        y.backward()
        assert w.grad.tolist() == [0.0] * 3
        assert td.grad(y + (w * w).sum(), [w])[0].tolist() == (w.numpy() * 2).tolist()
        (g,) = td.grad((td.abs(w) * w).sum(), [w])
        assert td.grad(g.sum(), [w])[0].tolist() == [-2.0, 2.0, 2.0]
        td.optim.SGD(lr=0.1).step(FLAT[name](w).sum())
    np.testing.assert_array_equal(w.numpy(), np.float32([-1.5, 0.4, 1.2]))


@pytest.mark.parametrize("name", CUT)
def test_backward_passes_over_what_it_does_not_reach(name: str) -> None:
    a, b = td.param("a", init=[1.0, -2.0]), td.param("b", init=[3.0, 4.0])
    loss = (b * CUT[name](a)).sum()
    loss.backward()
    assert a.grad is None and b.grad is not None
    with pytest.raises(td.GradientError, match="depends on no trainable parameter"):
        (CUT[name](a) * 1.0).sum().backward()
    with pytest.raises(td.GradientError, match="does not depend on a"):
        td.grad(loss, [a])
    assert td.grad(loss, [a], unused="zero")[0].tolist() == [0.0, 0.0]


def test_a_target_network_gets_no_gradient() -> None:
    class Agent(td.nn.Module):
        def __init__(self) -> None:
            self.online = td.nn.Sequential(td.nn.Linear(3, 2))
            self.target = td.nn.Sequential(td.nn.Linear(3, 2))

    net, x = Agent(), td.ones((4, 3))
    with td.no_grad():
        wanted = net.target(x)
    ((net.online(x) - wanted) ** 2).mean().backward()
    assert all(p.grad is not None for p in net.online.parameters())
    assert all(p.grad is None for p in net.target.parameters())
    with pytest.raises(td.GradientError, match=r"on target\.0\.weight"):
        td.grad(net.online(x).sum(), list(net.target.parameters()))


NORMS: dict[str, Callable[[Any], Any]] = {
    "norm": td.norm,
    "norm by rows": lambda x: td.norm(x, axis=1).sum(),
    "l2_norm": td.l2_norm,
    "vector_norm": td.linalg.vector_norm,
    "squared": lambda x: td.norm(x) ** 2,
    "std": td.std,
    "std by rows": lambda x: td.std(x, 0, correction=1).sum(),
    "method": lambda x: x.std(),
    "l2_pool": lambda x: td.l2_pool(x.reshape(1, 1, 2, 2), 2).sum(),
    **{f"order {p}": lambda x, p=p: td.norm(x, p) for p in (0, 0.5, 1, 1.5, 3, 4)},
    **{f"order {p}": lambda x, p=p: td.norm(x, p) for p in (np.inf, -np.inf)},
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NORMS)
def test_norms_have_the_derivative_zero_at_zero(
    name: str, engine: str, dtype: str
) -> None:
    x = td.param("x", init=np.zeros((2, 2)), dtype=dtype)
    with td.options(engine=engine):
        y = NORMS[name](x)
        assert float(y) == 0.0
        (g,) = td.grad(y, [x])
        again = td.grad((g * g).sum() + (g * 2.0).sum(), [x], unused="zero")[0]
        assert g.tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert np.isfinite(again.numpy().astype(np.float32)).all()


@pytest.mark.parametrize("order", [0.5, 1, 1.5, 2, 3, -1, np.inf])
def test_norms_with_some_zeros_have_the_derivatives_of_the_others(order: Any) -> None:
    """Where torch's are: of elements that are 0 they are 0."""
    x = td.asarray(np.array([3.0, 0.0, -4.0]))
    (g,) = td.grad(td.norm(x, order), [x])
    if order < 0:
        assert g.tolist() == [0.0, 0.0, 0.0]
        return
    rest = td.asarray(np.array([3.0, -4.0]))
    (wanted,) = td.grad(td.norm(rest, order), [rest])
    np.testing.assert_allclose(g.numpy()[[0, 2]], wanted.numpy(), rtol=1e-12)
    assert g.numpy()[1] == 0.0


def test_norms_of_rows_run_together() -> None:
    """As values of a forest, with some rows that are 0."""
    w = td.param("w", init=np.eye(4), dtype="float64")
    rows = [td.constant(np.full(4, float(k % 3)), "float64") for k in range(48)]

    def grads() -> np.ndarray[Any, Any]:
        loss = td.stack([td.norm(td.tanh(x @ w)) + td.std(x @ w) for x in rows]).sum()
        return np.asarray(td.grad(loss, [w])[0].numpy())

    with td.options(autobatch=False, engine="reference"):
        wanted = grads()
    np.testing.assert_allclose(grads(), wanted, rtol=1e-12)
    assert np.isfinite(wanted).all()
