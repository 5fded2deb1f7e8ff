"""Dependences of program steps, and about how long each of them takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from treadle.base.symbolic import plain
from treadle.ops.loop import Scan
from treadle.ops.while_loop import While
from treadle.program.positions import last_risk
from treadle.program.program import (
    Fallback,
    Launch,
    Product,
    Program,
    Step,
    all_steps,
    is_controlled,
)

# Of one thread, by orders of magnitude: they tell small steps from others.
START = 100  # ns of any step
LOOPS = 10  # scalar operations of a kernel in a ns, elementary functions among them
PRODUCTS = 80  # operations of a product in a ns
PANELS = 64  # bytes of its operands
STREAMED = 32  # bytes of all else


def nanoseconds(program: Program) -> list[int]:
    """Roughly the time of each step on one thread."""
    sizes = [plain(b.type.nbytes) for b in program.buffers]
    times = []
    for step, about in zip(program.steps, program.about, strict=True):
        flops = plain(about.flops)
        most = max([sizes[n] for n in step.written], default=0)
        if isinstance(step, Product):
            panels = sum([sizes[n] for n in set(step.operands)])
            time = max(flops // PRODUCTS, panels // PANELS)
            if step.finish:
                time += _traffic(sizes, step.finish.buffers, most)
        elif isinstance(step, Fallback) and step.bodies:
            bodies = [sum(nanoseconds(x.program)) for x in step.bodies]
            time = _length(step) * max(bodies)
        else:
            touched = step.buffers if isinstance(step, Launch) else step.read
            time = max(flops // LOOPS, _traffic(sizes, touched, most))
        times.append(START + time)
    return times


def turns(program: Program) -> list[int]:
    """How many shorter steps each step is, one after the other: those of a loop."""
    counts = []
    for step in program.steps:
        bodies = step.bodies if isinstance(step, Fallback) else ()
        inner = [sum(turns(x.program)) for x in bodies]
        counts.append(max(_length(step) * max(inner, default=1), 1))
    return counts


def _length(step: Step) -> int:
    """How often a step runs its body."""
    op = step.op if isinstance(step, Fallback) else None
    return plain(op.length) if isinstance(op, Scan) else 1


def _traffic(sizes: Sequence[int], touched: Sequence[int], most: int) -> int:
    """The time to read and write some buffers; of a table few rows may be read."""
    return sum([min(sizes[n], most) for n in touched]) // STREAMED


def before(program: Program) -> list[list[int]]:
    """The direct predecessors of each step: those it must come after.

    It comes after steps that write what it reads, read what it writes over, or write
    the same. A result that may overwrite an argument lies where that one does.
    """
    where = dict(program.shared)
    written = Counter(n for step in program.steps for n in step.written)
    # All others are written once, before they are read.
    changing = {n for n, count in written.items() if count > 1} | {*where.values()}
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}  # since the last writer
    depends = []
    for k, step in enumerate(program.steps):
        earlier: set[int] = set()
        for n in step.buffers if isinstance(step, Launch) else step.read:
            n = where.get(n, n)
            if n in writer:
                earlier.add(writer[n])
            if n in changing:
                readers.setdefault(n, []).append(k)
        for n in step.written:
            n = where.get(n, n)
            if n in changing:
                if n in writer:
                    earlier.add(writer[n])
                earlier.update(readers.pop(n, ()))
            writer[n] = k
        earlier.discard(k)
        depends.append(sorted(earlier))
    return depends


def stretches(program: Program) -> Iterator[tuple[int, int]]:
    """Runs of steps, as first and stop, between those that must stay where they are.

    These are what runs by its NumPy rule, effects too, loops whose length is data, and
    the first step that writes over an argument, where one before it, or it, may find
    its data wrong.
    """
    cuts = {0, len(program.steps)}
    for k, step in enumerate(program.steps):
        if isinstance(step, Fallback) and not _ends(step, program):
            cuts |= {k, k + 1}
    over = {result for result, _ in program.shared}
    risk = last_risk(program) if over else -1
    if risk >= 0:
        steps = enumerate(program.steps)
        k = next(k for k, step in steps if not over.isdisjoint(step.written))
        cuts |= {k, k + 1} if risk == k else {k}
    ends = sorted(cuts)
    yield from pairwise(ends)


def _ends(step: Fallback, program: Program) -> bool:
    """Whether a step is a branch or loop of kernels that is over after so many."""
    if not is_controlled(step, program.buffers) or isinstance(step.op, While):
        return False
    inner = [s for x in step.bodies for s in all_steps(x.program)]
    return not any(isinstance(s, Fallback) and isinstance(s.op, While) for s in inner)
