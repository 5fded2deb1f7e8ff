"""What tests of engines have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.engines.gpus import missing
from treadle.engines.base import engine
from treadle.engines.native.execution import run
from treadle.engines.native.execution.pool import Pool


@pytest.fixture
def take(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Run on so many threads: by options there are no more than cores."""
    pools = {count: Pool(count) for count in (1, 2, 4)}

    def given(count: int) -> None:
        monkeypatch.setattr(run, "pool", lambda threads=0: pools[threads or count])

    return given


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("gpu"):
        if reason := missing(*mark.args):
            pytest.skip(reason)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of nodes of what the native engine compiles from now on."""
    native: Any = engine("native")
    counts: list[int] = []
    translate = native._translated

    def counted(wanted: Any, choose: Any) -> Any:
        counts.append(len(wanted.structure.nodes))
        return translate(wanted, choose)

    monkeypatch.setattr(native, "_translated", counted)
    return counts
