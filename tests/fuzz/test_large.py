"""A slice of the campaign; `python -m tests.fuzz.large` runs the rest."""

from __future__ import annotations

import pytest

from tests.fuzz.large import differing


@pytest.mark.parametrize("number", range(12))
def test_what_counts_as_large_is_computed_as_the_reference_does(number: int) -> None:
    assert differing(number) == ""
