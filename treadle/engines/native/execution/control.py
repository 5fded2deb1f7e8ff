"""Branches and loops whose bodies are native programs: a record of the program around.

The core (`core/loops.cpp`) goes through the steps: it fills in where the operands of a
body lie in each, runs its records, and gives on what is carried, from block to block
and not copied where that can be. What a run fills in, the arenas of the bodies and
what is packed once lie in a workspace of the step. Without the core, in poisoned or
guarded memory, and where somebody watches, the op's NumPy rule calls the programs of
its bodies (`run.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treadle.core import native
from treadle.engines.native.codegen.code import Code
from treadle.engines.native.execution.kept import PackedBuffers
from treadle.engines.native.execution.layout import lines
from treadle.graph.body import Body
from treadle.ops.control import Cond
from treadle.ops.loop import Scan
from treadle.ops.while_loop import While
from treadle.program.program import (
    Fallback,
    Program,
    RowSlices,
    Step,
    is_controlled,
    is_sliced,
)

if TYPE_CHECKING:
    from treadle.engines.native.execution.linked import Linked

Inner = Mapping[int, tuple["Linked", Sequence[Any]]]  # programs of bodies by number
HOME, COPIED, STILL, ROW, BEFORE = range(5)  # as in Output of core/loops.cpp
TOTAL = 2  # where a record has its items
INTEGER = 8  # bytes
ENDLESS = 1 << 40  # parts of a loop whose length is data
WORTH = 40_000  # ns of a loop that is worth several threads


class LoopSize(NamedTuple):
    """The iterations of a scan, and the slices of its rows, if it has some."""

    length: int
    slices: RowSlices | None

    @property
    def shares(self) -> int:
        """How many threads at most go through its iterations, each with its rows."""
        slices = self.slices
        worth = slices and self.length * slices.time >= WORTH
        return slices.count if slices and worth else 1


NO_LOOP = LoopSize(0, None)


class _Kind(NamedTuple):
    """The kind of a branch or loop: its operands and results, by number."""

    name: str
    bodies: tuple[Body, ...]
    operands: tuple[tuple[int, ...], ...]  # of each body its own
    carries: int = 0
    scanned: int = 0
    draws: int = 0
    length: int = 1


def _kind(op: Any, count: int) -> _Kind:
    """How an op with so many operands runs its bodies."""
    if isinstance(op, Scan):
        every = tuple(range(count))
        return _Kind("scan", (op.body,), (every,), op.carries, op.scanned, op.draws)
    if isinstance(op, Cond):
        operands = tuple(range(1, 1 + op.split)), tuple(range(1 + op.split, count))
        return _Kind("branch", (op.then, op.otherwise), operands)
    assert isinstance(op, While)
    c, k = op.carries, op.carries + op.tested
    operands = (*range(c), *range(k, count)), tuple(range(k))
    return _Kind("while", (op.body, op.test), operands, c, 0, op.draws, ENDLESS)


def is_native(step: Step, program: Program) -> bool:
    """True if the core can run a step: a branch or loop of native programs alone."""
    return native is not None and is_controlled(step, program.buffers)


def size_of(step: Step, whole: bool = False) -> LoopSize:
    """The size of a scan; `whole`: its rows are left together."""
    if not isinstance(step, Fallback) or not isinstance(step.op, Scan):
        return NO_LOOP
    (body,) = step.bodies
    return LoopSize(step.op.length, None if whole else body.slices)


def code_of(step: Fallback, inner: Inner, size: LoopSize) -> Code:
    """The code of a branch or loop: what the core reads of a record that is one."""
    arguments = [(n, 0) for n in (*step.read, *step.written)]
    special = [(name, 0) for name in ("workspace", "scratch", "status")]
    scratch = max(lines(body.scratch) for body, _ in inner.values())
    memory = memory_of(step, inner, size)
    return Code("", {}, (*arguments, *special), 1, 0, scratch, memory)


def memory_of(step: Fallback, inner: Inner, size: LoopSize) -> int:
    """The bytes of the memory of its bodies."""
    return _frames(step, inner, size.shares)[1]


@dataclass
class _Frame:
    """A body of a branch or loop, and where what it needs in a run lies."""

    linked: Linked
    operands: dict[int, int]  # the buffers of arguments, with the op's operands
    constants: dict[int, np.ndarray[Any, Any]]
    outputs: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    packed: list[PackedBuffers] = field(default_factory=list)  # of what no step changes
    panels: list[tuple[int, int]] = field(default_factory=list)  # buffers, places
    items: list[int] = field(default_factory=list)  # of each record, for a row
    addresses: int = 0
    table: int = 0
    arena: int = 0
    bytes: int = 0  # of what each slice has


class _Memory:
    """Places one after the other, on cache lines."""

    def __init__(self, size: int) -> None:
        self.size = lines(size)

    def take(self, size: int) -> int:
        """The place of the next ones."""
        place = self.size
        self.size += lines(size)
        return place


def _frames(step: Fallback, inner: Inner, slices: int) -> tuple[list[_Frame], int]:
    """The bodies of a branch or loop, and the bytes that they need: those of a loop's
    slices first.
    """
    kind = _kind(step.op, len(step.read))
    memory = _Memory(INTEGER * (kind.carries + 2 * kind.draws))
    start, sizes, frames = memory.size, [0], []
    stays = range(kind.carries + kind.scanned, len(step.read) - kind.draws)
    for body, operands in zip(kind.bodies, kind.operands, strict=True):
        if kind.name == "branch":  # one of them runs
            memory.size = start
        linked, arguments = inner[body.number]
        frame = _frame(linked, arguments, operands)
        frames.append(frame)
        frame.addresses = memory.take(INTEGER * len(linked.fixed))
        frame.table = memory.take(INTEGER * linked.arguments)
        frame.arena = memory.take(linked.plan.size)
        frame.bytes = memory.size
        memory.size += frame.bytes * (slices - 1)
        if kind.name != "while" or body is step.op.body:  # type: ignore[attr-defined]
            frame.outputs = _outputs(linked, frame.operands, kind, memory)
        if kind.name != "branch":
            fixed = {n for n, x in frame.operands.items() if x in stays}
            every = linked.kept.packed
            frame.packed = [p for p in every if fixed.issuperset(p.sources)]
            sizes_of = [place for p in frame.packed for place in p.places]
            frame.panels = [(n, memory.take(size)) for n, size in sizes_of]
        sizes.append(memory.size)
    return frames, max(sizes)


def _frame(linked: Linked, arguments: Sequence[Any], operands: Sequence[int]) -> _Frame:
    frame = _Frame(linked, {}, {})
    for n, x in zip(linked.interface.arguments, arguments, strict=True):
        if isinstance(x, int):
            frame.operands[n] = operands[x]
        else:
            frame.constants[n] = np.asarray(x, order="C")
    return frame


def _outputs(
    inner: Linked, operands: Mapping[int, int], kind: _Kind, memory: _Memory
) -> list[tuple[int, int, int, int, int]]:
    """The outputs of a body, as the core reads them: the kind, buffer, bytes, the
    output or carry that it goes with, and the place of its second block."""
    results = [n for _, n, _ in inner.interface.results]
    written = {b.number for b in inner.interface.buffers}
    home: dict[int, int] = {}  # where a buffer is written: a stack if there is one
    for k in (*range(kind.carries, len(results)), *range(kind.carries)):
        if results[k] in written:
            home.setdefault(results[k], k)
    stacks: dict[int, int] = {}  # of what a carry was before each step, by that
    for k, n in enumerate(results):
        if k >= kind.carries and operands.get(n, kind.carries) < kind.carries:
            stacks.setdefault(operands[n], k)
    outputs = []
    for k, (_, n, t) in enumerate(inner.interface.results):
        size, other, way = t.nbytes, 0, COPIED
        if home.get(n) == k:
            way = HOME
        elif k < kind.carries and operands.get(n) == k:
            way = STILL
        elif k < kind.carries <= home.get(n, -1):
            way, other = ROW, home[n]
        if way in (STILL, ROW):
            stacks.pop(k, None)
        if k >= kind.carries and stacks.get(operands.get(n, -1)) == k:
            way, other = BEFORE, operands[n]
        second = k < kind.carries and way in (HOME, COPIED) and k not in stacks
        outputs.append((way, n, size, other, memory.take(size) if second else -1))
    return outputs


class Control:
    """A branch or loop of a program as the core has it, for any number of runs."""

    def __init__(self, step: Fallback, size: LoopSize, inner: Inner) -> None:
        """A step of a program, or of one for other sizes, whose bodies are linked; a
        scan is of that size.
        """
        op: Any = step.op
        kind, length = _kind(op, len(step.read)), size.length
        frames, _ = _frames(step, inner, size.shares)
        more = list[int]()
        if kind.name == "scan":
            (frame,) = frames
            interface = frame.linked.interface
            pairs = zip(interface.arguments, interface.types, strict=True)
            bytes_of = {frame.operands.get(n): t.nbytes for n, t in pairs}
            rows = range(kind.carries, kind.carries + kind.scanned)
            sizes = kind.carries, kind.draws, length, int(op.reverse), kind.scanned
            slices = [1, 1, 0, 0]
            if size.slices and size.shares > 1:
                frame.items = _items(frame.linked, size.slices.rows)
                scratch = lines(frame.linked.scratch)
                slices = [size.shares, size.slices.rows, frame.bytes, scratch]
            strides = [bytes_of.get(x, 0) for x in rows]  # 0: nobody reads it
            more = [*sizes, *slices, *strides]
        elif kind.name == "while":
            test = frames[1].linked.interface
            _, verdict, _ = test.results[0]
            is_written = any(b.number == verdict for b in test.buffers)
            more = [kind.carries, kind.draws, verdict, int(is_written)]
        self._kept = [(x.linked, x.constants) for x in frames]  # addresses lead there
        counts = len(step.read), len(step.written)
        bodies, outputs = map(_body, frames), [x.outputs for x in frames]
        self.capsule, self.address = native.control(
            kind.name, *counts, list(bodies), outputs, more
        )
        parts = [_parts(x.linked.records) for x in frames]
        turns = length if kind.name == "scan" else kind.length
        self.parts = min(turns * max(parts), ENDLESS)


def _items(linked: Linked, rows: int) -> list[int]:
    """The work items of each record for a row; 0: they are those of slices."""
    totals = linked.records[:, TOTAL].tolist()
    steps = (linked.first or linked).program.steps
    pairs = zip(steps, totals, strict=True)
    return [0 if is_sliced(s) else total // rows for s, total in pairs]


def _parts(records: np.ndarray[Any, Any]) -> int:
    """Of how many parts all steps are."""
    return int((records[:, TOTAL] // np.maximum(records[:, TOTAL + 1], 1)).sum()) + 1


def _body(frame: _Frame) -> Any:
    """A body as the core reads it."""
    linked = frame.linked
    addresses = linked.fixed.copy()
    for n, array in frame.constants.items():
        addresses[n] = array.ctypes.data
    later = linked.records
    idle = [r for packed in frame.packed for r in packed.records]
    if idle:
        later = linked.records.copy()
        later[idle, TOTAL] = 0
    numbers = linked.table, linked.slots, linked.which, linked.shifts
    placed = [*linked.placed.tolist(), *[n for n, _ in frame.panels]]
    places = (linked.plan.table[linked.places] + frame.arena).tolist()
    places += [place for _, place in frame.panels]
    operands = list(frame.operands), list(frame.operands.values())
    lists = placed, places, *operands, frame.items
    arrays = [np.array(x, np.int64) for x in lists]
    records = linked.records.ravel(), later.ravel()
    return addresses, *numbers, *records, *arrays, frame.addresses, frame.table
