"""Early results: somebody is told of values while the run that makes them goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Tell = Callable[[int, Mapping[int, Any]], object]
Groups = Sequence[Sequence[int]]


class Listener:
    """Nodes in groups, by serial, and who is told when the values of a group are there.

    A plan has numbers below zero for what it makes of no node. `tell` is called with
    the number of the group and its arrays by serial, in the
    thread of the run, which goes on after. An engine tells what it can: groups that one
    program makes, but of none that is so small that the core runs it at once. A run
    that fails, and is done again in another way, tells again. Of a plan the groups may
    follow from what it is about: `grouped` has them before its run.
    """

    def __init__(
        self,
        groups: Groups,
        tell: Tell,
        grouped: Callable[[Any], Groups] | None = None,
    ) -> None:
        self.groups, self._grouped = groups, grouped
        self.tell = tell
        self._serials = {serial for group in groups for serial in group}
        self._slots: dict[int, int] = {}
        self.results: dict[int, int] = {}  # of the program that is to run, by serial

    def begin(self, about: Any) -> None:
        """Note which groups a run is to make that is about this."""
        if self._grouped is not None and about is not None:
            self.groups = self._grouped(about)
            self._serials = {serial for group in self.groups for serial in group}

    def place(self, serials: Mapping[int, int]) -> None:
        """Note by slot which nodes have what a plan keeps there."""
        wanted = self._serials
        self._slots = {k: serial for k, serial in serials.items() if serial in wanted}

    def expect(self, slots: Sequence[tuple[int, int]]) -> None:
        """Note which results of the program that is about to run go to which slots."""
        by_slot = self._slots
        self.results = {
            by_slot[slot]: number for number, slot in slots if slot in by_slot
        }

    def number(self, numbers: Mapping[int, int]) -> None:
        """Note the numbers of nodes by serial in the program that is about to run."""
        self.results = {s: numbers[s] for s in self._serials if s in numbers}


_now: ContextVar[Listener | None] = ContextVar("listener", default=None)


def listener() -> Listener | None:
    """The listener for early results in this thread."""
    return _now.get()


def announced(numbers: Mapping[int, int]) -> bool:
    """Whether somebody listens, who then knows the numbers of nodes by serial."""
    active = _now.get()
    if active is not None:
        active.number(numbers)
    return active is not None


@contextmanager
def listening(one: Listener | None) -> Iterator[None]:
    """Tell this one of the early results of what is run inside."""
    before = _now.set(one)
    try:
        yield
    finally:
        _now.reset(before)
