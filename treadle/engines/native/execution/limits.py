"""Limits of what asynchronous runs may hold."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["NOTHING", "Held", "Limit"]


class Limit(NamedTuple):
    """What all runs of a kind shall hold at most."""

    kind: str
    bytes: int


class Held(NamedTuple):
    """What a run holds until it is over."""

    bytes: int
    limit: Limit


NOTHING = Held(0, Limit("nothing", 0))
