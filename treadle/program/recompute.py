"""Duplication of cheap values into the kernels that read them, in place of storing.

An image less its mean, say, is as quickly computed from the image as it is read, if the
image lies in memory anyway: nothing is written, and nothing is kept for the gradient.
So are the floats that a weight of few bits stands for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import ge

from treadle.base.symbolic import at_least, is_same, plain
from treadle.base.types import Shape, TupleType, equal_shapes
from treadle.graph.leaves import Argument
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reached, uses
from treadle.loops.lower import is_virtual, recomputed
from treadle.ops.cast import Cast
from treadle.ops.compare import Comparison, Logical
from treadle.ops.contract import Contract
from treadle.ops.convolution import Conv
from treadle.ops.elementwise import Add, Multiply, Negative, Subtract
from treadle.ops.extrema import Prod
from treadle.ops.families import Elementwise, Movement, Reduction
from treadle.ops.flow import StopGradient
from treadle.ops.movement import Reshape
from treadle.ops.reduce import Sum
from treadle.ops.select import Maximum, Minimum, Select
from treadle.program.contract import is_widened

CHEAP = (
    *(Add, Subtract, Multiply, Negative, Maximum, Minimum),
    *(Select, Comparison, Logical, StopGradient),
)
LARGE = 4096  # elements: smaller values are kept, whatever they cost
FEW = 8  # an operand with so many times fewer elements counts for nothing
OPS = 8  # cheap ops that one value may take
ANY = 0  # axis, or several
NODES = 32  # that are looked at for the order of one sum
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
    if not kinds:
        return
    readers, folded = uses(nodes), _folded(nodes)
    ordering = _ordering(nodes, readers)
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

    for node in nodes:
        if type(node.op) not in kinds or not supported(node):
            continue
        # First what leaves no guard, and last what may.
        if not all(kept(x) for x in node.inputs if _is_as_large(x, node)):
            continue
        enough = ge if node.serial in ordering else at_least
        size = node.type.size
        if plain(size) < LARGE and not enough(size, LARGE):
            continue
        sizes = [(x, x.type.size * FEW) for x in node.inputs]
        large = {x.serial: x for x, most in sizes if not enough(size, most)}
        if not 1 <= len(large) <= 2:
            continue
        if any(not equal_shapes(x.type.shape, node.type.shape) for x in large.values()):
            continue
        ops = 1 + sum(cost.get(x.serial, 0) for x in large.values())
        many = len(large) > 1 and readers.get(node.serial, 0) > READERS
        if ops > OPS or many or not all(map(kept, large.values())):
            continue
        if enough(size, LARGE):
            cost[node.serial] = ops
            recomputed(node)


def _is_as_large(x: Tensor, node: Tensor) -> bool:
    """Whether an operand has the shape of a node, whatever the sizes are."""
    return _are_equal(x.type.shape, node.type.shape)


def _are_equal(own: Shape, shape: Shape) -> bool:
    return len(own) == len(shape) and all(map(is_same, own, shape))


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


def _ordering(nodes: Sequence[Tensor], readers: Mapping[int, int]) -> set[int]:
    """The nodes, by serial, on whose place the order of a sum hangs: along which axis a
    kernel runs, and which axes are one, is told by what it reads.
    """
    ordering: set[int] = set()
    for node in nodes:
        if type(node.op) in (Sum, Prod) and node.type.dtype.kind in "fV":
            (x,), axes = node.inputs, node.op.axes  # type: ignore[attr-defined]
            axis = axes[0] - x.type.ndim if len(axes) == 1 else ANY
            inside, others = _read_otherwise(x, axis, readers)
            # One operand across the rows outweighs none that lies along them.
            if others > (axis != ANY):
                ordering |= inside
    return ordering


def _read_otherwise(
    x: Tensor, axis: int, readers: Mapping[int, int]
) -> tuple[set[int], int]:
    """The nodes, by serial, that what is summed along an axis is computed from element
    by element in its kernel, and how many operands of these lie in another order there.
    """
    inside: set[int] = set()
    others: set[int] = set()
    stack = [(x, x.type.shape, axis)]
    while stack:
        x, shape, along = stack.pop()
        if isinstance(x.op, Movement) and is_same(x.type.size, math.prod(shape)):
            if inside and type(x.op) is not Reshape and _source(x).type.shape:
                others.add(x.serial)
            stack.append((x.inputs[0], x.inputs[0].type.shape, ANY))
        elif (
            isinstance(x.op, Elementwise)
            and (isinstance(x.op, CHEAP) or readers[x.serial] == 1)
            and len(inside) < NODES
        ):
            if x.serial not in inside:
                inside.add(x.serial)
                stack += [(y, shape, along) for y in x.inputs]
        elif _lies_otherwise(x.type.shape, shape, along):
            others.add(x.serial)
    return inside, len(others)


def _lies_otherwise(own: Shape, shape: Shape, axis: int) -> bool:
    """Whether a value has others side by side, along an axis or several, than one of
    another shape that is computed from it; a single number has none.
    """
    if all(is_same(n, 1) for n in own):
        return False
    if axis == ANY:
        return not _are_equal(own, shape)
    varies = len(own) >= -axis and not is_same(own[axis], 1)
    return varies and not is_same(own[-1], shape[-1])


def _folded(nodes: Sequence[Tensor]) -> set[int]:
    """The nodes, by serial, that are folded, with nothing but movement in between."""
    folds = [n for n in nodes if isinstance(n.op, Reduction)]
    roots = [x for n in folds if not isinstance(n.type, TupleType) for x in n.inputs]
    folded = reached(roots, lambda x: x.inputs if isinstance(x.op, Movement) else ())
    return {x.serial for x in folded}
