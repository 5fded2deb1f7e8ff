"""Scans of a `td.function`: its trace is the body, whatever the length."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(3)


def rows(n: int, width: int = 3) -> np.ndarray[Any, Any]:
    return RNG.normal(size=(n, width))


def test_a_function_is_traced_once_for_all_lengths() -> None:
    @td.function
    def step(carry: Any, row: Any) -> Any:
        return carry * 0.5 + row, {"out": carry.sum()}

    for n in (1, 4, 9, 0):
        xs = rows(n)
        last, ys = td.scan(step, np.zeros(3), xs)
        want, sums = np.zeros(3), []
        for x in xs:
            sums.append(want.sum())
            want = want * 0.5 + x
        np.testing.assert_allclose(last.numpy(), want)
        np.testing.assert_allclose(ys["out"].numpy(), np.array(sums).reshape(n))
    assert step.count == 1


def test_variables_and_what_is_around_are_those_of_the_scan() -> None:
    scale, settings = td.Variable(2.0), {"shift": 1.0}

    @td.function
    def step(carry: Any, row: Any) -> Any:
        return carry + scale * row + settings["shift"], ()

    def value() -> float:
        return float(td.scan(step, 0.0, np.ones(3, np.float32))[0])

    assert value() == 9.0
    scale.assign(3.0)
    assert value() == 12.0
    settings["shift"] = 0.0
    assert value() == 9.0
    (slope,) = td.grad(td.scan(step, 0.0, np.ones(3, np.float32))[0], [scale])
    assert float(slope) == 3.0


def test_each_scan_draws_anew() -> None:
    @td.function
    def step(carry: Any, row: Any) -> Any:
        return carry + td.random.normal(()), carry

    first, second = (float(td.scan(step, 0.0, length=4)[0]) for _ in range(2))
    assert first != second


def test_a_carry_in_another_form_is_told_as_ever() -> None:
    wide = td.function(lambda carry, row: (carry + row.astype("float64"), ()))
    with pytest.raises(td.TreadleError, match="carry 0 is"):
        td.scan(wide, np.float32(0), np.ones(3, np.float32))
    narrow = td.function(lambda carry, row: (carry.astype("float32") + row, ()))
    last, _ = td.scan(narrow, np.float64(0), np.ones(3, np.float32))
    assert last.dtype == td.float64
    assert float(last) == 3.0
    no_pair = td.function(lambda carry, row: carry)
    with pytest.raises(td.TreadleError, match="a pair"):
        td.scan(no_pair, 0.0, np.ones(3))
    other = td.function(lambda carry, row: ((carry, row), ()))
    with pytest.raises(td.TreadleError, match="another structure"):
        td.scan(other, 0.0, np.ones(3))


def test_an_assignment_inside_is_refused() -> None:
    total = td.Variable(0.0)

    @td.function
    def step(carry: Any, row: Any) -> Any:
        total.assign(total + row)
        return carry, ()

    with pytest.raises(td.TreadleError, match="assigned inside"):
        td.scan(step, 0.0, np.ones(3, np.float32))


@pytest.mark.parametrize("kind", [td.nn.LSTM, td.nn.GRU, td.nn.RNN])
def test_layers_record_a_step_once(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    layer = kind(3, 4, dtype="float64")
    (cell,) = layer.cells
    advance = type(cell).step

    def counted(self: Any, *args: Any) -> Any:
        steps.append(1)
        return advance(self, *args)

    monkeypatch.setattr(type(cell), "step", counted)
    values = [layer(rows(n * 2).reshape(n, 2, 3))[0].numpy() for n in (5, 7, 5)]
    assert len(steps) == 1
    assert [y.shape for y in values] == [(n, 2, 4) for n in (5, 7, 5)]
    # A copy, and one that is trained further, compute with their own weights.
    x = rows(10).reshape(5, 2, 3)
    twin = copy.deepcopy(layer)
    before = layer(x)[0].numpy()
    np.testing.assert_array_equal(twin(x)[0].numpy(), before)
    for p in layer.parameters():
        p.assign(p * 0.5)
    assert not np.array_equal(layer(x)[0].numpy(), before)
    np.testing.assert_array_equal(twin(x)[0].numpy(), before)
