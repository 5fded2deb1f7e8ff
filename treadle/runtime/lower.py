"""Looking down: a graph as kernels, a program, LLVM IR and assembly; the caches."""

from __future__ import annotations

from typing import Any

from treadle.base import trees
from treadle.base.options import current
from treadle.engines.base import engine
from treadle.engines.lowered import CacheInfo, Lowered
from treadle.graph.leaves import as_tensor
from treadle.graph.text import text
from treadle.graph.traversal import pending

__all__ = ["cache_info", "clear_cache", "latest_program", "lower"]


def lower(*tensors: Any) -> Lowered:
    """The program of tensors (or trees of them), down to machine code; runs nothing.

    `.graph`, `.kernels`, `.program`, `.llvm` and `.asm` are texts, each made from the
    one before; `.memory` tells of the arena, `.fallbacks` of ops without a kernel.

    >>> x = td.asarray([1.0, 2.0])
    >>> print(td.lower(x * 2.0).program)
    b0: float32[2] argument
    b1: float32[2] result
    0: b1 = multiply(b0)
    return b1
    """
    leaves, _ = trees.flatten(tensors)
    roots = [as_tensor(leaf) for leaf in leaves]
    nodes = pending(roots)
    keep = {node.serial for node in roots if node.stored is None}
    return engine(current().engine).lower(nodes, keep, text(roots))


def latest_program() -> Lowered | None:
    """The program that ran last on the thread's engine; None if there was none.

    >>> _ = (td.asarray([1.0]) * 2.0).numpy()
    >>> td.latest_program().fallbacks
    ()
    """
    return engine(current().engine).latest()


def cache_info(disk: bool = False) -> CacheInfo:
    """Programs and kernels that are kept: how many, their bytes, hits and misses; and
    every other cache by name, with its entries and how many there are at most.

    Files on disk are counted with `disk` alone, for there may be very many.

    >>> _ = (td.asarray([1.0]) * 2.0).numpy()
    >>> before = td.cache_info()
    >>> _ = (td.asarray([3.0]) * 2.0).numpy()  # other data, the same structure
    >>> after = td.cache_info()
    >>> after.hits - before.hits, after.misses - before.misses
    (1, 0)
    """
    return engine(current().engine).cache_info(bool(disk))


def clear_cache(disk: bool = False) -> None:
    """Forget all programs and kernels and empty every other cache, with `disk` also
    what is on disk. What a function of the user's has traced stays.

    >>> td.clear_cache()
    >>> td.cache_info().programs
    0
    """
    engine(current().engine).clear_cache(bool(disk))
