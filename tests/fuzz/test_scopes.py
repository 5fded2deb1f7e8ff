"""A slice of the campaign over scopes; `python -m tests.fuzz.scopes` runs the rest."""

from __future__ import annotations

import pytest

from tests.fuzz.scopes import differing


@pytest.mark.parametrize("number", [*range(5), 39, 74, 349])
def test_what_was_run_before_in_scopes_changes_nothing(number: int) -> None:
    assert differing(number) == ""
