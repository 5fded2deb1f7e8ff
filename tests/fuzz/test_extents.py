"""A slice of the campaign over extents; `python -m tests.fuzz.extents` has the rest."""

from __future__ import annotations

import pytest

from tests.fuzz.extents import differing


@pytest.mark.parametrize("number", range(24))
def test_graphs_of_any_extents_agree_in_protected_memory(number: int) -> None:
    assert differing(number) == ""
