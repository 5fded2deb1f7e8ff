"""Programs at every level, as text."""

from __future__ import annotations

from treadle.engines.base import Footprint, Lowered
from treadle.engines.native.jit import assembly
from treadle.engines.native.linked import Linked
from treadle.loops.text import kernel_text
from treadle.program.memory import largest_live_set
from treadle.program.program import Launch, Product, program_text

__all__ = ["lowered"]


def lowered(linked: Linked, graph: str) -> Lowered:
    """What a linked program was made of; assembly is written when it is asked for."""
    program = linked.program
    kernels = []
    for step in program.steps:
        launch = step.finish if isinstance(step, Product) else step
        if isinstance(launch, Launch):
            kernels.append(launch.kernel)
    distinct = list(dict.fromkeys(map(kernel_text, kernels)))
    results = sum(b.type.nbytes for b in linked.results)
    live = largest_live_set(linked.ranges)
    return Lowered(
        graph,
        "\n\n".join(distinct),
        program_text(program),
        "\n\n".join(linked.texts.values()),
        "\n\n".join(map(assembly, linked.texts.values())),
        Footprint(linked.plan.size, live, results),
        tuple(program.fallbacks),
    )
