"""Kernels of single ops, which are fused with no others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from treadle.base.types import TupleType
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels
from treadle.loops.join import JOINS
from treadle.loops.lower import Strides
from treadle.loops.order import ORDERS
from treadle.loops.recurrence import may_be_recurrence, recurrence_kernel
from treadle.loops.scan import SCANS
from treadle.loops.scatter import SCATTERS
from treadle.loops.segments import SEGMENTS
from treadle.loops.unpool import max_pool_gradient
from treadle.loops.window import few_taps
from treadle.ops.families import Output
from treadle.ops.loop import Scan
from treadle.ops.pool import MaxPoolGradient
from treadle.program.program import BodyProgram
from treadle.rewrite.expand import Expanded

# Kernels of single ops; None where one has none for its operands.
KERNELS: dict[type[Op], Callable[[Tensor, Strides], Kernels | None]] = {
    MaxPoolGradient: max_pool_gradient,
    **JOINS,
    **SCATTERS,
    **SCANS,
    **ORDERS,
    **SEGMENTS,
}


@dataclass(frozen=True)
class Bodies:
    """What becomes of the bodies of an op: programs of their own, or the graph of a
    loop's, as it may be part of a kernel; and of which ops kernels may be made at all.
    """

    programs: Callable[[Op], tuple[BodyProgram, ...]] = lambda op: ()
    graph: Callable[[Scan], Expanded | None] = lambda op: None
    computes: Callable[[Tensor], bool] = lambda node: True


def results_of(node: Tensor, nodes: Iterable[Tensor]) -> list[Tensor]:
    """What an op computes: of one that has several, those among the `nodes` and new
    ones."""
    if not isinstance(node.type, TupleType):
        return [node]
    results = {
        n.op.position: n
        for n in nodes
        if isinstance(n.op, Output) and n.inputs[0] is node
    }
    return [
        results[k] if k in results else Tensor(Output(k), (node,), t)
        for k, t in enumerate(node.type)
    ]


def kernels_of(
    node: Tensor, results: Sequence[Tensor], strides: Strides, inner: Bodies
) -> Kernels | None:
    """The kernels of an op on types that loops compute with, if it has some."""
    if not inner.computes(node):
        return None
    if isinstance(node.op, Scan):
        graph = inner.graph(node.op) if may_be_recurrence(node.op) else None
        return (
            None if graph is None else recurrence_kernel(node, graph, results, strides)
        )
    rule = KERNELS.get(type(node.op))
    if rule is None or not few_taps(node.op):
        return None
    kinds = {x.type.dtype.kind for x in (*node.inputs, node)}
    return None if "c" in kinds else rule(node, strides)
