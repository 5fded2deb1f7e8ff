"""A slice of the campaign over public calls, and that it sees what it should."""

from __future__ import annotations

import pytest

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


def test_cases_are_the_same_each_time() -> None:
    assert [calls.case(k) for k in range(40)] == [calls.case(k) for k in range(40)]
