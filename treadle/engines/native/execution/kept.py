"""Weights in the form that kernels read, kept from run to run while they are the same.

A step may begin by copying its weights into panels. When a run gets the very array the
run before had, the panels get memory of their own, and the runs after it leave the copy
out. They go when another array comes or another value, as after each step of training,
or when the array is gone: what changes at every run is never kept.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.graph.claim import turn_of

__all__ = ["Kept", "Packed", "Panels"]

Array = np.ndarray[Any, Any]
Lend = Callable[[tuple[int], type], tuple[Array, int]]


@dataclass(frozen=True)
class Packed:
    """A workspace of `bytes` that `records` fill from the argument `source` alone."""

    workspace: int
    source: int
    bytes: int
    records: tuple[int, ...]


class Kept:
    """The packed weights of one program; several threads may run it at a time."""

    def __init__(self, packed: Sequence[Packed]) -> None:
        self.packed = packed
        # By workspace: the array of the last run, which value that had, and what was
        # packed of it.
        self._known: dict[int, tuple[weakref.ref[Array], int, Array | None]] = {}

    def place(
        self,
        arrays: Mapping[int, Array],
        changing: Collection[int],
        addresses: Array,
        lend: Lend,
    ) -> Panels:
        """Where the workspaces of a run lie that need not be packed, or only once more.

        Arguments in `changing` are overwritten by the run.
        """
        result = Panels(self)
        for one in self.packed:
            if one.source in changing or arrays[one.source].flags.writeable:
                self._known.pop(one.workspace, None)
                continue
            x = arrays[one.source]
            last, turn, panels = self._known.get(one.workspace, (None, 0, None))
            if last is None or last() is not x or turn != turn_of(x):
                known = self._watched(one.workspace, x), turn_of(x), None
                self._known[one.workspace] = known
            else:
                if panels is None:
                    panels, address = lend((one.bytes,), np.uint8)
                    result.fresh.append((one.workspace, last, panels))
                else:
                    address = panels.ctypes.data
                    result.ready += one.records
                result.held.append(panels)
                addresses[one.workspace] = address
        return result

    def _watched(self, workspace: int, x: Array) -> weakref.ref[Array]:
        """A reference to an array whose panels go when it does."""
        reference = weakref.ref(self)

        def forget(gone: weakref.ref[Array]) -> None:
            kept = reference()
            if kept and kept._known.get(workspace, (None,))[0] is gone:
                kept._known.pop(workspace, None)

        return weakref.ref(x, forget)

    def keep(self, fresh: Sequence[tuple[int, weakref.ref[Array], Array]]) -> None:
        """Panels that a run has filled, for those to come."""
        for workspace, of, panels in fresh:
            known = self._known.get(workspace)
            if known is not None and known[0] is of:
                self._known[workspace] = of, known[1], panels


class Panels:
    """The packed panels that one run uses: they stay while it does."""

    def __init__(self, kept: Kept) -> None:
        self.kept = kept
        self.ready: list[int] = []  # records that have nothing to do
        self.held: list[Array] = []
        self.fresh: list[tuple[int, weakref.ref[Array], Array]] = []

    def done(self) -> None:
        """The run went well: what it packed is good."""
        self.kept.keep(self.fresh)
