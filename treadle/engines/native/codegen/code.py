"""The machine code of a step: its text, its arguments, its work items."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from treadle.base.caches import cached
from treadle.base.dtypes import bfloat16, float16, float32, float64, int8, int32, uint8
from treadle.engines.native.codegen.builder import Builder, Value, lanes
from treadle.engines.native.codegen.contraction import plan_matmul
from treadle.engines.native.codegen.contraction.epilogue import Epilogue, Site
from treadle.engines.native.codegen.contraction.machine import machine
from treadle.engines.native.codegen.convolution import plan_convolution
from treadle.engines.native.codegen.emit import Emitter, emit
from treadle.engines.native.codegen.texts import FunctionChoice, FunctionText, kept_text
from treadle.loops.digest import digest
from treadle.loops.kernel import Kernel, Load, Loop
from treadle.program.contract import Layout
from treadle.program.convolution import CONVOLUTIONS, Convolution
from treadle.program.program import Launch, Product

# A number; a pointer, as the number of a buffer or "scratch", "status" or "workspace"
# with a shift in bytes; the name of a function, for its address, or of one of several.
Argument = int | tuple[int | str, int] | str | FunctionChoice

SOURCES = {  # how contractions call the types of operands
    float32: "float",
    float64: "double",
    float16: "half",
    bfloat16: "bfloat",
    int8: "int8",
    uint8: "uint8",
    int32: "i32",
}
FEW = 256  # results that read a weight: with more, packing it is a small part of all


@dataclass(frozen=True, slots=True)
class Code:
    """The code of a part of a step: the function `name` among `texts`, on arguments.

    The workspace is memory that all parts of a step share.
    """

    name: str
    texts: dict[str, str]
    arguments: tuple[Argument, ...]
    total: int
    grain: int
    scratch: int = 0  # bytes for each worker
    workspace: int = 0  # bytes
    packs: int | None = None  # the buffer of weights that alone fill the workspace


def coded(step: Launch | Product, scratch_limit: int = 0) -> tuple[Code, ...]:
    """The code of a step of a program, in the order in which it runs.

    scratch_limit: bytes of scratch memory that each worker should do with; 0: any.
    """
    if isinstance(step, Launch):
        return (_launch(step),)
    if isinstance(step.layout, Convolution):
        return _convolution(step, step.layout)
    return (_product(step, step.layout, scratch_limit),)


@cached(1024)
def _text(kernel: Kernel) -> FunctionText:
    """The function of a kernel without sizes; equal structures have equal names."""
    return kept_text(f"loops {digest(kernel)}", lambda: _written(kernel))


def _written(kernel: Kernel) -> FunctionText:
    text = emit(kernel, "NAME")
    name = f"loops_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    return FunctionText(name, text.replace("@NAME(", f"@{name}("))


def name_of(kernel: Kernel) -> str:
    """The name of a kernel's function: equal of those that are equal."""
    return _text(kernel).name


def _launch(step: Launch) -> Code:
    kernel = step.kernel
    function = _text(kernel)
    arguments: list[Argument] = [(n, 0) for n in step.buffers]
    scratch_buffers = [a for a in kernel.arguments if a.scratch]
    arguments += [("scratch", 0) for _ in scratch_buffers]
    scratch = sum(
        step.integers[a.scratch.slot] * a.dtype.itemsize for a in scratch_buffers
    )
    if kernel.checks:
        arguments.append(("status", 0))
    arguments += step.integers
    texts = {function.name: function.text}
    return Code(function.name, texts, tuple(arguments), step.total, step.grain, scratch)


def _product(step: Product, layout: Layout, scratch_limit: int) -> Code:
    finish = step.finish
    sources = SOURCES[step.kinds[0]], SOURCES[step.kinds[1]]
    group = _together(step, layout)
    if group > 1:
        sources = f"{sources[0]} x {group}", f"{sources[1]} x {group}"
    plan = plan_matmul(
        *layout.sizes,
        layout.a,
        layout.b,
        layout.c,
        SOURCES[step.dtype],
        epilogue_of(finish.kernel, step.product_buffer) if finish else None,
        sources=sources,
        scratch_limit=scratch_limit,
        slices=step.slices,
    )
    a, b = _operands(step)
    if plan.swapped:
        a, b = b, a
    texts = {plan.name: plan.text} | _texts((*plan.functions, *plan.parts))
    arguments: list[Argument] = [a, b, 0 if finish else (step.written[0], 0)]
    arguments.append(("scratch", 0))
    arguments += _called(plan.functions)
    arguments += plan.arguments
    arguments += _epilogue_arguments(finish)
    return Code(
        plan.name,
        texts,
        tuple(arguments),
        plan.total,
        plan.grain,
        plan.scratch,
    )


def _called(functions: Sequence[FunctionText | FunctionChoice]) -> list[Argument]:
    """The arguments that functions are."""
    return [f if isinstance(f, FunctionChoice) else f.name for f in functions]


def _epilogue_arguments(finish: Launch | None) -> list[Argument]:
    """The arguments of an epilogue: its pointers and integers."""
    if finish is None:
        return []
    return [*((number, 0) for number in finish.buffers), *finish.integers]


def _texts(functions: Sequence[FunctionText | FunctionChoice]) -> dict[str, str]:
    """The texts of functions, by name: of those that are known."""
    return {f.name: f.text for f in functions if isinstance(f, FunctionText)}


def _together(step: Product, layout: Layout) -> int:
    """How many products the processor adds up at once: of bytes one of which is
    unsigned, or of bfloat16. One row times rows of B reads each number once, and is
    not copied for that.
    """
    group, kinds = 1, {*step.kinds}
    if kinds == {int8, uint8} and machine().quads:
        group = 4
    elif kinds == {bfloat16} and machine().pairs:
        group = 2
    (_, m, n, k), a, b = layout.sizes, layout.a[1:], layout.b[1:]
    if group == 1 or k <= group or 1 not in a or 1 not in b:
        return 1
    streams = (m == 1 and b[1] == 1) or (n == 1 and a[0] == 1)
    return 1 if streams and not a[1] == b[0] == 1 else group


def _operands(step: Product) -> list[tuple[int | str, int]]:
    """The buffers and offsets of the operands."""
    parts = zip(step.operands, step.offsets, step.kinds, strict=True)
    return [(number, offset * kind.itemsize) for number, offset, kind in parts]


def _convolution(step: Product, problem: Convolution) -> tuple[Code, ...]:
    """Weights into panels, if they are, and sums."""
    finish = step.finish
    plan = plan_convolution(
        problem, epilogue_of(finish.kernel, step.product_buffer) if finish else None
    )
    _, *names = next(n for n in CONVOLUTIONS.values() if n[0] == problem.computes)
    places: dict[str, Argument] = dict(zip(names, _operands(step), strict=True))
    weights = dict(zip(names, step.operands, strict=True)).get("w")
    places[problem.computes] = 0 if finish else (step.written[0], 0)
    few = problem.n * math.prod(problem.counts) <= FEW
    codes = []
    for part in plan.steps:
        arguments: list[Argument] = []
        for pointer in part.pointers:
            place = places.get(pointer.name, (pointer.name, 0))
            if isinstance(place, tuple):
                place = place[0], place[1] + pointer.shift
            arguments.append(place)
        arguments += _called(part.functions)
        arguments += part.arguments
        arguments += _epilogue_arguments(finish if part.finishes else None)
        texts = {part.name: part.text} | _texts((*part.functions, *part.parts))
        sizes = part.total, part.grain, part.scratch, plan.workspace
        packs = weights if part.constant and few else None
        codes.append(Code(part.name, texts, tuple(arguments), *sizes, packs))
    return tuple(codes)


class _Finish(Emitter):
    """A kernel's innermost body, for the vector of a product that was just finished."""

    def __init__(
        self, kernel: Kernel, builder: Builder, result: Value, site: Site, product: int
    ) -> None:
        self.site = site
        self.result = result
        self.product = product
        super().__init__(kernel, "", builder)

    def _read_arguments(self) -> None:
        pointers = iter(self.site.pointers)
        self.buffers = [
            self.site.c if k == self.product else next(pointers)
            for k in range(len(self.kernel.arguments))
        ]
        self._arguments = dict(enumerate(self.site.integers))

    def load(self, x: Load) -> Value:
        """The product's own element is in a register."""
        return self.result if x.buffer == self.product else super().load(x)

    def write(self) -> None:
        body = self.kernel.body
        indices = (self.site.batch, self.site.row, self.site.column)
        self.scopes.append({})
        for index in indices:
            (loop,) = body
            assert isinstance(loop, Loop)
            self.bind(loop.axis, index)
            self.vector, body = loop.axis, loop.body
        self.lanes = lanes(self.result.type)
        self.mask = self.site.mask
        self.run(body)


@cached(1024)
def epilogue_of(kernel: Kernel, product: int) -> Epilogue:
    """The epilogue of a product by a kernel, in which `product` is its buffer."""
    plain = replace(kernel, name="")
    key = f"{product} {digest(plain)}"

    def write(b: Builder, result: Value, site: Site) -> None:
        _Finish(plain, b, result, site, product).write()

    return Epilogue(key, write, len(kernel.arguments) - 1, kernel.integers, True)
