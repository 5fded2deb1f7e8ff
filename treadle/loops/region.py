"""The region of a kernel: its nodes, with their loops and passes over rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reached
from treadle.loops.index import LoopAxis
from treadle.loops.lower import At, is_virtual
from treadle.ops.families import Reduction


@dataclass
class Region:
    """Nodes that one kernel computes, and where in its loops each one stands.

    `placement` gives the indices of a node in terms of the axes, and `reads` those at
    which a reduction reads its operand; nodes whose indices leave out the inner axes
    are computed once a row. Rows along `turns` follow each other: columns are folded
    along them, beside the folds of rows.
    """

    axes: tuple[LoopAxis, ...]
    inner: frozenset[LoopAxis] = frozenset()
    turns: frozenset[LoopAxis] = frozenset()
    reads: dict[int, At] = field(default_factory=dict)  # where reductions read
    nodes: list[Tensor] = field(default_factory=list)
    placement: dict[int, At] = field(default_factory=dict)

    @property
    def rows(self) -> tuple[LoopAxis, ...]:
        return tuple(a for a in self.axes if a not in self.inner)

    def is_full(self, node: Tensor) -> bool:
        """Whether a node has a value for each step of the inner loops."""
        at = self.placement[node.serial]
        return any(a in self.inner for i in at for a in i.axes())

    def folds(self, node: Tensor) -> bool:
        """Whether a node is folded in the inner loops; a sum of one term is not."""
        if not isinstance(node.op, Reduction):
            return False
        at = self.reads[node.serial]
        return any(a in self.inner for k in node.op.axes for a in at[k].axes())

    def gathers(self, node: Tensor) -> bool:
        """Whether a node is folded from row to row, where its result lies."""
        if not isinstance(node.op, Reduction):
            return False
        at = self.reads[node.serial]
        return any(a in self.turns for k in node.op.axes for a in at[k].axes())


def passes(region: Region) -> dict[int, int]:
    """The number of passes over the inner loops before each node is known."""
    depth: dict[int, int] = {}
    for node in region.nodes:
        before = [depth.get(x.serial, 0) for x in read_by(node)]
        depth[node.serial] = max(before, default=0) + region.folds(node)
    return depth


def read_by(node: Tensor) -> Nodes:
    """The nodes whose values a node is computed from, movement looked through."""
    every = reached(node.inputs, lambda x: x.inputs if is_virtual(x) else ())
    return Nodes(x for x in every if not is_virtual(x))


class Nodes(list[Tensor]):
    """Nodes, told apart by identity."""

    def __contains__(self, node: object) -> bool:
        return any(x is node for x in self)
