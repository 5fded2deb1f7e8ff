"""Kernels written by hand, and an emulated card to run them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.engines.cuda.libcuda import Emulated
from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.gpu.cuda.driver import CudaDriver
from treadle.engines.gpu.cuda.library import started
from treadle.engines.gpu.work import Slot, Work
from treadle.engines.native.codegen.builder import Value
from treadle.engines.native.codegen.elements import load_type
from treadle.loops.kernel import KernelArgument

__all__ = ["ITEMS", "card", "elementwise", "ran", "written"]

Array = np.ndarray[Any, Any]
ITEMS = 64


def written(
    name: str,
    buffers: tuple[KernelArgument, ...],
    body: Callable[[DeviceBuilder], None],
    slots: tuple[Slot, ...] = ((0, "i64"),),
    items: int = ITEMS,
) -> Work:
    """The work that a function writes, known by its name."""
    return Work((name, buffers, slots, items), body, buffers, slots, items, name)


def elementwise(
    name: str, rule: Callable[..., Value], dtype: Any, inputs: int = 2
) -> Work:
    """The work of a function of elements: operands, and then the result."""
    kind = load_type(np.dtype(dtype))

    def body(b: DeviceBuilder) -> None:
        i = b.add(b.mul(b.group(), b.i64(ITEMS)), b.item())
        with b.when(b.compare("slt", i, b.slot(0, "i64"))):
            places = [b.offset(b.buffer(k), i, kind) for k in range(inputs + 1)]
            b.store(rule(b, *[b.load(kind, p) for p in places[:-1]]), places[-1])

    arguments = [
        KernelArgument(np.dtype(dtype), k == inputs) for k in range(inputs + 1)
    ]
    return written(name, tuple(arguments), body)


def card(capacity: int = 16 << 20) -> tuple[Emulated, CudaDriver]:
    """An emulated card and its driver."""
    functions = Emulated(capacity)
    return functions, CudaDriver(started(functions))


def ran(
    driver: CudaDriver,
    work: Work,
    groups: int,
    arrays: Sequence[Array],
    *values: int,
) -> list[Array]:
    """What some work leaves in its buffers, which begin as these arrays."""
    entry, numbers = driver.compile(work), driver.numbers(work, values)
    places = [driver.allocate(max(a.nbytes, 1)) for a in arrays]
    for a, memory in zip(arrays, places, strict=True):
        driver.upload(np.ascontiguousarray(a), memory, 0)
    driver.submit(
        [driver.bind(entry, groups, [(memory, 0) for memory in places], numbers)]
    )
    found = [np.empty_like(a) for a in arrays]
    for a, memory in zip(found, places, strict=True):
        driver.download(memory, 0, a)
        driver.free(memory)
    return found
