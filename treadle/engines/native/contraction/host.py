"""What the code of a contraction depends on in the machine it runs on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import llvmlite.binding as llvm

__all__ = ["Host", "host"]


@dataclass(frozen=True)
class Host:
    """Vector registers (bytes each, how many), fused multiply-add, cache bytes."""

    vector: int
    registers: int
    fused: bool
    level1: int = 32 << 10
    level2: int = 1 << 20

    def lanes(self, dtype: str) -> int:
        """Elements of "float" or "double" in a vector register."""
        return self.vector // (4 if dtype == "float" else 8)


@lru_cache
def host() -> Host:
    """The machine this process runs on."""
    features = llvm.get_host_cpu_features()
    triple = llvm.get_process_triple()
    if features.get("avx512f"):
        return Host(64, 32, True, 48 << 10)
    if features.get("avx"):
        return Host(32, 16, bool(features.get("fma")))
    if triple.startswith(("aarch64", "arm64")):
        return Host(16, 32, True)
    return Host(16, 16, bool(features.get("fma")))
