"""Verification: one test for each message, on nodes broken on purpose."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from treadle.base.types import Type
from treadle.graph.leaves import Constant
from treadle.graph.tensor import Tensor
from treadle.ops.elementwise import ADD


def broken(name: str) -> Tensor:
    x, y = td.ones((2,)), td.ones((2,))
    if name == "order":
        z = x + y
        object.__setattr__(z, "serial", 0)
        return z
    if name == "type":
        return Tensor(ADD, (x, y), Type((3,), x.dtype))
    if name == "fit":
        return Tensor(ADD, (x, td.ones((3,))), x.type)
    if name == "arity":
        return Tensor(ADD, (x,), x.type)
    if name == "lost":
        return Tensor(ADD, (), x.type)
    if name == "empty leaf":
        return Tensor(Constant(), (), x.type)
    if name == "leaf with inputs":
        return Tensor(Constant(), (x,), x.type, np.ones(2, np.float32))
    if name == "unbound":
        return td.placeholder((2,), name="images") + x
    z = Tensor(ADD, (x, y), x.type)
    z.stored = np.ones(3, np.float32) if name == "value" else np.ones(2, np.float32)
    return z


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("order", "which was made after it"),
        ("type", "has type float32[3], its inputs make float32[2]"),
        ("fit", "does not fit its inputs: shapes (2,) and (3,) do not broadcast"),
        ("arity", "takes 2 operands, got 1"),
        ("lost", "has lost its inputs"),
        ("empty leaf", "is a leaf without a value"),
        ("leaf with inputs", "is a leaf with inputs"),
        ("unbound", "placeholder 'images' is not bound"),
        ("value", "has type float32[2] and a value of float32[3]"),
        ("writeable", "has a value that could be changed"),
    ],
)
def test_a_broken_graph_is_told(name: str, says: str) -> None:
    valid, message = td.verify(broken(name))
    assert not valid and says in message


def test_what_users_build_is_sound() -> None:
    w = td.param("w", shape=(3, 2), init=0.5)
    loss = (td.tanh(td.ones((4, 3)) @ w) ** 2).sum()
    assert td.verify([loss, td.grad(loss, [w])]) == (True, "")


def test_checked_runs_refuse_a_broken_graph() -> None:
    with td.options(check=True), pytest.raises(td.RunError, match="its inputs make"):
        broken("type").numpy()


def test_structures_are_compared() -> None:
    a, b = td.param("a", init=1.0), td.param("b", init=1.0)
    assert td.alike(a * 2.0 + a, a * 2.0 + a)
    assert not td.alike(a * 2.0 + a, a * 2.0 + b)
    assert not td.alike(a + 0.0, a + -0.0)
    assert not td.alike(a * a, a * (a * 1.0))
    shared = a * 3.0
    assert not td.alike(shared + shared, a * 3.0 + a * 3.0)


def test_bodies_are_looked_into() -> None:
    y = td.cond(td.constant(True), lambda: td.ones(2) * 2.0, lambda: td.ones(2))
    node = y.inputs[0]
    body = node.op.then
    body.outputs[0].inputs[1].stored = np.zeros(5, np.float32)
    valid, message = td.verify(y)
    assert not valid
    assert message.startswith("in then: ") and "a value of float32[5]" in message
