"""Programs at every level, as text."""

from __future__ import annotations

from treadle.base.options import current
from treadle.engines import outline
from treadle.engines.lowered import Footprint, Lowered
from treadle.engines.native.codegen.jit import assembly
from treadle.engines.native.execution.linked import Linked
from treadle.engines.native.execution.pool import pool


def lowered(linked: Linked, graph: str) -> Lowered:
    """The representations that a linked program was made of."""
    texts = linked.texts.values()
    return outline.lowered(
        linked,
        graph,
        footprint(linked),
        lambda: "\n\n".join(texts),
        lambda: "\n\n".join(map(assembly, texts)),
    )


def footprint(linked: Linked) -> Footprint:
    """The memory that a program takes, under the options of this thread."""
    program, now = linked.program, current()
    buffers = program.buffers
    changing = {argument for _, argument in program.shared}
    packed = [
        size
        for one in linked.kept.packed
        if changing.isdisjoint(one.sources)
        for _, size in one.places
    ]
    return Footprint(
        arena=linked.arena,
        largest_live_set=linked.lives.bound,
        results=sum(b.type.nbytes for b in linked.interface.buffers),
        scratch=linked.workspace(pool(now.threads).threads) - linked.arena,
        in_place=sum(buffers[n].type.nbytes for n, _ in program.shared),
        constants=sum(x.nbytes for x in linked.constants.values()),
        packed=0 if now.workspace else sum(packed),
    )
