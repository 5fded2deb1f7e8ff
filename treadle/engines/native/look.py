"""Programs at every level, as text."""

from __future__ import annotations

from treadle.engines.base import Footprint, Lowered, Outlined, Piece
from treadle.engines.native.jit import assembly
from treadle.engines.native.linked import Linked
from treadle.graph.origin import describe
from treadle.loops.text import kernel_text
from treadle.program.memory import largest_live_set
from treadle.program.program import (
    Launch,
    Product,
    Program,
    all_steps,
    program_text,
    title,
)

__all__ = ["lowered"]


def lowered(linked: Linked, graph: str) -> Lowered:
    """What a linked program was made of."""
    program = linked.program
    results = sum(b.type.nbytes for b in linked.results)
    live = largest_live_set(linked.ranges)
    texts = linked.texts.values()
    return Lowered(
        graph,
        Footprint(linked.arena, live, results),
        len(program.steps),
        tuple(program.fallbacks),
        {
            "kernels": lambda: _kernels(program),
            "program": lambda: program_text(program),
            "llvm": lambda: "\n\n".join(texts),
            "asm": lambda: "\n\n".join(map(assembly, texts)),
        },
        lambda: _outline(linked),
    )


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
