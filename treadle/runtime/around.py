"""The surroundings of a run that decide its result, as a key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from treadle.base import events
from treadle.base.options import Modes, modes
from treadle.engines.base import of_recording, runner
from treadle.graph.frame import top
from treadle.graph.tensor import watchers
from treadle.graph.thread import ThreadState, native_calls
from treadle.runtime.recorder import observers


def _settings() -> tuple[Any, ...] | None:
    """The settings beside a graph that decide its run; None where it makes more than
    values, or somebody looks on."""
    now = modes.get()
    busy = observers() or events.watchers or watchers or of_recording.get()
    if now.around is None or busy:
        return None
    frame = top()
    if frame.tracing or (frame.versions and not frame.alone()):
        return None
    return now.around if runner(now)[1] else None


settings: Callable[[], tuple[Any, ...] | None] = _settings
if native_calls is not None:
    native_calls.bind_settings(
        _settings, Modes, ThreadState, of_recording, events.watchers, watchers
    )
    settings = native_calls.settings
