"""Branches and loops whose bodies are native programs: no Python between their steps.

The core (`core/loops.cpp`) goes through the steps: it fills in where the operands of a
body lie in each, runs its records, and gives on what is carried, from block to block
and not copied where that can be. A body has tables of its own as long as those of the
program around it live. Without the core, in poisoned or guarded memory, and where
somebody watches, the op's NumPy rule calls the programs of its bodies (`run.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treadle.core import native
from treadle.engines.native.execution.arena import Arena, Lease
from treadle.engines.native.execution.kept import Packed
from treadle.engines.native.execution.layout import lines
from treadle.engines.native.execution.pool import Pool
from treadle.engines.native.execution.tables import Tables
from treadle.graph.body import Body
from treadle.ops.control import Cond
from treadle.ops.loop import Scan
from treadle.ops.while_loop import While
from treadle.program.program import Fallback

if TYPE_CHECKING:
    from treadle.engines.native.execution.linked import Linked

__all__ = ["Control", "runs_natively"]

HOME, COPIED, STILL, ROW = range(4)  # as in Output of core/loops.cpp
TOTAL = 2  # where a record has its items


class _Kind(NamedTuple):
    """The kind of a branch or loop: its operands and results, by number."""

    name: str
    bodies: tuple[Body, ...]
    operands: tuple[tuple[int, ...], ...]  # of each body its own
    carries: int = 0
    scanned: int = 0
    draws: int = 0


def _kind(op: Any, count: int) -> _Kind | None:
    """How an op with so many operands runs its bodies."""
    if isinstance(op, Scan):
        every = tuple(range(count))
        return _Kind("scan", (op.body,), (every,), op.carries, op.scanned, op.draws)
    if isinstance(op, Cond):
        operands = tuple(range(1, 1 + op.split)), tuple(range(1 + op.split, count))
        return _Kind("branch", (op.then, op.otherwise), operands)
    if isinstance(op, While):
        c, k = op.carries, op.carries + op.tested
        operands = (*range(c), *range(k, count)), tuple(range(k))
        return _Kind("while", (op.body, op.test), operands, c, 0, op.draws)
    return None


def runs_natively(linked: Linked, k: int) -> bool:
    """Whether the core can run a step: a branch or loop of native programs alone."""
    step = linked.program.steps[k]
    if native is None or not isinstance(step, Fallback) or not step.bodies:
        return False
    buffers = linked.program.buffers
    if any(buffers[n].order for n in (*step.read, *step.written)):
        return False
    if _kind(step.op, len(step.read)) is None:
        return False
    return all(_is_native(inner) for inner, _ in linked.inner[k].values())


def _is_native(body: Linked) -> bool:
    program = body.program
    results = [n for _, n, _ in program.results]
    if [k for k, _, _ in program.results] != list(range(len(results))):
        return False
    if any(program.buffers[n].order for n in (*program.arguments, *results)):
        return False
    if any(program.buffers[n].place == "arena" for n in results):
        return False
    return all(piece.records or runs_natively(body, piece.first) for piece in body.runs)


@dataclass
class _Frame:
    """A body in the runs of a branch or loop: its tables, and memory for a run."""

    linked: Linked
    tables: Tables
    beside: list[int] = field(default_factory=list)  # bytes of second blocks of carries
    packed: list[Packed] = field(default_factory=list)  # of what no step changes
    places: Any = None  # of the second blocks, for a run

    @property
    def more(self) -> int:
        """The bytes of memory that no plan knows, beside scratch memory."""
        return sum(map(lines, [*self.beside, *[p.bytes for p in self.packed]]))

    def place(self, arena: Arena, threads: Pool) -> Lease:
        """Memory for a run, and the addresses of what lies there."""
        linked, addresses = self.linked, self.tables.addresses
        scratch = lines(linked.scratch * threads.threads)
        lease = arena.lease(linked.sizes, linked.plan, scratch + self.more)
        addresses[-2] = lease.scratch
        addresses[linked.placed] = lease.addresses[linked.places]
        at = lease.scratch + scratch
        for k, size in enumerate(self.beside):
            self.places[k] = at
            at += lines(size)
        for packed in self.packed:
            addresses[packed.workspace] = at
            at += lines(packed.bytes)
        self.tables.status.value = 0
        return lease


class Control:
    """A branch or loop of a program, for one run of it at a time."""

    def __init__(self, linked: Linked, k: int, keeps: bool) -> None:
        """Step `k` of a program; whether it `keeps` packed weights between turns."""
        self._frames: list[_Frame] = []
        self._native = native.control(_described(linked, k, keeps, self._frames))

    def run(self, addresses: Any, arena: Arena, threads: Pool) -> bool:
        """Run it; whether no step found anything wrong."""
        leases: list[Lease] = []
        try:
            for frame in self._frames:
                leases.append(frame.place(arena, threads))
            succeeded: bool = native.run_control(
                self._native, addresses, threads.entry()
            )
            return succeeded
        finally:
            for lease in leases:
                lease.release()


def _described(linked: Linked, k: int, keeps: bool, frames: list[_Frame]) -> Any:
    """A branch or loop as the core reads it, and the frames of all that is in it."""
    step: Any = linked.program.steps[k]
    op, buffers = step.op, linked.program.buffers
    kind = _kind(op, len(step.read))
    assert kind is not None
    bodies, outputs, more = [], [], list[int]()
    for body, operands in zip(kind.bodies, kind.operands, strict=True):
        inner, inputs = linked.inner[k][body.number]
        frame = _Frame(inner, Tables(inner))
        frames.append(frame)
        arguments = _given(inner, inputs, operands, frame.tables)
        stays = range(kind.carries + kind.scanned, len(step.read) - kind.draws)
        if keeps and kind.name != "branch":
            fixed = {n for n, x in arguments.items() if x in stays}
            frame.packed = [p for p in inner.kept.packed if p.source in fixed]
        if kind.name != "while" or body is op.body:
            transfers = _outputs(inner, arguments, kind, frame)
        else:
            transfers, (_, verdict, _) = [], inner.program.results[0]
            is_written = inner.program.buffers[verdict].place == "result"
            more = [kind.carries, kind.draws, verdict, int(is_written)]
        outputs.append(transfers)
        bodies.append(_unit(frame, list(arguments.items()), keeps, frames))
    if isinstance(op, Scan):
        rows = step.read[op.carries : op.carries + op.scanned]
        strides = [buffers[n].type.nbytes // max(op.length, 1) for n in rows]
        more = [op.carries, op.draws, op.length, int(op.reverse), op.scanned, *strides]
    return kind.name, list(step.read), list(step.written), bodies, outputs, more


def _given(
    inner: Linked, inputs: Sequence[Any], operands: Sequence[int], tables: Tables
) -> dict[int, int]:
    """The buffers of a body's arguments, with the operands of the op that these are;
    the addresses of constants are filled in."""
    buffers: dict[int, int] = {}
    constants = []
    for n, x in zip(inner.program.arguments, inputs, strict=True):
        if isinstance(x, int):
            buffers[n] = operands[x]
        else:
            array = np.asarray(x, order="C")
            constants.append(array)
            tables.addresses[n] = array.ctypes.data
    tables.constants = constants
    return buffers


def _outputs(
    inner: Linked, arguments: Mapping[int, int], kind: _Kind, frame: _Frame
) -> list[tuple[int, int, int, int, int]]:
    """What becomes of each output of a body, as the core reads it: the kind, buffer,
    bytes, the output whose rows it is, and the number of its second block."""
    results = [n for _, n, _ in inner.program.results]
    buffers = inner.program.buffers
    home: dict[int, int] = {}  # where a buffer is written: a stack if there is one
    for k in (*range(kind.carries, len(results)), *range(kind.carries)):
        if buffers[results[k]].place == "result":
            home.setdefault(results[k], k)
    transfers = []
    for k, n in enumerate(results):
        size, other, way = buffers[n].type.nbytes, 0, COPIED
        if home.get(n) == k:
            way = HOME
        elif k < kind.carries and arguments.get(n) == k:
            way = STILL
        elif k < kind.carries <= home.get(n, -1):
            way, other = ROW, home[n]
        second = k < kind.carries and way in (HOME, COPIED)
        transfers.append((way, n, size, other, len(frame.beside) if second else -1))
        if second:
            frame.beside.append(size)
    return transfers


def _unit(
    frame: _Frame, arguments: list[tuple[int, int]], keeps: bool, frames: list[_Frame]
) -> Any:
    """A body as the core reads it."""
    linked, tables = frame.linked, frame.tables
    frame.places = np.zeros(max(len(frame.beside), 1), np.int64)
    later = linked.records
    idle = [r for packed in frame.packed for r in packed.records]
    if idle:
        later = linked.records.copy()
        later[idle, TOTAL] = 0
    pieces = [
        (p.record, p.records, None)
        if p.records
        else (0, 0, _described(linked, p.first, keeps, frames))
        for p in linked.runs
    ]
    numbers = tables.addresses, tables.table, linked.slots, linked.which, linked.shifts
    records = linked.records.ravel(), later.ravel()
    return *numbers, *records, frame.places, tables.flag, pieces, arguments
