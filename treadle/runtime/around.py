"""The surroundings of a run that decide its result, as a key."""

from __future__ import annotations

from typing import Any

from treadle.base import events
from treadle.base.options import modes
from treadle.engines.base import engine
from treadle.graph.frame import top
from treadle.graph.tensor import watchers
from treadle.runtime.recorder import observers


def settings() -> tuple[Any, ...] | None:
    """The settings beside a graph that decide its run; None where it makes more than
    values, or somebody looks on."""
    frame, around = top(), modes.get()
    now = around.options
    if frame.tracing or observers.every or events.watchers:
        return None
    if not frame.alone():
        return None
    if watchers or now.eager or now.check or now.check_numerics:
        return None
    if not engine(now.engine).plans:
        return None
    return now.compilation, around.no_grad > 0
