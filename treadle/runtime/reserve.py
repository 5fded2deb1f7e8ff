"""The memory that `td.options(reserve=)` keeps ready for runs."""

from __future__ import annotations

import logging
import threading

from treadle.base.options import Options, current, on_change
from treadle.base.sizes import as_text
from treadle.engines.base import engine

__all__ = ["begin"]

log = logging.getLogger("treadle")


class _Reserve(threading.local):
    """What a thread's options have reserved, and what holds it."""

    bytes = 0
    held: object = None


_here = _Reserve()


def _watch(options: Options) -> None:
    """Reserve what the options say; what was reserved before is given back first."""
    before, wanted = _here.bytes, options.reserve
    if wanted == before:
        return
    _here.bytes, _here.held = 0, None
    if before:
        log.info("workspace: gave back the %s reserved", as_text(before))
    if wanted:
        held = engine(options.engine).reserve(wanted)
        if held is not None:  # an engine that plans memory
            _here.bytes, _here.held = wanted, held
            log.info(
                "workspace: reserved %s (%s bytes)", as_text(wanted), f"{wanted:,}"
            )


def begin() -> None:
    """Reserve what TREADLE_RESERVE says."""
    _watch(current())


on_change(_watch)
