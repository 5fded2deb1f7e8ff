"""The Program IR: a flat list of steps on numbered buffers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from treadle.base.caches import lazy
from treadle.base.dtypes import DType
from treadle.base.symbolic import is_same, most
from treadle.base.types import Type
from treadle.graph.body import bodies
from treadle.graph.instantiate import MAKERS, Maker, Slots, Unsized, record
from treadle.graph.op import Op
from treadle.graph.origin import Origin
from treadle.loops.kernel import (
    Accumulate,
    Apply,
    Kernel,
    Loop,
    Store,
    inside,
    statements,
)
from treadle.ops.control import Cond
from treadle.ops.loop import Scan
from treadle.ops.while_loop import While
from treadle.program.contract import Layout
from treadle.program.convolution import Convolution

SMALL = 65_536  # scalar operations: a step with fewer runs on one thread
FUNCTION = 8  # scalar operations that take as long as an elementary function


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array of the program: where its memory comes from, and its type.

    `place` is "argument" (given at a run), "constant" (part of the program), "result"
    (handed out after a run) or "arena" (planned). `holds` and `origin` tell what it
    was first made for.
    """

    number: int
    type: Type
    place: str
    order: tuple[int, ...] = ()  # of its dimensions in memory, if not row-major
    holds: str = field(default="", compare=False, repr=False)
    origin: Origin = field(default=(None, 0), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel on buffers; `integers` fill the slots of its sizes and strides.

    `total` work items can be done in any order, in parts of `grain`.
    """

    kernel: Kernel
    integers: tuple[int, ...]
    buffers: tuple[int, ...]
    written: tuple[int, ...]
    total: int
    grain: int
    copies: bool = False  # nothing to do where what it reads is what it writes

    @property
    def read(self) -> tuple[int, ...]:
        return tuple([k for k in self.buffers if k not in self.written])


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction as a batch of products of matrices, or a convolution.

    Operands lie in memory in `kinds`, and are widened to the dtype as they are read.
    `finish`, if there is one, is a kernel on each vector of the result, which it reads
    as its buffer `product_buffer`; only what it writes is kept then. Its work items are
    the blocks of so many `slices` of the rows, or any.
    """

    layout: Layout | Convolution
    dtype: DType
    kinds: tuple[DType, DType]
    offsets: tuple[int, int]  # where a and b begin in their buffers, in elements
    operands: tuple[int, int]
    read: tuple[int, ...]
    written: tuple[int, ...]
    finish: Launch | None = None
    product_buffer: int = 0
    slices: int = 1


@dataclass(frozen=True)
class RowSlices:
    """The slices of a loop's rows: each can go through all iterations by itself.

    An iteration takes about so much `time`, in ns.
    """

    rows: int
    count: int
    time: int


@dataclass(frozen=True)
class BodyProgram:
    """The program of a body, its results numbered as the body's outputs.

    `inputs` has for each of its arguments the number of the body's, or a constant.
    `slices` are those of a loop whose body works row by row.
    """

    program: Program
    inputs: tuple[int | np.ndarray[Any, Any], ...]
    slices: RowSlices | None = None


@dataclass(frozen=True)
class Fallback:
    """An op done by its NumPy rule, between native steps.

    The rule of a branch or loop runs the programs of its `bodies`, nothing else. An op
    that waits may be two steps, its `part`s "begin" and "end": the first reads and the
    second writes, and both have the same `number`.
    """

    op: Op
    type: Any
    read: tuple[int, ...]
    written: tuple[int, ...]
    origin: Origin
    bodies: tuple[BodyProgram, ...] = ()
    part: str = ""
    number: int = 0


Step = Launch | Product | Fallback


def _sized(x: Fallback, slots: Slots) -> Maker | None:
    """The maker of a step for other sizes: NumPy's rules go through bodies by node."""
    if bodies(x.op) and not x.bodies:
        raise Unsized
    return record(x, slots)


MAKERS |= {Kernel: None, Fallback: _sized}


def is_sliced(step: Step) -> bool:
    """Whether the work items of a step are those of slices of rows."""
    return isinstance(step, Product) and not is_same(step.slices, 1)


@dataclass(frozen=True, slots=True)
class About:
    """What people are told of a step: the lines of what it computes, the first that of
    most of it, and its arithmetic operations, 0 where they are not known.
    """

    origins: tuple[Origin, ...] = ()
    flops: int = 0


@dataclass(frozen=True)
class ParallelRegion:
    """Steps from `first` on, in `chains` of so many each, that may run side by side.

    No chain reads or writes what another one writes; in a chain steps keep their order.
    """

    first: int
    chains: tuple[int, ...]

    @property
    def stop(self) -> int:
        """The step after the last."""
        return self.first + sum(self.chains)

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The first step of each chain, and the step after its last."""
        ends = tuple(accumulate(self.chains, initial=self.first))
        return tuple(pairwise(ends))


@dataclass(frozen=True)
class Program:
    """Buffers, the steps that fill them, and which buffers hold what was asked for."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    arguments: tuple[int, ...]
    constants: tuple[tuple[int, np.ndarray[Any, Any]], ...]
    results: tuple[tuple[int, int, Type], ...]  # serial of a root, its buffer, its type
    shared: tuple[tuple[int, int], ...] = ()  # (result, argument it may overwrite)
    about: tuple[About, ...] = field(default=(), compare=False)  # the steps
    weights: tuple[int, ...] = ()  # the arguments that are versions of Variables
    regions: tuple[ParallelRegion, ...] = ()  # in the order of their steps

    @lazy
    def chain_of(self) -> dict[int, tuple[int, int]]:
        """The number of the region and of the chain of each step in a region."""
        return {
            k: (number, chain)
            for number, region in enumerate(self.regions)
            for chain, (first, stop) in enumerate(region.bounds)
            for k in range(first, stop)
        }

    @lazy
    def written_by(self) -> dict[int, int]:
        """The last step that writes each buffer; of a region, its last step."""
        last = {k: r.stop - 1 for r in self.regions for k in range(r.first, r.stop)}
        return {
            n: last.get(k, k) for k, step in enumerate(self.steps) for n in step.written
        }

    @property
    def fallbacks(self) -> list[str]:
        """The ops that run by their NumPy rule, in bodies too."""
        steps = [s for s in all_steps(self) if isinstance(s, Fallback)]
        return [s.op.name for s in steps if not s.bodies and s.part != "end"]


def all_steps(program: Program) -> Iterator[Step]:
    """The steps of a program, each followed by those of its bodies."""
    for step in program.steps:
        yield step
        for body in step.bodies if isinstance(step, Fallback) else ():
            yield from all_steps(body.program)


def is_controlled(step: Step, buffers: Sequence[Buffer]) -> bool:
    """Whether a step is a branch or loop whose bodies are kernels alone, or such steps:
    who runs kernels can go through it."""
    if not isinstance(step, Fallback) or not isinstance(step.op, (Cond, Scan, While)):
        return False
    if any(buffers[n].order for n in (*step.read, *step.written)):
        return False
    return bool(step.bodies) and all(_has_kernels(x.program) for x in step.bodies)


def _has_kernels(body: Program) -> bool:
    """Whether a body is kernels alone, on arguments and results that lie in order."""
    results = [n for _, n, _ in body.results]
    if [k for k, _, _ in body.results] != list(range(len(results))):
        return False
    if any(body.buffers[n].order for n in (*body.arguments, *results)):
        return False
    if any(body.buffers[n].place == "arena" for n in results):
        return False
    inner = [s for s in body.steps if isinstance(s, Fallback)]
    return all(is_controlled(s, body.buffers) for s in inner)


def unwritten(steps: Iterable[Step], known: Iterable[int]) -> list[str]:
    """Each buffer that a step reads and that none has written by then, nor is known."""
    written, wrong = set(known), []
    for number, step in enumerate(steps):
        written.update(step.written)
        missing = [k for k in step.read if k not in written]
        wrong += [f"step {number} reads b{k} before it is written" for k in missing]
    return wrong


def work(kernel: Kernel) -> tuple[int, int, int]:
    """Work items of a kernel with sizes, the multiple they are cut at, and their cost.

    Items are the steps of the leading parallel loops, or the elements of a vector loop.
    """
    body = kernel.body
    total, loops = 1, 0
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind == "parallel":
        total *= body[0].axis.extent
        body = body[0].body
        loops += 1
    multiple = 1
    if not loops and len(body) == 1 and isinstance(body[0], Loop):
        first = body[0]
        if first.kind == "vector" and not first.folds:
            total, multiple, body = first.axis.extent, first.lanes, first.body
    cost = 0
    for s in statements(body):
        if isinstance(s, Loop):
            cost += s.steps()
    ops = sum(
        FUNCTION if x.op.traits.tolerance == "U" else 1
        for x in kernel.expressions
        if isinstance(x, Apply)
    )
    inner = math.prod(_inner(body)) if cost else 1
    return total, multiple, max(inner, 1) * (1 + ops // 2)


def _inner(body: Sequence[Any]) -> list[int]:
    """The extents of the deepest chain of loops."""
    best: list[int] = []
    for s in body:
        if isinstance(s, Loop):
            extents = [s.steps(), *_inner(s.body)]
            if math.prod(extents) > math.prod(best or [0]):
                best = extents
    return best


def operations(kernel: Kernel) -> int:
    """The scalar operations of a kernel with sizes, casts and choices among them.

    What an inner loop has in common with an outer one counts as done in the inner one.
    """
    seen: set[int] = set()
    count = 0
    stack = [(s, 1) for s in kernel.body]
    while stack:
        s, times = stack.pop()
        if isinstance(s, Loop):
            stack += [(inner, times * s.steps()) for inner in s.body]
        elif isinstance(s, (Store, Accumulate)):
            fresh = [x for x in inside(s.value) if id(x) not in seen]
            seen.update(map(id, fresh))
            count += times * sum(isinstance(x, Apply) for x in fresh)
            folds = isinstance(s, Accumulate) or s.combine is not None
            count += times * folds
    return count


def grain_of(total: int, multiple: int, cost: int) -> int:
    """The number of items in one part: all of them where the step is small, else those
    of an even number of parts that are as large as each other."""
    parts = 2 * (total * cost // SMALL)
    items = -(-total // most(1, parts))
    return most(1, -(-items // multiple) * multiple)


def program_text(program: Program) -> str:
    """The program as text: buffers, then one line a step."""
    lines = []
    for b in program.buffers:
        lines.append(f"b{b.number}: {b.type} {b.place}")
    starts = {r.first: r for r in program.regions}
    margins = {a: k for r in program.regions for k, (a, _) in enumerate(r.bounds)}
    margin, stop = "", 0
    for k, s in enumerate(program.steps):
        if k in starts:
            stop = starts[k].stop
            lines.append(f"side by side, {len(starts[k].chains)} chains:")
        if k in margins:
            margin = f"  chain {margins[k]} | "
        margin = margin if k < stop else ""
        read = ", ".join(f"b{n}" for n in s.read)
        written = ", ".join(f"b{n}" for n in s.written)
        lines.append(f"{margin}{k}: {written} = {title(s)}({read})")
        for body in s.bodies if isinstance(s, Fallback) else ():
            if cut := body.slices:
                lines.append(f"  {cut.rows} rows in {cut.count} slices:")
            lines += [f"  {line}" for line in program_text(body.program).split("\n")]
    results = ", ".join(f"b{n}" for _, n, _ in program.results)
    return "\n".join([*lines, f"return {results}"])


def title(step: Step) -> str:
    """The title of a step, in a word or two."""
    if isinstance(step, Launch):
        return step.kernel.name or "kernel"
    if isinstance(step, Product):
        more = f" {step.finish.kernel.name}" if step.finish else ""
        kind = "product"
        if isinstance(step.layout, Convolution):
            kind = f"convolution {step.layout.computes}"
        narrow = [d.name for d in step.kinds if d != step.dtype]
        of = f" of {', '.join(narrow)}" if narrow else ""
        return f"{kind}{list(step.layout.sizes)}{of}{more}"
    name = f"{step.op.name} {step.part}".rstrip()
    return name if step.bodies else f"numpy {name}"
