"""Serials: the creation order of nodes, which is a topological order."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

from treadle.core import native
from treadle.graph.origin import capture, describe

next_serial: Callable[[], int] = itertools.count().__next__
PENDING_LIMIT = 1_000_000
LOOK = 0xFFFF  # how often a new node looks back at the last run, by its serial
_last_run = 0  # the serial at which any thread last ran something


def warn_if_growing(node: Any) -> None:
    """Warn where a loop builds on and on and nothing is ever asked for."""
    if made_since_run(node) > PENDING_LIMIT:
        mark_run()
        warnings.warn(
            f"{PENDING_LIMIT:,} nodes were built and none was run, at "
            f"{describe(capture())}; ask for a value (loss.numpy(), opt.step(loss)) "
            "in the loop, or td.stop_gradient what is carried on",
            ResourceWarning,
            stacklevel=2,
        )


def mark_run() -> None:
    """Note that something ran now."""
    global _last_run
    _last_run = next_serial()


def made_since_run(node: Any) -> int:
    """How many nodes were made from the last run to this one."""
    made: int = node.serial - _last_run
    return made


if native is not None:
    next_serial, mark_run = native.next_serial, native.mark_run
    made_since_run = native.made_since_run


def newest_serial() -> int:
    """A serial between the nodes made so far and those to come."""
    return next_serial()
