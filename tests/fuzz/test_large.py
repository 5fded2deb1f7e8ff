"""A slice of the campaign; `python -m tests.fuzz.large` runs the rest."""

from __future__ import annotations

import pytest

from tests.fuzz.large import differing


# 545: a fold over an axis of many and one of extent 1, which has no parts.
@pytest.mark.parametrize("number", [*range(12), 545])
def test_what_counts_as_large_is_computed_as_the_reference_does(number: int) -> None:
    assert differing(number) == ""
