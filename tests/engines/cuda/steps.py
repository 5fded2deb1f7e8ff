"""One step of a program, run by the native engine's own code and by a driver."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

import numpy as np

from treadle.engines.gpu.driver import DeviceDriver
from treadle.engines.gpu.engine import target_of
from treadle.engines.gpu.linked import made_ready
from treadle.engines.native.codegen.code import Argument, coded
from treadle.engines.native.codegen.jit import compile_functions
from treadle.engines.native.translation.translate import translated
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import pending
from treadle.program.convolution import Convolution
from treadle.program.program import Launch, Product, Program

__all__ = ["differing", "native", "program_for"]

Array = np.ndarray[Any, Any]
LINE = 64  # bytes


def program_for(
    driver: DeviceDriver, *roots: Tensor
) -> tuple[Program, dict[int, Array]]:
    """The program of some roots for a device, and its arguments by number."""
    made, graph = translated(
        pending(roots),
        {},
        {y.serial for y in roots},
        choose=lambda drafts: next(drafts).build(),
        target=target_of(driver),
    )
    pairs = zip(made.arguments, graph.leaves, strict=True)
    return made, {n: np.asarray(leaf.array) for n, leaf in pairs}


def native(step: Launch | Product, memory: Mapping[int, Array]) -> None:
    """Run a step on flat arrays by number, on one thread."""
    codes = coded(step)
    shared = np.zeros(max(code.workspace for code in codes) + LINE, np.uint8)
    for code in codes:
        functions = compile_functions(code.texts)
        scratch = np.zeros(code.scratch + LINE, np.uint8)
        status = np.zeros(1, np.int64)
        places: dict[int | str, int] = {n: a.ctypes.data for n, a in memory.items()}
        places["status"] = status.ctypes.data
        for name, room in (("scratch", scratch), ("workspace", shared)):
            places[name] = -(-room.ctypes.data // LINE) * LINE
        arguments = np.array([_word(a, functions, places) for a in code.arguments])
        kinds = [ctypes.c_void_p, *[ctypes.c_int64] * 3]
        run = ctypes.CFUNCTYPE(None, *kinds)(functions[code.name])
        run(arguments.ctypes.data, 0, code.total, 0)


def _word(
    argument: Argument, functions: Mapping[str, int], places: Mapping[int | str, int]
) -> int:
    if isinstance(argument, str):
        return functions[argument]
    if isinstance(argument, tuple):
        return places[argument[0]] + argument[1]
    return argument


def by_driver(
    step: Launch | Product,
    driver: DeviceDriver,
    memory: Mapping[int, Array],
) -> None:
    """Run a step on flat arrays by number, through a device's memory."""
    ready = made_ready(step, driver)
    if not ready.groups:
        return
    places: dict[int, Any] = {}
    for n in ready.buffers:
        if n not in places:
            places[n] = driver.allocate(max(memory[n].nbytes, 1)), 0
            driver.upload(memory[n], *places[n])
    every = [places[n] for n in ready.buffers]
    if ready.work.checks:
        every.append((driver.allocate(4), 0))
    driver.submit([driver.bind(ready.entry, ready.groups, every, ready.numbers)])
    for n in places:
        driver.download(*places[n], memory[n])
        driver.free(places[n][0])


def differing(
    program: Program, driver: DeviceDriver, arrays: Mapping[int, Array]
) -> tuple[int, list[str]]:
    """How many steps ran, and what differs in bits from the native engine's code."""
    memory = {b.number: np.zeros(b.type.size, b.type.dtype) for b in program.buffers}
    for n, a in [*arrays.items(), *program.constants]:
        memory[n] = np.ascontiguousarray(a).reshape(-1).copy()
    count, found = 0, []
    for step in program.steps:
        if not isinstance(step, (Launch, Product)):
            break
        other = {n: a.copy() for n, a in memory.items()}
        native(step, memory)
        by_driver(step, driver, other)
        count += 1
        for n in step.written:
            x, y = memory[n], other[n]
            bad = _apart(x, y, isinstance(step, Product) and _has_other_order(step))
            if bad.any():
                k = int(np.flatnonzero(bad)[0])
                what = type(step).__name__
                found.append(f"{what}: {bad.sum()} of {bad.size}, {x[k]!r}, {y[k]!r}")
    return count, found


def _has_other_order(step: Product) -> bool:
    """Whether the native engine adds the terms of a convolution in another order."""
    return isinstance(step.layout, Convolution)


def _apart(x: Array, y: Array, rounding: bool) -> Array:
    """Where two arrays differ: in bits, or by more than sums in two orders may."""
    if x.dtype.kind not in "fV":
        return np.asarray(x != y)
    near, far = (a.astype(np.float64) for a in (x, y))
    if rounding:
        most = np.abs(near).max(initial=0)
        return np.asarray(np.abs(near - far) > 64 * np.finfo(x.dtype).eps * most)
    bits = f"u{x.dtype.itemsize}"
    return (x.view(bits) != y.view(bits)) & ~(np.isnan(near) & np.isnan(far))
