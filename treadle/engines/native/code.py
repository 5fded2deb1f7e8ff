"""The machine code of a step: its text, its arguments, its work items."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace

from treadle.engines.native.contraction import plan_matmul
from treadle.engines.native.emit import emit
from treadle.engines.native.finish import epilogue_of
from treadle.loops.kernel import Kernel
from treadle.program.program import Launch, Product, Program

__all__ = ["Code", "coded"]

# A number; a buffer and a shift in bytes; "scratch", "status" or a function's name.
Argument = int | tuple[int, int] | str


@dataclass(frozen=True)
class Code:
    """What runs a step: the function `name` among `texts`, on these arguments."""

    name: str
    texts: dict[str, str]
    arguments: tuple[Argument, ...]
    total: int
    grain: int
    scratch: int = 0  # bytes for each worker


def coded(step: Launch | Product, program: Program) -> Code:
    """The code of a step of a program."""
    if isinstance(step, Launch):
        return _launch(step)
    return _product(step)


@functools.lru_cache(maxsize=4096)
def _text(kernel: Kernel) -> tuple[str, str]:
    """Name and text of a kernel without sizes; equal structures have equal names."""
    text = emit(kernel, "NAME")
    name = f"loops_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    return name, text.replace("@NAME(", f"@{name}(")


def _launch(step: Launch) -> Code:
    name, text = _text(replace(step.kernel, name=""))
    arguments: list[Argument] = [(n, 0) for n in step.buffers]
    if step.kernel.checks:
        arguments.append("status")
    arguments += step.integers
    return Code(name, {name: text}, tuple(arguments), step.total, step.grain)


def _product(step: Product) -> Code:
    batch, m, n, k = step.layout.sizes
    finish = step.finish
    made = plan_matmul(
        batch,
        m,
        n,
        k,
        step.layout.a,
        step.layout.b,
        step.layout.c,
        "double" if step.dtype.itemsize == 8 else "float",
        epilogue_of(finish.kernel, step.own) if finish else None,
    )
    a, b = (
        (number, offset * step.dtype.itemsize)
        for number, offset in zip(step.operands, step.offsets, strict=True)
    )
    if made.swapped:
        a, b = b, a
    texts = {made.name: made.text} | {f.name: f.text for f in made.functions}
    arguments: list[Argument] = [a, b, 0 if finish else (step.written[0], 0)]
    if finish:
        arguments += [(number, 0) for number in finish.buffers]
    arguments.append("scratch")
    arguments += [f.name for f in made.functions]
    arguments += made.arguments
    if finish:
        arguments += finish.integers
    return Code(
        made.name, texts, tuple(arguments), made.total, made.grain, made.scratch
    )
