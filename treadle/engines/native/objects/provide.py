"""Puts machine code where Python makes nodes, follows plans and enters modules."""

from __future__ import annotations

from treadle.engines.native.objects.call import provide_calls
from treadle.engines.native.objects.make import provide_makers
from treadle.engines.native.objects.noted import provide_noted


def provide_nodes() -> None:
    """Let nodes be made by machine code from here on, with or without an engine."""
    provide_makers()
    provide_calls()
    provide_noted()
