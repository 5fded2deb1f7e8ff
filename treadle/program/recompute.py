"""Duplication of cheap values into the kernels that read them, in place of storing.

An image less its mean, say, is as quickly computed from the image as it is read, if the
image lies in memory anyway: nothing is written, and nothing is kept for the gradient.
So are the floats that a weight of few bits stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle.base.symbolic import at_least
from treadle.base.types import TupleType
from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reached, uses
from treadle.loops.lower import is_virtual, recomputed
from treadle.ops.cast import Cast
from treadle.ops.compare import Comparison, Logical
from treadle.ops.contract import Contract
from treadle.ops.convolution import Conv
from treadle.ops.elementwise import Add, Multiply, Negative, Subtract
from treadle.ops.families import Elementwise, Movement, Reduction
from treadle.ops.flow import StopGradient
from treadle.ops.select import Maximum, Minimum, Select
from treadle.program.contract import is_widened

CHEAP = (
    *(Add, Subtract, Multiply, Negative, Maximum, Minimum),
    *(Select, Comparison, Logical, StopGradient),
)
LARGE = 4096  # elements: smaller values are kept, whatever they cost
FEW = 8  # an operand with so many times fewer elements counts for nothing
OPS = 8  # cheap ops that one value may take
READERS = 3  # of a value of two operands: with more it is better kept


def recompute(nodes: Sequence[Tensor], supported: Callable[[Tensor], bool]) -> None:
    """Mark the nodes that are to be computed where they are read."""
    for node in nodes:
        if _is_cast(node, supported) and _in_memory(node.inputs[0]):
            recomputed(node)
        if type(node.op) is Contract:
            casts = [_source(x) for x in node.inputs]
            if all(
                _is_cast(x, supported) for x in casts
            ):  # it reads both as they are narrow
                for x in casts:
                    recomputed(x)
    kinds = {k for k in {type(n.op) for n in nodes} if issubclass(k, CHEAP)}
    cheap = [n for n in nodes if type(n.op) in kinds and at_least(n.type.size, LARGE)]
    if not cheap:
        return
    readers, folded = uses(nodes), _folded(nodes)
    cost: dict[int, int] = {}  # cheap ops that a marked node takes

    def kept(x: Tensor) -> bool:
        """Whether a value lies in memory whatever is decided here."""
        while isinstance(x.op, Movement) and is_virtual(x) and x.serial not in cost:
            x = x.inputs[0]
        if x.serial in cost or x.stored is not None or isinstance(x.op, Argument):
            return True
        if isinstance(x.op, (Elementwise, Contract, Conv)):
            # What such a step makes might never be written, but for a fold.
            return x.serial in folded
        return True

    for node in cheap:
        if not supported(node):
            continue
        size = node.type.size
        sizes = [(x, x.type.size * FEW) for x in node.inputs]
        large = {x.serial: x for x, most in sizes if not at_least(size, most)}
        if not 1 <= len(large) <= 2:
            continue
        if any(x.type.shape != node.type.shape for x in large.values()):
            continue
        ops = 1 + sum(cost.get(x.serial, 0) for x in large.values())
        many = len(large) > 1 and readers.get(node.serial, 0) > READERS
        if ops <= OPS and not many and all(map(kept, large.values())):
            cost[node.serial] = ops
            recomputed(node)


def _is_cast(x: Tensor, supported: Callable[[Tensor], bool]) -> bool:
    """Return True if a node widens what lies there and a kernel can do it."""
    return type(x.op) is Cast and is_widened(x) and supported(x)


def _in_memory(x: Tensor) -> bool:
    """Whether a value lies in memory before the program runs, however it is seen."""
    x = _source(x)
    return x.stored is not None or isinstance(x.op, Argument)


def _source(x: Tensor) -> Tensor:
    """The value that is seen in another shape or order."""
    while isinstance(x.op, Movement):
        x = x.inputs[0]
    return x


def _folded(nodes: Sequence[Tensor]) -> set[int]:
    """The nodes, by serial, that are folded, with nothing but movement in between."""
    folds = [n for n in nodes if isinstance(n.op, Reduction)]
    roots = [x for n in folds if not isinstance(n.type, TupleType) for x in n.inputs]
    folded = reached(roots, lambda x: x.inputs if isinstance(x.op, Movement) else ())
    return {x.serial for x in folded}
