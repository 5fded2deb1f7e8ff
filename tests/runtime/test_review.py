"""Findings of a review, each with the program that showed it."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import treadle as td
from treadle.base.errors import DTypeError, TreadleError


def test_a_scalar_that_does_not_fit_is_an_error_of_the_library() -> None:
    x = td.asarray([1], dtype="int8")
    with pytest.raises(DTypeError, match="300 does not fit into int8"):
        x + 300
    with pytest.raises(DTypeError, match="out of bounds"):
        td.asarray([300], dtype="int8")


def test_ragged_lists_are_no_array() -> None:
    with pytest.raises(DTypeError, match="no array of numbers"):
        td.asarray([[1], [1, 2]])


def test_shifts_and_divmod_with_a_number_on_the_left() -> None:
    i = td.asarray([1, 2, 3])
    assert (1 << i).tolist() == [2, 4, 8]
    assert (16 >> i).tolist() == [8, 4, 2]
    assert [y.tolist() for y in divmod(i, 2)] == [[0, 1, 1], [1, 0, 1]]
    assert [y.tolist() for y in divmod(7, i)] == [[7, 3, 2], [0, 1, 1]]


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 0.5])
def test_an_integer_to_a_float_power_is_a_float(exponent: float) -> None:
    y = td.asarray([1, 4]) ** exponent
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.numpy(), np.array([1.0, 4.0]) ** exponent)


def test_arange_and_eye_refuse_what_is_no_number() -> None:
    for make in (
        lambda: td.arange("a"),  # type: ignore[arg-type]
        lambda: td.eye("a"),  # type: ignore[arg-type]
        lambda: td.eye(-1),
    ):
        with pytest.raises(TreadleError, match=r"arange|eye"):
            make()
    assert td.eye(2, 3).shape == (2, 3)


def test_a_carry_is_never_rounded_silently() -> None:
    with pytest.raises(DTypeError, match="carry 0 is int64"):
        td.foldl(lambda c, x: c + x, 0, td.asarray([1.5, 1.5]))
    total = td.foldl(lambda c, x: c + x, 0.0, td.asarray([1, 2]))
    assert float(total) == 3.0


def test_a_shallow_copy_of_a_variable_is_its_own_variable() -> None:
    v = td.Variable(1.0)
    w = copy.copy(v)
    w += 1
    assert (float(v), float(w)) == (1.0, 2.0)
    assert td.variables(w * 1) == [w]
