"""Limits of what asynchronous runs may hold."""

from __future__ import annotations

from typing import NamedTuple


class Limit(NamedTuple):
    """The limit of memory that all runs of a kind may hold."""

    kind: str
    bytes: int


class Held(NamedTuple):
    """The memory that a run holds until it is over."""

    bytes: int
    limit: Limit


NOTHING = Held(0, Limit("nothing", 0))
