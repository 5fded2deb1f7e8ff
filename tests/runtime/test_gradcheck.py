"""The gradient check that users have: it finds wrong rules, and only these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

DRAWS = np.random.default_rng(5)
W = td.param("w", init=DRAWS.standard_normal((3, 2)), dtype="float64")
SINGLE = td.param("single", init=DRAWS.standard_normal((3, 2)))
X = DRAWS.standard_normal((4, 3))
RIGHT: dict[str, tuple[Callable[..., Any], list[Any], list[td.Variable]]] = {
    "a product": (lambda x: td.tanh(x @ W), [X], [W]),
    "a parameter in single precision": (lambda x: td.tanh(x @ SINGLE), [X], [SINGLE]),
    "parameters alone": (lambda: (td.tanh(SINGLE) ** 3).sum(), [], [SINGLE]),
    "labels are no floats": (
        lambda x, y: td.nn.functional.cross_entropy(x, y),
        [X, np.array([0, 2, 1, 1])],
        [],
    ),
    "a tree of inputs": (
        lambda pair: pair["a"] * pair["b"][0],
        [{"a": X, "b": [X]}],
        [],
    ),
    "draws": (lambda x: td.nn.functional.dropout(x, 0.5), [X], []),
    "a function": (td.function(lambda x: td.sin(x) * x), [X], []),
    "a loop": (
        lambda x: td.scan(lambda c, a: (c * td.cos(a), c), td.ones(3, "float64"), x)[0],
        [X],
        [],
    ),
    "many elements": (lambda x: (x * x).sum(), [DRAWS.standard_normal((40, 40))], []),
    "nothing at all": (lambda x: (x * x).sum(), [np.zeros((0, 3))], []),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("order", [1, 2])
def test_right_derivatives_pass(name: str, order: int) -> None:
    f, inputs, variables = RIGHT[name]
    found = td.check_gradient(f, inputs, variables, order=order)
    assert found and found.worst < 1.0


def test_a_wrong_derivative_is_named() -> None:
    def f(x: td.Tensor, y: td.Tensor) -> td.Tensor:
        return x * y + td.stop_gradient(y) * y

    with pytest.raises(td.GradientError) as caught:
        td.check_gradient(f, [np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    text = str(caught.value)
    assert "the derivative by input 1" in text and "by differences it is" in text
    assert "check_gradient" in text and "test_gradcheck.py" in text
    found = td.check_gradient(f, [np.ones(2), np.ones(2)], strict=False)
    assert not found and found.worst > 1e3 and "input 1" in found.where


def test_a_wrong_second_derivative_is_found() -> None:
    def f(
        x: td.Tensor,
    ) -> td.Tensor:
        return x * x + (x - td.stop_gradient(x)) ** 3 * 0 + td.stop_gradient(x) * 0

    def wrong(x: td.Tensor) -> td.Tensor:
        return x * td.stop_gradient(x) * 2.0 - td.stop_gradient(x * x)

    assert td.check_gradient(f, [X], order=2)
    assert td.check_gradient(wrong, [X], strict=False)  # it is right once
    assert not td.check_gradient(wrong, [X], strict=False, order=2)


def test_a_variable_is_named_and_nothing_changes() -> None:
    bn = td.nn.BatchNorm2d(3)
    before = {k: np.array(v) for k, v in bn.state_dict().items()}
    assert td.check_gradient(bn, [DRAWS.standard_normal((2, 3, 4, 4))], [bn.weight])
    after = bn.state_dict()
    assert all(np.array_equal(before[k], after[k]) for k in before)
    w = td.param("w", init=1.0)
    with pytest.raises(td.GradientError, match="variable 'w'"):
        td.check_gradient(lambda: td.stop_gradient(w) * w, variables=[w])


def test_the_reference_engine_agrees() -> None:
    with td.options(engine="reference"):
        assert td.check_gradient(*RIGHT["a product"])


def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(td.ArgumentError, match="nothing to derive by"):
        td.check_gradient(lambda k: k * 2.0, [np.arange(3)])
    with pytest.raises(td.GradientError, match="has no derivative"):
        td.check_gradient(lambda x: x > 0, [X])
    with pytest.raises(td.ArgumentError, match="order is 1 or 2"):
        td.check_gradient(lambda x: x, [X], order=3)
    with pytest.raises(td.ArgumentError, match="inputs are real"):
        td.check_gradient(lambda x: x, [X + 1j])


def test_one_array_is_one_input() -> None:
    for x in (np.array([0.5, 1.0]), td.asarray([0.5, 1.0])):
        assert td.check_gradient(lambda v: td.sum(v**3), x).compared == 3
