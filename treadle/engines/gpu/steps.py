"""The steps of a program as launches: what is compiled, and how many groups run it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from treadle.engines.gpu.driver import DeviceDriver, UnsupportedKernelError
from treadle.engines.gpu.emit import LoopWork
from treadle.engines.gpu.product import product_of
from treadle.engines.gpu.work import Work, encoded
from treadle.program.program import Launch, Product


@dataclass(frozen=True)
class ReadyStep:
    """A step that can be launched, with its `buffers` by their numbers in the program;
    one that only `copies` is none where its two buffers have one place.
    """

    work: Work
    entry: Any
    groups: int
    buffers: tuple[int, ...]
    numbers: Any
    copies: bool
    checks: bool


def made_ready(step: Launch | Product, driver: DeviceDriver) -> ReadyStep:
    """A step compiled for a device."""
    work: Work
    if isinstance(step, Product):
        work, integers, groups, buffers = product_of(step)
    else:
        work = loops = LoopWork(replace(step.kernel, name=""), step.kernel.name)
        total = loops.grid.total(step.integers)
        groups, buffers = loops.grid.groups(total), step.buffers
        integers = (*step.integers, total)
    if len(work.buffers) > driver.device.buffers:
        raise UnsupportedKernelError(
            f"the kernel {work.name} has {len(work.buffers)} buffers, "
            f"{driver.device} allows {driver.device.buffers}"
        )
    entry = driver.compile(work)
    numbers = driver.numbers(work, encoded(work.slots, integers))
    copies = isinstance(step, Launch) and step.copies
    return ReadyStep(work, entry, groups, buffers, numbers, copies, work.checks)
