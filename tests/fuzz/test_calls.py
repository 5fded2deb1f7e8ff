"""A slice of the campaign over public calls, and that it sees what it should."""

from __future__ import annotations

import numpy as np
import pytest

import treadle as td
from tests.fuzz import calls


def test_public_calls_with_wrong_arguments_raise_errors_of_ours() -> None:
    every = len(calls.examples())
    assert every > 700
    assert calls.run(range(3, 8 * every, 181), verbose=True) == []


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("td.sum(None + 1)", False),  # the user's own line
        ("td.stack()", False),
        ("td.ones(2).sum(7)", False),
        ("from treadle.base.trees import unflatten\nunflatten(5, 1)", True),
        ("from treadle.graph.body import Body\nBody(1, 2, 3)", True),
    ],
)
def test_a_raw_exception_is_seen(source: str, wrong: bool) -> None:
    assert bool(calls.failure(f"import treadle as td\n{source}\n")) is wrong


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("td.py_function(abs, gradient=td)", td.ArgumentError),
        ("td.py_function(abs, host_gradient=3)", td.ArgumentError),
        *[(f"td.Axes(td.Axis('n', 2)) {sign} 1.5", td.AxisError) for sign in "+|&-"],
        ("td.Axes(td.Axis('n', 2)) - [3]", td.AxisError),
        ("np.zeros(2, [('a', 'f4')]) in td.ones(2)", td.ShapeError),
        ("td.nn.Sequential(abs)[2**63]", IndexError),
        ("td.nn.ModuleList([abs])[np.ones(3)]", td.ArgumentError),
        ("td.nn.Sequential(abs)['a']", td.ArgumentError),
        ("td.nn.ModuleList([abs]).__setitem__(1, abs)", IndexError),
        ("td.nn.ModuleList([abs]).__delitem__(None)", td.ArgumentError),
        ("td.nn.ModuleList([abs]).insert('a', abs)", td.ArgumentError),
        ("td.train.History()[np.ones(3)]", td.ArgumentError),
        ("td.ones((2, 3))[np.ma.masked_array([0, 1], [1, 0])]", td.DTypeError),
        ("td.ones(2)[np.ma.masked_array([True, False], [1, 0])]", td.DTypeError),
        (
            "td.param(init=np.ones((2, 3))).freeze_rows("
            "np.ma.masked_array([0, 1], [1, 0]))",
            td.DTypeError,
        ),
        (
            "setattr(td.param(init=np.ones(2)), 'grad', "
            "np.ma.masked_array([0.0, 1.0], [1, 0]))",
            td.DTypeError,
        ),
        ("td.nn.ModuleList([abs]).insert(10**30, abs)", td.ArgumentError),
        *[
            (f"td.Axes(td.Axis('n', 2))[{k}]", td.AxisError)
            for k in ("3", "10**30", "None", "1.5", "'x'")
        ],
    ],
)
def test_what_a_container_does_not_take_is_told(
    call: str, error: type[Exception]
) -> None:
    with pytest.raises(error) as raised:
        eval(call, {"td": td, "np": np})
    assert isinstance(raised.value, td.TreadleError)


def test_cases_are_the_same_each_time() -> None:
    assert [calls.case(k) for k in range(40)] == [calls.case(k) for k in range(40)]
