"""What tests of runs have in common."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.runtime import again, steps


def in_parts(patch: pytest.MonkeyPatch) -> None:
    """Have a look at a graph and the run by its plan be two calls."""
    patch.setattr(again, "follow", lambda *request: NotImplemented)


@pytest.fixture
def hits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list with an entry for each step that went by a plan."""
    found: list[Any] = []
    count = again.Plans._count

    def counted(self: again.Plans, key: Any, plan: steps.RunPlan) -> None:
        count(self, key, plan)
        if plan.parts[-1].changes:  # type: ignore[union-attr]
            found.append(None)

    monkeypatch.setattr(again.Plans, "_count", counted)
    return found
