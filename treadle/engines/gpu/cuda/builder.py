"""A kernel as LLVM IR for NVPTX: special registers, shared memory, barriers, shuffles.

All that computes is the Builder's own, so that the text is the CPU's but for where the
number of an item comes from; LLVM gives each float operation its rounding (`mul.rn`),
and so no assembler joins a product and a sum.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from treadle.engines.gpu.builder import DeviceBuilder
from treadle.engines.native.codegen.builder import BITS, F32, F64, I32, I64, PTR, Value

if TYPE_CHECKING:
    from treadle.engines.gpu.work import Work

SHUFFLE = "llvm.nvvm.shfl.sync"
BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"
REGISTERS = "llvm.nvvm.read.ptx.sreg"
WARP = 32  # items that go in step
ALIGNMENT = 16  # bytes, of shared memory


class PtxBuilder(DeviceBuilder):
    """One kernel under construction, and what it shares in its groups."""

    def __init__(self, work: Work) -> None:
        buffers = [(f"buffer{k}", PTR) for k in range(len(work.buffers))]
        numbers = [(f"number{k}", kind) for k, (_, kind) in enumerate(work.slots)]
        super().__init__(entry_of(work), [*buffers, *numbers])
        self.items = work.items
        self._globals: list[str] = []
        self._private: list[str] = []

    def text(self) -> str:
        """The module: declarations, shared memory, the kernel."""
        head = ", ".join(f"{t} %{n}" for n, t in self.parameters)
        body = "\n".join([self.lines[0], *self._private, *self.lines[1:]])
        declared = [*sorted(self.declared.values()), *self._globals]
        kernel = f"define ptx_kernel void @{self.name}({head}) #0 {{\n{body}\n}}"
        size = f'attributes #0 = {{ nounwind "nvvm.reqntid"="{self.items}" }}'
        return "\n".join([*declared, kernel, size, ""])

    # -- where an item is --------------------------------------------------------------

    def buffer(self, k: int) -> Value:
        return self.arguments[f"buffer{k}"]

    def slot(self, k: int, kind: str) -> Value:
        return self.arguments[f"number{k}"]

    def group(self) -> Value:
        return self._register("ctaid")

    def item(self) -> Value:
        return self._register("tid")

    def _register(self, name: str) -> Value:
        number = self.call(f"{REGISTERS}.{name}.x", I32, [])
        assert number is not None
        return self.convert("zext", number, I64)

    # -- memory ------------------------------------------------------------------------

    def barrier(self) -> None:
        self.call(BARRIER, "void", [Value("0", I32)])

    def shared(self, kind: str, count: int) -> Value:
        name = f"@shared{len(self._globals)}"
        start = f"{name} = internal addrspace(3) global"
        self._globals.append(f"{start} [{count} x {kind}] poison, align {ALIGNMENT}")
        return Value(f"addrspacecast (ptr addrspace(3) {name} to ptr)", PTR)

    def private(self, kind: str, count: int = 1) -> Value:
        name = f"%private{len(self._private)}"
        self._private.append(f"  {name} = alloca [{count} x {kind}], align 8")
        return Value(name, PTR)

    # -- lanes of a warp ---------------------------------------------------------------

    def folded(
        self, x: Value, lanes: int, combine: Callable[[Value, Value], Value]
    ) -> Value | None:
        if self.items > WARP:
            return None
        while lanes > 1:
            lanes //= 2
            x = combine(x, self._shuffled("down", x, lanes))
        return self._shuffled("idx", x, 0)

    def _shuffled(self, how: str, x: Value, place: int) -> Value:
        """The value of an item so many numbers "down", or of that number, "idx"."""
        if x.type == I32:
            every = (1 << self.items) - 1 if self.items < WARP else -1
            places = [Value(str(n), I32) for n in (place, WARP - 1)]
            shuffled = self.call(
                f"{SHUFFLE}.{how}.i32", I32, [Value(str(every), I32), x, *places]
            )
            assert shuffled is not None
            return shuffled
        if x.type in (F32, F64):
            whole = I32 if x.type == F32 else I64
            bits = self._shuffled(how, self.convert("bitcast", x, whole), place)
            return self.convert("bitcast", bits, x.type)
        if BITS[x.type] < 32:
            bits = self._shuffled(how, self.convert("zext", x, I32), place)
            return self.convert("trunc", bits, x.type)
        low = self.convert("trunc", x, I32)
        high = self.convert("trunc", self.lshr(x, self.i64(32)), I32)
        low, high = (
            self.convert("zext", self._shuffled(how, half, place), I64)
            for half in (low, high)
        )
        return self.or_(low, self.shl(high, self.i64(32)))


def entry_of(work: Work) -> str:
    """The name of a kernel in its module."""
    return "kernel_" + re.sub(r"\W", "_", work.name, flags=re.ASCII)


def text_of(work: Work) -> str:
    """The LLVM IR of a kernel, for any NVIDIA device."""
    builder = PtxBuilder(work)
    work.write(builder)
    builder.ret()
    return builder.text()
