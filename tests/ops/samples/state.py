"""Samples of the ops of ops.state, and calls that they refuse."""

from __future__ import annotations

from typing import Any

from tests.ops.sampling import Mistake, mistakes
from treadle.base.errors import ArgumentError
from treadle.ops.state import After, sequential


@mistakes(After)
def after_mistakes(cls: Any) -> list[Mistake]:
    nothing = Mistake(lambda: sequential([]), ArgumentError, "nothing")
    return [nothing]
