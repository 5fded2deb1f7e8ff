"""The memory that `td.options(reserve=)` keeps ready for runs."""

from __future__ import annotations

import logging
from contextvars import ContextVar

from treadle.base.options import Options, current, on_change
from treadle.base.sizes import as_text
from treadle.engines.base import engine

log = logging.getLogger("treadle")


# The bytes that a task's options have reserved, and what holds them.
_reserved: ContextVar[tuple[int, object]] = ContextVar("reserved", default=(0, None))


def _watch(before: Options, options: Options) -> None:
    """Reserve what the options say; what was reserved before is given back first."""
    _reserve(options)


def _reserve(options: Options) -> None:
    before, wanted = _reserved.get()[0], options.reserve  # no name for what holds it
    if wanted == before:
        return
    _reserved.set((0, None))
    if before:
        log.info("workspace: gave back the %s reserved", as_text(before))
    if wanted:
        held = engine(options.engine).reserve(wanted)
        if held is not None:  # an engine that plans memory
            _reserved.set((wanted, held))
            log.info(
                "workspace: reserved %s (%s bytes)", as_text(wanted), f"{wanted:,}"
            )


def begin() -> None:
    """Reserve what TREADLE_RESERVE says."""
    _reserve(current())


on_change(_watch)
