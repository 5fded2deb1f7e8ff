"""Bodies for n rows on a device: programs whose arguments and results lie anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from treadle.base.arrays import Numbers
from treadle.base.caches import Cache, lazy
from treadle.base.types import Type
from treadle.engines.gpu.driver import UnsupportedKernelError
from treadle.engines.gpu.linked import DeviceLinked
from treadle.engines.gpu.memory import DeviceBlocks
from treadle.engines.gpu.steps import ReadyStep
from treadle.engines.native.forest.bases import ARENA, STATUS
from treadle.engines.native.forest.compiled import needs_of
from treadle.engines.native.forest.parts import TranslatedBody
from treadle.engines.native.translation.translate import Target
from treadle.graph.body import Body
from treadle.graph.frame import tracing
from treadle.program.program import Fallback

NONE = np.zeros(0, np.int64)
KEPT = 1024  # row counts of a body
Where = Any  # an address as `bases` has them, or the value of a constant


class DeviceBody:
    """A body for one number of rows as launches.

    `copied` are the outputs that lie where an argument, a constant or an output before
    lies, and are copied from there.
    """

    def __init__(self, body: Body, store: DeviceBlocks, target: Target) -> None:
        part = TranslatedBody(body, lambda drafts: next(drafts).build(), target)
        program = self.program = part.made
        self.possible = not any(isinstance(s, Fallback) for s in program.steps)
        self.records = len(program.steps)
        if not self.possible:
            return
        self.linked = DeviceLinked(program, store)
        order: Any = part.order
        self.needs = needs_of(self.linked.needs, order) if self.linked.checks else ()
        self._arguments: list[tuple[int, int]] = []
        self._fixed: dict[int, Where] = dict(self.linked.constants)
        for k, number in zip(order, program.arguments, strict=True):
            if isinstance(k, int):
                self._arguments.append((number, k))
            else:
                t = Type(k.shape, program.buffers[number].type.dtype)
                self._fixed[number] = store.copy_in(k, t, k)
        self._fixed |= {n: ARENA + offset for n, offset in self.linked.offsets}
        where = [n for _, n, _ in program.results]
        self.results = [where[k] for k in part.outputs]
        self.copied = [
            k
            for k, n in enumerate(self.results)
            if program.buffers[n].place != "result" or n in self.results[:k]
        ]

    def placed(
        self, arguments: Numbers, results: Numbers
    ) -> tuple[list[Where], list[tuple[ReadyStep, list[Where]]]]:
        """Where all buffers lie, and the launches with theirs, for the addresses of
        arguments and results."""
        places: list[Where] = [None] * len(self.program.buffers)
        for n, k in self._arguments:
            places[n] = int(arguments[k])
        for k, n in enumerate(self.results):
            if k not in self.copied:
                places[n] = int(results[k])
        for n, where in self._fixed.items():
            places[n] = where
        launches = []
        for ready in self.linked.ready.values():
            own = [places[n] for n in ready.buffers]
            if not ready.groups or (ready.copies and own[0] == own[-1]):
                continue
            launches.append((ready, own + [STATUS] * ready.checks))
        return places, launches


class DeviceRows:
    """A body for any number of rows."""

    def __init__(
        self, make: Callable[[int], Body], store: DeviceBlocks, target: Target
    ) -> None:
        self._make, self._store, self._target = make, store, target
        self._known: dict[int, DeviceBody | None] = {}

    def at(self, n: int) -> tuple[DeviceBody, Numbers]:
        """The launches for n rows."""
        body = self._at(n)
        assert body is not None, "asked for where it is possible"
        return body, NONE

    def _at(self, n: int) -> DeviceBody | None:
        if n not in self._known:
            with tracing("rows"):
                try:
                    body = DeviceBody(self._make(n), self._store, self._target)
                    self._known[n] = body if body.possible else None
                except UnsupportedKernelError:
                    self._known[n] = None
            if len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
        return self._known[n]

    @lazy
    def _records(self) -> int:
        body = self._at(1)
        return 1 if body is None else body.records

    def records(self) -> int:
        """The launches of one row by itself."""
        return self._records

    def possible(self, counts: Numbers) -> bool:
        """Return True if there are kernels for these numbers of rows."""
        return all(self._at(n) is not None for n in dict.fromkeys(counts.tolist()))

    def alike(self, counts: Numbers) -> Iterator[tuple[DeviceBody, Numbers, Any]]:
        """The launches for each number of rows, and which of the counts have it."""
        for n in dict.fromkeys(counts.tolist()):
            (members,) = np.nonzero(counts == n)
            yield self.at(n)[0], NONE, members


class DeviceBodies:
    """The bodies of rows that a device has kernels of."""

    LIMIT = 512

    def __init__(self, store: DeviceBlocks, target: Target) -> None:
        self.store, self._target = store, target
        self._known: Cache[Any, DeviceRows] = Cache(
            f"bodies by rows on {store.driver.device}", self.LIMIT
        )

    def at(self, key: Any, make: Callable[[int], Body]) -> DeviceRows:
        """The body of a key by rows; `make` has it for a number of them."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = DeviceRows(make, self.store, self._target)
        return known
