"""What a program keeps for the gradient that is asked for after it.

The first gradient after a value computes again what it reads. It tells which nodes
these were; from then on the program that made the value keeps them, as long as
gradients follow. So who never derives keeps nothing.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from treadle.engines.native.keys import Structure

__all__ = ["Residuals"]

Key = tuple[int, ...]
PROGRAMS = 256
BYTES = 256 << 20
IDLE = 8  # runs without a gradient after which nothing is kept any more
NOTE = "program"  # the mark of a value: the key it was made under, and the places


@dataclass
class _Wish:
    """Places of nodes to be kept, and how many runs no gradient has followed."""

    places: set[int] = field(default_factory=set)
    idle: int = 0


class Residuals:
    """The nodes to be kept, by the key of the program that makes them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wishes: OrderedDict[Key, _Wish] = OrderedDict()

    def kept(self, key: Key, made: Structure) -> set[int]:
        """The serials of what a run is to keep besides what is asked for."""
        if not self._wishes:
            return set()
        with self._lock:
            wish = self._wishes.get(key)
            if wish is None:
                return set()
            wish.idle += 1
            if wish.idle > IDLE:
                del self._wishes[key]
                return set()
            return {made.nodes[k].serial for k in wish.places}

    def note(self, key: Key, made: Structure, keep: Iterable[int]) -> None:
        """Tell evaluated nodes how they were made, for a gradient to come."""
        for serial in keep:
            node = made.nodes[made.place[serial]]
            if node.inputs:
                node.mark = {**(node.mark or {}), NOTE: (key, made.place)}

    def ask(self, made: Structure, wanted: Iterable[int]) -> None:
        """After a gradient: what was computed again is kept the next time."""
        again = [made.nodes[k].serial for k in wanted]
        size = sum(made.nodes[k].type.nbytes for k in wanted)
        for serial in made.recipes:
            mark = made.nodes[made.place[serial]].mark
            if not mark or NOTE not in mark:
                continue
            key, places = mark[NOTE]
            own = {places[s] for s in again if s in places}
            if size > BYTES:  # more than is kept: it is computed again each time
                continue
            with self._lock:
                wish = self._wishes.get(key)
                if wish is None and own:
                    wish = self._wishes[key] = _Wish()
                    if len(self._wishes) > PROGRAMS:
                        self._wishes.popitem(last=False)
                if wish is not None:
                    wish.places |= own
                    wish.idle = 0

    def clear(self) -> None:
        """Keep nothing until it is asked for again."""
        with self._lock:
            self._wishes.clear()
