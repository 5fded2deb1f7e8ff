"""What tests of ranks have in common."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.jobs import close_ranks, missing


@pytest.fixture(scope="session")
def mpi() -> None:
    """Two ranks can be started here, or a test is skipped."""
    if reason := missing():
        pytest.skip(reason)


@pytest.fixture(scope="session", autouse=True)
def _ranks() -> Iterator[None]:
    """Ranks that wait for the next program end with the session."""
    yield
    close_ranks()
