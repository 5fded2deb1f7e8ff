"""A slice of the campaign of random forests: as rows and node by node."""

from __future__ import annotations

import pytest

from tests.batch.forests import compare

COUNT, KINDS = 4, 12  # .ci/run has more of these kinds


@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_random_forests(part: int, trains: bool) -> None:
    numbers = range(part * COUNT, (part + 1) * COUNT)
    found = [compare(k, KINDS, trains) for k in numbers]
    wrong = {part * COUNT + k: said for k, (said, _) in enumerate(found) if said}
    assert not wrong
    assert sum(batched for _, batched in found) >= COUNT / 2
