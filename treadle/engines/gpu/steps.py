"""The steps of a program as launches: what is compiled, and how many groups run it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from treadle.engines.gpu.driver import DeviceDriver
from treadle.engines.gpu.emit import LoopWork
from treadle.engines.gpu.product import product_of
from treadle.engines.gpu.work import Work, encoded
from treadle.program.program import Launch, Product, Program

__all__ = ["Ready", "made_ready"]


@dataclass(frozen=True)
class Ready:
    """A step that can be launched: `buffers` by their numbers in the program, and the
    bytes of its `workspace`, which is one buffer more.
    """

    work: Work
    entry: Any
    groups: int
    buffers: tuple[int, ...]
    numbers: Any
    workspace: int = 0


def made_ready(step: Launch | Product, program: Program, driver: DeviceDriver) -> Ready:
    """A step compiled for a device."""
    work: Work
    if isinstance(step, Product):
        work, integers, groups, buffers = product_of(step)
    else:
        work = loops = LoopWork(replace(step.kernel, name=""), step.kernel.name)
        total = loops.grid.total(step.integers)
        groups, buffers = loops.grid.groups(total), step.buffers
        integers = (*step.integers, total)
    entry = driver.compile(work)
    numbers = driver.numbers(work, encoded(work.slots, integers))
    return Ready(work, entry, groups, buffers, numbers)
