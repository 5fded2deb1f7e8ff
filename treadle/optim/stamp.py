"""The stamp that moves when something changes by which optimizers make their steps."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

from treadle.base.changes import Changes
from treadle.graph.look import Owned
from treadle.graph.variable import Variable

stamp = Changes()
_numbers = itertools.count(1)


def move_stamp() -> None:
    """Have optimizers look anew at what decides their steps beside a graph."""
    stamp.now = next(_numbers)


class Stamped:
    """An object whose attributes decide steps; a rate is one only where it was no
    number, or is none: else its Variable has it."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name != "lr":
            move_stamp()


class Decisions(NamedTuple):
    """What decides a step beside its graph, as of a stamp: whether all rates are
    `numbers`, the parameters of all groups (None: one takes the rest), the sign of its
    update, and the numbers of its Variables."""

    stamp: int
    numbers: bool
    listed: tuple[Variable, ...] | None
    sign: tuple[Any, ...] | None
    owned: Owned
