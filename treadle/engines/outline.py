"""Programs with a plan of their arena, as reports show them (`lowered.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from treadle.engines.lowered import Footprint, Lowered, Occupancy, Outlined, Piece, Stay
from treadle.graph.origin import describe
from treadle.loops.text import kernel_text
from treadle.program.lives import Lives
from treadle.program.memory import MemoryPlan
from treadle.program.program import (
    Fallback,
    Launch,
    Product,
    Program,
    all_steps,
    program_text,
    title,
)


class Planned(Protocol):
    """A program whose memory is planned; its steps may have bodies of the same kind."""

    @property
    def program(self) -> Program: ...
    @property
    def lives(self) -> Lives: ...
    @property
    def plan(self) -> MemoryPlan: ...
    @property
    def arena(self) -> int: ...
    @property
    def inner(self) -> Mapping[int, Mapping[Any, tuple[Any, Any]]]: ...


def lowered(
    planned: Planned,
    graph: str,
    footprint: Footprint,
    llvm: Callable[[], str],
    asm: Callable[[], str],
) -> Lowered:
    """The levels of a program, of which an engine has the last two, and its memory."""
    program = planned.program
    return Lowered(
        graph,
        footprint,
        len(program.steps),
        tuple(program.fallbacks),
        {
            "kernels": lambda: kernels(program),
            "program": lambda: program_text(program),
            "llvm": llvm,
            "asm": asm,
        },
        lambda: outline(planned),
        lambda: occupancy(planned),
    )


def kernels(program: Program) -> str:
    """Each distinct kernel once, in the order of the steps."""
    steps = list(all_steps(program))
    launches = [s.finish if isinstance(s, Product) else s for s in steps]
    every = [s.kernel for s in launches if isinstance(s, Launch)]
    return "\n\n".join(dict.fromkeys(map(kernel_text, every)))


def occupancy(planned: Planned) -> Occupancy:
    """The occupancy of the arena by step; what a body needs lies above all else.

    A buffer that is overwritten by another ends where that one begins.
    """
    program, offsets = planned.program, planned.plan.offsets
    begins: dict[int, list[int]] = {}
    lives = planned.lives
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
    for k, bodies in planned.inner.items():
        size = max(inner.arena for inner, _ in bodies.values())
        step = program.steps[k]
        line = describe(step.origin) if isinstance(step, Fallback) else ""
        what = f"the body of {title(step)}", "", line
        if size and planned.arena > planned.plan.size:
            stays.append(Stay(size, planned.plan.size, k, k, *what))
    return Occupancy(tuple(stays), tuple(map(title, program.steps)))


def outline(planned: Planned) -> tuple[list[Piece], list[Outlined]]:
    """The arrays of a program, where they lie, and its steps."""
    program = planned.program
    offset = {n: planned.plan.offsets[k] for n, k in planned.lives.place.items()}
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
