"""Looking down: a graph as kernels, a program, LLVM IR and assembly."""

from __future__ import annotations

from typing import Any

from treadle.base import trees
from treadle.base.options import current
from treadle.engines.base import Lowered, engine
from treadle.graph.leaves import as_tensor
from treadle.graph.text import text
from treadle.graph.traversal import pending

__all__ = ["latest_program", "lower"]


def lower(*tensors: Any) -> Lowered:
    """What tensors (or trees of them) become on the way to machine code; runs nothing.

    `.graph`, `.kernels`, `.program`, `.llvm` and `.asm` are texts, each made from the
    one before; `.memory` tells of the arena, `.fallbacks` of ops without a kernel.

    >>> import treadle as td
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

    >>> import treadle as td
    >>> _ = (td.asarray([1.0]) * 2.0).numpy()
    >>> td.latest_program().fallbacks
    ()
    """
    return engine(current().engine).latest()
