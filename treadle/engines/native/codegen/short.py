"""Vector loops whose extent decides their lanes."""

from __future__ import annotations

from dataclasses import replace

from treadle.loops.kernel import Loop, statements


def in_short(loop: Loop) -> Loop | None:
    """The vector loop within a loop, or itself, whose extent decides its lanes."""
    inside = (s for s in statements((loop,)) if isinstance(s, Loop) and s.short_lanes)
    return next(inside, None)


def with_lanes(loop: Loop, is_short: bool) -> Loop:
    """The loop with the lanes that its vector loops have by their extent."""
    body = [with_lanes(s, is_short) if isinstance(s, Loop) else s for s in loop.body]
    lanes = loop.short_lanes if is_short and loop.short_lanes else loop.lanes
    return replace(loop, body=tuple(body), lanes=lanes, short_lanes=0)
