"""Many arrays joined into one: each is copied to where it belongs.

Few are one expression that chooses among them, and take part in what is around. With
each operand more that costs a load and a choice for every element.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels, nested
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import Kernel, KernelArgument, Load, Store
from treadle.loops.lower import At, Strides, flat, is_virtual, placed, unflatten
from treadle.ops.join import Concat
from treadle.ops.movement import PermuteDims, Reshape

# A node that is copied, loops over its elements, and where these lie in another node.
Piece = tuple[Tensor, list[LoopAxis], At]


def pieces(x: Tensor) -> list[Piece]:
    """What a node is joined of, if no more is done than to reshape and permute that;
    the node itself if more is done.
    """
    if is_virtual(x) and type(x.op) is Concat:
        return joined(x)
    if is_virtual(x) and isinstance(x.op, (Reshape, PermuteDims)):
        inner = pieces(x.inputs[0])
        moved = [(part, axes, moved_by(x, at)) for part, axes, at in inner]
        if all(part.type.shape and _is_linear(at) for part, _, at in moved):
            return moved
    axes = [LoopAxis(f"i{k}", n) for k, n in enumerate(x.type.shape)]
    return [(x, axes, tuple(map(Index.of, axes)))]


def joined(node: Tensor) -> list[Piece]:
    """The pieces of the operands of a join, in order."""
    axis = node.op.axis  # type: ignore[attr-defined]
    every: list[Piece] = []
    start = 0
    for x in node.inputs:
        for part, axes, at in pieces(x):
            place = (*at[:axis], at[axis] + start, *at[axis + 1 :])
            every.append((part, axes, place))
        start += x.type.shape[axis]
    return every


def moved_by(step: Tensor, at: At) -> At:
    """Where the element at `at` of its operand lies in a reshape or permutation."""
    if isinstance(step.op, PermuteDims):
        return tuple(at[k] for k in step.op.order)
    return unflatten(flat(at, step.inputs[0].type.shape), step.type.shape)


def _is_linear(at: At) -> bool:
    return all(isinstance(atom, LoopAxis) for i in at for atom, _ in i.terms)


def _copies(node: Tensor, strides: Strides) -> Kernels:
    kernels: Kernels = []
    for x, axes, target in joined(node):
        if not x.type.size:
            continue
        load = Load(0, placed([*map(Index.of, axes)], strides(x)), x.type.dtype)
        store = Store(1, placed(target, strides(node)), load)
        loops = nested([a for a in axes if a.extent != 1], (store,), "parallel")
        arguments = KernelArgument(x.type.dtype), KernelArgument(node.type.dtype, True)
        kernels.append((Kernel("join", arguments, loops), [x, node]))
    return kernels


JOINS: dict[type[Op], Callable[[Tensor, Strides], Kernels]] = {Concat: _copies}
