"""Serials: the creation order of nodes, which is a topological order."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

from treadle.core import native
from treadle.graph.origin import capture, describe

next_serial: Callable[[], int] = itertools.count().__next__
if native is not None:
    next_serial = native.next_serial
PENDING_LIMIT = 1_000_000
LOOK = 0xFFFF  # how often a new node looks back at the last run, by its serial
last_run = 0  # the serial at which any thread last ran something


def warn_if_growing(node: Any) -> None:
    """Warn where a loop builds on and on and nothing is ever asked for."""
    global last_run
    if node.serial - last_run > PENDING_LIMIT:
        last_run = node.serial
        warnings.warn(
            f"{PENDING_LIMIT:,} nodes were built and none was run, at "
            f"{describe(capture())}; ask for a value (loss.numpy(), opt.step(loss)) "
            "in the loop, or td.stop_gradient what is carried on",
            ResourceWarning,
            stacklevel=2,
        )


def mark_run() -> None:
    """Note that something ran now."""
    global last_run
    last_run = next_serial()


def newest_serial() -> int:
    """A serial between the nodes made so far and those to come."""
    return next_serial()
