"""Programs at every level, as text."""

from __future__ import annotations

from treadle.base.options import current
from treadle.engines.lowered import Footprint, Lowered, Occupancy, Outlined, Piece, Stay
from treadle.engines.native.codegen.jit import assembly
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.execution.pool import pool
from treadle.graph.origin import describe
from treadle.loops.text import kernel_text
from treadle.program.program import (
    Fallback,
    Launch,
    Product,
    Program,
    all_steps,
    program_text,
    title,
)

__all__ = ["lowered"]


def lowered(linked: Linked, graph: str) -> Lowered:
    """The representations that a linked program was made of."""
    program = linked.program
    texts = linked.texts.values()
    return Lowered(
        graph,
        footprint(linked),
        len(program.steps),
        tuple(program.fallbacks),
        {
            "kernels": lambda: _kernels(program),
            "program": lambda: program_text(program),
            "llvm": lambda: "\n\n".join(texts),
            "asm": lambda: "\n\n".join(map(assembly, texts)),
        },
        lambda: _outline(linked),
        lambda: occupancy(linked),
    )


def footprint(linked: Linked) -> Footprint:
    """The memory that a program takes, under the options of this thread."""
    program, now = linked.program, current()
    buffers = program.buffers
    changing = {argument for _, argument in program.shared}
    packed = [p.bytes for p in linked.kept.packed if p.source not in changing]
    return Footprint(
        arena=linked.arena,
        largest_live_set=linked.lives.bound,
        results=sum(b.type.nbytes for b in linked.interface.buffers),
        scratch=linked.workspace(pool(now.threads).threads) - linked.arena,
        in_place=sum(buffers[n].type.nbytes for n, _ in program.shared),
        constants=sum(x.nbytes for x in linked.constants.values()),
        packed=0 if now.workspace else sum(packed),
    )


def occupancy(linked: Linked) -> Occupancy:
    """The occupancy of the arena by step; what a body needs lies above all else.

    A buffer that is overwritten by another ends where that one begins.
    """
    program, offsets = linked.program, linked.plan.offsets
    begins: dict[int, list[int]] = {}
    lives = linked.lives
    for n, place in lives.place.items():
        begins.setdefault(place, []).append(lives.steps[n][0])
    stays = []
    for n, place in lives.place.items():
        first, last = lives.steps[n]
        size = lives.ranges[place].bytes
        if n >= len(program.buffers):
            at = lives.ranges[place].first
            what = f"workspace of {title(program.steps[at])}", "", ""
            stays.append(Stay(size, offsets[place], at, at, *what))
            continue
        later = [k for k in begins[place] if k > first]
        buffer = program.buffers[n]
        what = buffer.holds, repr(buffer.type), describe(buffer.origin)
        end = min([last, *(k - 1 for k in later)])
        stays.append(Stay(size, offsets[place], first, end, *what))
    for k, bodies in linked.inner.items():
        size = max(inner.arena for inner, _ in bodies.values())
        step = program.steps[k]
        line = describe(step.origin) if isinstance(step, Fallback) else ""
        what = f"the body of {title(step)}", "", line
        if size:
            stays.append(Stay(size, linked.plan.size, k, k, *what))
    return Occupancy(tuple(stays), tuple(map(title, program.steps)))


def _outline(linked: Linked) -> tuple[list[Piece], list[Outlined]]:
    """The arrays of a program, where they lie, and its steps."""
    program = linked.program
    offset = {
        n: linked.plan.offsets[k]
        for n, k in zip(linked.placed.tolist(), linked.places.tolist(), strict=True)
    }
    block = {at: k for k, at in enumerate(sorted(set(offset.values())))}
    pieces = []
    for b in program.buffers:
        about = b.number, str(b.type), b.type.nbytes, b.place
        at = offset.get(b.number)
        pieces.append(Piece(*about) if at is None else Piece(*about, block[at], at))
    steps = []
    for step, about_step in zip(program.steps, program.about, strict=True):
        lines = tuple(dict.fromkeys(map(describe, about_step.origins)))
        steps.append(Outlined(title(step), lines, step.read, step.written))
    return pieces, steps


def _kernels(program: Program) -> str:
    """Each distinct kernel once, in the order of the steps."""
    steps = list(all_steps(program))
    launches = [s.finish if isinstance(s, Product) else s for s in steps]
    kernels = [s.kernel for s in launches if isinstance(s, Launch)]
    return "\n\n".join(dict.fromkeys(map(kernel_text, kernels)))
