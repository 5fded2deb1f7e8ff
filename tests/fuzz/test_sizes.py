"""A slice of the campaign over sizes; `python -m tests.fuzz.sizes` runs the rest."""

from __future__ import annotations

import treadle as td
from tests.fuzz.sizes import Outcome, differing


def test_a_program_for_many_sizes_gives_what_is_compiled_for_one() -> None:
    outcome = Outcome()
    for seed in range(12):
        with td.options(engine="native", arena="poison" if seed % 2 else "fast"):
            assert differing(seed, outcome) == ""
    assert outcome.served > 25
