"""A program by its key, for those who run it again and again."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any, Protocol

import numpy as np

from treadle.base.types import Type
from treadle.engines.base import Failed
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.translation.programs import Programs
from treadle.graph.claim import Claim, InPlace


class ProgramKeeper(Protocol):
    """The engine that keeps programs, as far as one of them needs it."""

    @property
    def programs(self) -> Programs:
        """By their keys."""

    def known(self, key: tuple[int, ...], leaves: list[int]) -> Linked | None:
        """A program while it is kept, for the thread that is about to run it."""

    def ran(self, linked: Linked) -> None:
        """Note which program this thread is about to run."""


class CachedProgram:
    """A program that is looked up by its key for each run."""

    def __init__(
        self, native: ProgramKeeper, key: tuple[int, ...], leaves: list[int]
    ) -> None:
        self._native, self._key, self._leaves = native, key, leaves
        self._kept: Linked | None = None

    def run(
        self,
        arrays: Sequence[np.ndarray[Any, Any]],
        spent: Set[int],
        held: InPlace | None = None,
        claim: Claim | None = None,
    ) -> dict[int, Any]:
        return self._linked().run(arrays, spent, None, held, claim)

    def begin(
        self,
        arrays: Sequence[np.ndarray[Any, Any]],
        spent: Set[int],
        held: InPlace | None = None,
        claim: Claim | None = None,
    ) -> dict[int, Any]:
        return self._linked().begin(arrays, spent, held, claim)

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of its graph, if it is one of a family."""
        linked = self.linked()
        return () if linked is None else linked.extents

    @property
    def variant(self) -> Any:
        """The common part of programs that differ in numbers alone."""
        linked = self.linked()
        return None if linked is None else linked.variant

    def resized(self, extents: tuple[int, ...]) -> CachedProgram | None:
        """The program of a graph with other extents, if one serves it already."""
        linked = self.linked()
        if linked is None or linked.variant is None:
            return None
        entry = linked.variant.family.known(extents)
        if entry is None:
            return None
        program = CachedProgram(self._native, (), entry[1])
        program._kept = entry[0]
        return program

    @property
    def needs(self) -> Sequence[tuple[int, int]] | None:
        """The needs of the program, as Found has them."""
        return self._linked().needs

    @property
    def types(self) -> Sequence[Type]:
        """The types of its arguments."""
        return self._linked().types

    def small(self) -> Any:
        linked = self.linked()
        if linked is None or linked.small is None:
            return None
        self._kept = linked  # plans lead to its code
        return linked.small

    def linked(self) -> Linked | None:
        """The program, if it is kept: here, where it has no key."""
        if not self._key:
            return self._kept
        entry = self._native.programs.peek(self._key)
        return self._kept if entry is None else entry[0]

    def _linked(self) -> Linked:
        if not self._key:
            assert self._kept is not None
            self._native.ran(self._kept)
            return self._kept
        linked = self._native.known(self._key, self._leaves)
        if linked is None:
            raise Failed
        return linked
