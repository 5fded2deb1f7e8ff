"""Ops as values: they do not change, and are equal by their class and fields."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError

import pytest

from treadle.graph.op import Op, fields, op, registry
from treadle.ops.elementwise import Add
from treadle.ops.extrema import Max
from treadle.ops.reduce import Sum


@pytest.mark.parametrize("x", [Add(), Sum((0,), False)])
def test_ops_do_not_change(x: Op) -> None:
    with pytest.raises(FrozenInstanceError):
        x.axes = (1,)  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError):
        del x.axes  # type: ignore[attr-defined]


def test_ops_are_equal_by_class_and_fields() -> None:
    one, same = Sum((0,), False), Sum((0,), False)
    assert one == same and hash(one) == hash(same)
    assert one != Sum((1,), False) and one != Max((0,), False) and one != 1
    assert Add() is Add()


def test_an_op_of_a_number_that_is_not_one_equals_itself() -> None:
    @op()
    class Filled(Op):
        value: float

    del registry["Filled"]
    x = Filled(math.nan)
    assert x == x and x == Filled(x.value)
    assert [f.name for f in fields(x)] == ["value"]  # type: ignore[arg-type]
