"""A slice of the campaign over loops; `python -m tests.fuzz.loops` runs the rest."""

from __future__ import annotations

import pytest

from tests.fuzz.loops import differing

ENDING = 20039, 20108, 20123, 20153  # a region of steps side by side ends with a loop


@pytest.mark.parametrize("seed", (*range(3), *ENDING))
def test_loops_are_what_their_rule_is(seed: int) -> None:
    assert differing(seed, seed % 3) == ""
