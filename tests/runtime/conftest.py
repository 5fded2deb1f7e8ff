"""What tests of runs have in common."""

from __future__ import annotations

from typing import Any

import pytest

from treadle.graph import look
from treadle.runtime import steps


@pytest.fixture
def hits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list with an entry for each step that went by a plan."""
    found: list[Any] = []
    run = steps.RunPlan.run

    def counted(self: steps.RunPlan, look: look.Look) -> Any:
        done = run(self, look)
        if self.parts[-1].changes:  # type: ignore[union-attr]
            found.append(None)
        return done

    monkeypatch.setattr(steps.RunPlan, "run", counted)
    return found
