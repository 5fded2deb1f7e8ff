"""Puts machine code where Python makes nodes and follows the plans of calls."""

from __future__ import annotations

from treadle.engines.native.objects.call import provide_calls
from treadle.engines.native.objects.make import provide_makers


def provide_nodes() -> None:
    """Let nodes be made by machine code from here on, with or without an engine."""
    provide_makers()
    provide_calls()
