"""Recorders of runs: told what a run does, so that it can be done again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager
from typing import Protocol

from treadle.autodiff.tape import Tape
from treadle.graph.tensor import Tensor
from treadle.graph.thread import thread_state
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


def observers() -> list[Callable[[Sequence[Tensor]], Callable[[], None]]]:
    """Observers of this thread's runs, called before and after."""
    return thread_state().observers


def recorder() -> Recorder | None:
    """Who is told in this thread."""
    record: Recorder | None = thread_state().recorder
    return record


@contextmanager
def recording(record: Recorder | None) -> Iterator[None]:
    """Tell this one what is run inside."""
    state = thread_state()
    before, state.recorder = state.recorder, record
    try:
        yield
    finally:
        state.recorder = before
