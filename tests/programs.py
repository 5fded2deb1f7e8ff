"""Programs of graphs, and what interpreting their kernels gives, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.interpreter import interpret
from tests.verifier import kernel_problems
from treadle.engines.native.translation.translate import claimed, supported
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import pending
from treadle.loops.parameters import bound
from treadle.program.build import drafts
from treadle.program.program import Launch, Program
from treadle.rewrite.expand import Expanded, expand


def built(graph: Expanded, vector_bytes: int = 64) -> Program:
    """The program of an expanded graph, on a host with vectors of so many bytes."""
    found = drafts(graph.arguments, graph.roots, graph.nodes(), supported, vector_bytes)
    return next(found).build()


def program_of(*roots: Tensor, vector_bytes: int = 64) -> Program:
    """The program that computes roots, with no rule applied."""
    graph = expand(pending(roots), {}, {r.serial for r in roots}, claimed)
    return built(graph, vector_bytes)


def kernels_of(program: Program) -> list[Launch]:
    return [s for s in program.steps if isinstance(s, Launch)]


def interpreted(program: Program, arrays: Sequence[Any]) -> dict[int, Any]:
    """The results of a program of kernels alone for its arguments, flat, by serial."""
    memory: dict[int, Any] = {
        b.number: np.zeros(b.type.size, b.type.dtype) for b in program.buffers
    }
    given = [*zip(program.arguments, arrays, strict=True), *program.constants]
    for n, a in given:
        memory[n] = np.ascontiguousarray(a).reshape(-1).copy()
    for step in kernels_of(program):
        kernel = bound(step.kernel, step.integers)
        assert kernel_problems(kernel) == []
        interpret(kernel, [memory[n] for n in step.buffers])
    return {serial: memory[n] for serial, n, _ in program.results}
