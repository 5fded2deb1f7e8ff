"""Structural equality: what it sees and what it does not."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td


def test_ops_attributes_types_and_wiring_count() -> None:
    x, y = td.param("x", shape=(2, 3)), td.param("y", shape=(2, 3))
    assert td.alike(td.sin(x) * y, td.sin(x) * y)
    assert not td.alike(td.sin(x) * y, td.cos(x) * y)
    assert not td.alike(x * y, y * x)
    assert not td.alike(x.sum(0), x.sum(1))
    assert not td.alike(x.sum(0), x.sum(0, keepdims=True))
    assert not td.alike(td.astype(x, "float64"), td.astype(x, "float16"))


def test_sharing_counts() -> None:
    x = td.param("x", init=1.0)
    once = td.sin(x)
    assert td.alike(once * once, once * once)
    assert not td.alike(once * once, td.sin(x) * td.sin(x))
    assert not td.alike(td.sin(x) * td.sin(x), once * once)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (1.0, 1.0, True),
        (0.0, -0.0, False),
        (float("nan"), float("nan"), True),
        (np.int32(1), np.int64(1), False),
        (np.ones(2, np.float32), np.ones((1, 2), np.float32), False),
    ],
)
def test_constants_are_compared_by_their_bits(a: object, b: object, same: bool) -> None:
    assert td.alike(td.constant(a), td.constant(b)) is same


def test_names_and_values_do_not_count() -> None:
    x = td.param("x", init=1.0)
    a, b = x + 1.0, x + 1.0
    a.name = "left"
    float(a)
    assert td.alike(a, b)


def test_variables_are_compared_by_identity() -> None:
    a, b = td.param("same", init=1.0), td.param("same", init=1.0)
    assert td.alike(a + 1.0, a + 1.0) and not td.alike(a + 1.0, b + 1.0)


def test_bodies_are_compared_by_their_graphs() -> None:
    def total(step: float) -> td.Tensor:
        rows = td.constant([1.0, 2.0])
        return td.scan(lambda c, r: (c + r * step, c), 0.0, rows)[0]

    assert td.alike(total(2.0), total(2.0))
    assert not td.alike(total(2.0), total(3.0))


def test_trees_have_to_nest_alike() -> None:
    x = td.constant(1.0)
    assert td.alike({"a": [x]}, {"a": [x]})
    assert not td.alike({"a": [x]}, {"b": [x]})
    assert not td.alike([x], (x,))


def test_a_long_chain_is_compared_without_recursion() -> None:
    def chain() -> td.Tensor:
        z = x
        for _ in range(20_000):
            z = z + x
        return z

    x = td.constant(1.0)
    assert td.alike(chain(), chain())
