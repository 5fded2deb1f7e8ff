"""A slice of the campaign over sizes; `python -m tests.fuzz.sizes` runs the rest."""

from __future__ import annotations

import treadle as td
from tests.fuzz.sizes import Outcome, differing


def test_a_program_for_many_sizes_gives_what_is_compiled_for_one() -> None:
    outcome = Outcome()
    for seed in range(4):
        with td.options(engine="native", arena="poison" if seed % 2 else "fast"):
            assert differing(seed, outcome) == ""
    assert outcome.served > 8


def test_a_count_is_no_number_that_stands_in_code() -> None:
    """Of three, as a small number, a quotient by it was multiplied away."""
    with td.options(engine="native"):
        assert differing(99043, Outcome()) == ""
