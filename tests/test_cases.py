"""Cases of one test are all run; what fails is named."""

from __future__ import annotations

import pytest

import treadle as td
from tests.cases import each

CASES = [pytest.param(k, id=f"{'even' if k % 2 == 0 else 'odd'}-{k}") for k in range(6)]


def groups(test: object) -> list[str]:
    (mark,) = test.pytestmark  # type: ignore[attr-defined]
    assert mark.args[0] == "group"
    return list(mark.args[1])


def test_every_case_is_run_and_what_fails_is_named() -> None:
    seen = []

    @each("k", CASES)
    def tested(k: int, more: str) -> None:
        seen.append(k)
        assert td.zeros(1).dtype == "float32", "an option stays with its case"
        if k == 0:
            td.set_options(dtype="float64")
        assert k < 3, more

    assert groups(tested) == ["even", "odd"]
    with pytest.raises(BaseExceptionGroup) as several:
        tested(group="odd", more="why")
    assert seen == [1, 3, 5]
    assert [e.__notes__ for e in several.value.exceptions] == [
        ["case odd-3"],
        ["case odd-5"],
    ]
    with pytest.raises(AssertionError, match="why") as one:
        tested(group="even", more="why")
    assert seen[3:] == [0, 2, 4] and one.value.__notes__ == ["case even-4"]


def test_a_test_is_skipped_if_all_of_its_cases_are() -> None:
    @each("k", CASES)
    def tested(k: int) -> None:
        if k % 2 or k == 2:
            pytest.skip(f"no {k}")

    tested(group="even")
    with pytest.raises(pytest.skip.Exception, match="no 1"):
        tested(group="odd")
