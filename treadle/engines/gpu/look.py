"""Programs of devices at every level, as text."""

from __future__ import annotations

from collections.abc import Iterator

from treadle.engines.gpu.linked import DeviceLinked
from treadle.engines.gpu.work import Work
from treadle.engines.lowered import Footprint, Lowered
from treadle.engines.outline import kernels, occupancy, outline
from treadle.program.program import program_text


def lowered(linked: DeviceLinked, graph: str) -> Lowered:
    """The levels of a linked program; its kernels as the device's compiler reads them
    stand for LLVM IR and assembly."""
    program, driver = linked.program, linked.store.driver

    def texts() -> str:
        return "\n\n".join(map(driver.text, dict.fromkeys(_works(linked))))

    return Lowered(
        graph,
        footprint(linked),
        len(program.steps),
        tuple(program.fallbacks),
        {
            "kernels": lambda: kernels(program),
            "program": lambda: program_text(program),
            "llvm": texts,
            "asm": texts,
        },
        lambda: outline(linked),
        lambda: occupancy(linked),
    )


def footprint(linked: DeviceLinked) -> Footprint:
    """The memory of the device that a program takes."""
    buffers = linked.program.buffers
    return Footprint(
        arena=linked.arena,
        largest_live_set=linked.lives.bound,
        results=sum(b.type.nbytes for b in buffers if b.place == "result"),
        in_place=sum(buffers[n].type.nbytes for n, _ in linked.program.shared),
        constants=sum(x.nbytes for _, x in linked.program.constants),
    )


def _works(linked: DeviceLinked) -> Iterator[Work]:
    """The works of all launches, those of bodies last."""
    for ready in linked.ready.values():
        yield ready.work
    for inner in linked.within:
        yield from _works(inner)
