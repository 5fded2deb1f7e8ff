"""The machine model of a contraction: facts of the host that its code depends on."""

from __future__ import annotations

from dataclasses import dataclass

from treadle.base.caches import cached
from treadle.engines.native.system.host import Host, host


@dataclass(frozen=True)
class Machine:
    """Vector registers: bytes of each and their number; a fused multiply-add; `quads`
    where four products of bytes and their sum are one instruction (AVX512-VNNI),
    `pairs` where two of bfloat16 are (AVX512-BF16).

    Machines with 64-byte vectors are those of AVX-512, where a masked load or store
    costs what a plain one does.
    """

    vector: int
    registers: int
    fused: bool
    quads: bool = False
    pairs: bool = False

    @property
    def crowded(self) -> bool:
        """Whether the near caches have few ways, as beside 32-byte vectors: lines that
        fall on the same place push each other out.
        """
        return self.vector == 32

    @property
    def masks(self) -> bool:
        return self.vector == 64

    def lanes(self, dtype: str) -> int:
        """Elements of "float", "double" or "i32" in a vector register."""
        return self.vector // (8 if dtype == "double" else 4)


def machine() -> Machine:
    """The machine code is generated for now."""
    return _machine(host())


@cached(128)
def _machine(processor: Host) -> Machine:
    if processor.triple.startswith(("aarch64", "arm64")):
        return Machine(16, 32, True)
    registers = 32 if processor.vector_bytes == 64 else 16
    quads, pairs = (
        processor.has(feature) and processor.vector_bytes == 64
        for feature in ("avx512vnni", "avx512bf16")
    )
    fused = processor.has("fma")
    return Machine(processor.vector_bytes, registers, fused, quads, pairs)
