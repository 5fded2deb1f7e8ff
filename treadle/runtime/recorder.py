"""Recorders of runs: told what a run does, so that it can be done again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Protocol

from treadle.autodiff.tape import Tape
from treadle.graph.tensor import Tensor
from treadle.runtime.forests import Reads, Rows


class Recorder(Protocol):
    """A recorder of a run; it keeps no node alive."""

    def program(self, nodes: Sequence[Tensor], keep: Set[int]) -> None:
        """These nodes are about to run, to give those in `keep` their values."""

    def rows(
        self, rows: Rows, reads: Reads[Tensor], tape: Tape | None, again: bool
    ) -> None:
        """A forest has run on what it `reads`; its exits are about to have values, of
        which the recipes are noted if they may be derived `again`."""

    def pulled(self, pull: Tensor, results: Sequence[tuple[int, Tensor]]) -> None:
        """A TapeGradient has run: its results by position."""

    def stood_for(self, nodes: Sequence[Tensor], results: Sequence[Tensor]) -> None:
        """Nodes are about to have the values of results, which have run."""


class _Observers(threading.local):
    """Observers of this thread's runs, called before and after."""

    def __init__(self) -> None:
        self.every: list[Callable[[Sequence[Tensor]], Callable[[], None]]] = []


observers = _Observers()


class _Now(threading.local):
    recorder: Recorder | None = None


_now = _Now()


def recorder() -> Recorder | None:
    """Who is told in this thread."""
    return _now.recorder


@contextmanager
def recording(record: Recorder | None) -> Iterator[None]:
    """Tell this one what is run inside."""
    before, _now.recorder = _now.recorder, record
    try:
        yield
    finally:
        _now.recorder = before
