"""Records of a compilation: rules that fired, sizes and times of stages."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from treadle.base.events import span, watchers
from treadle.graph.tensor import Tensor
from treadle.rewrite.rule import Rule


@dataclass(frozen=True)
class Fired:
    """A rule that was applied: what it found, and what it put in its place."""

    rule: Rule
    before: Tensor
    after: Tensor


@dataclass(frozen=True)
class Sized:
    """The size of a graph after a stage."""

    stage: str
    nodes: int
    edges: int


@dataclass
class Record:
    """The stages of one compilation with their seconds, and the rules applied.

    `sizes` begins with the graph as it was given.
    """

    stages: list[tuple[str, float]] = field(default_factory=list)
    sizes: list[Sized] = field(default_factory=list)
    fired: list[Fired] = field(default_factory=list)
    rewritten: tuple[Tensor, ...] = ()  # the graph when no rule fits it any more


class _Recording(threading.local):
    record: Record | None = None


_recording = _Recording()


@contextmanager
def recorded() -> Iterator[Record]:
    """A record of what this thread compiles within."""
    before, _recording.record = _recording.record, Record()
    try:
        yield _recording.record
    finally:
        _recording.record = before


def recording() -> Record | None:
    """The record this thread writes, if there is one."""
    return _recording.record


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Time what is done within as a stage of the way, if somebody wants to know."""
    record = recording()
    if record is None and not watchers:
        yield
        return
    start = time.perf_counter()
    with span(name, "compile"):
        yield
    if record is not None:
        record.stages.append((name, time.perf_counter() - start))


def sized(name: str, nodes: Sequence[Tensor]) -> None:
    """Note how large the graph of these nodes is, if there is a record."""
    record = recording()
    if record is not None:
        edges = sum(len(node.inputs) for node in nodes)
        record.sizes.append(Sized(name, len(nodes), edges))


def fired(rule: Rule, before: Tensor, after: Tensor) -> None:
    """Note that a rule was applied, if there is a record."""
    record = recording()
    if record is not None:
        record.fired.append(Fired(rule, before, after))
