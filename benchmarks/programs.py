"""The program of the native engine that ran last, and what it moves."""

from __future__ import annotations

from typing import Any

from treadle.engines.base import engine

__all__ = ["latest", "moved"]


def latest() -> Any:
    """The linked program that was used last."""
    linked, _ = engine("native").programs.values()[-1]  # type: ignore[attr-defined]
    return linked


def moved(program: Any) -> int:
    """The bytes all steps read and write, each buffer once a step."""
    buffers = program.buffers
    return sum(
        buffers[n].type.nbytes
        for step in program.steps
        for n in {*step.read, *step.written}
    )
