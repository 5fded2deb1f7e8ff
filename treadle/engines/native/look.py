"""Programs at every level, as text."""

from __future__ import annotations

from treadle.engines.base import Footprint, Lowered
from treadle.engines.native.jit import assembly
from treadle.engines.native.linked import Linked
from treadle.loops.text import kernel_text
from treadle.program.memory import largest_live_set
from treadle.program.program import Launch, Product, Program, all_steps, program_text

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
    )


def _kernels(program: Program) -> str:
    """Each distinct kernel once, in the order of the steps."""
    steps = list(all_steps(program))
    launches = [s.finish if isinstance(s, Product) else s for s in steps]
    kernels = [s.kernel for s in launches if isinstance(s, Launch)]
    return "\n\n".join(dict.fromkeys(map(kernel_text, kernels)))
