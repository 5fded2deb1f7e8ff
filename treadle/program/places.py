"""Read positions: where nodes read each other, over the loops of a kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from treadle.base.caches import cached
from treadle.base.types import Shape, equal_shapes
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index, LoopAxis
from treadle.loops.join import moved_by
from treadle.loops.lower import At, broadcast, flat, is_virtual, unflatten
from treadle.ops.families import Elementwise, Movement
from treadle.ops.movement import BroadcastTo, PermuteDims, Reshape


@cached(4096)
def domain(shape: Shape) -> tuple[tuple[LoopAxis, ...], At]:
    """A loop for each dimension longer than 1, and the indices of an element."""
    axes = [LoopAxis(f"i{k}", n) for k, n in enumerate(shape)]
    return tuple(a for a in axes if a.extent != 1), tuple(map(Index.of, axes))


def sources(node: Tensor, at: At | None) -> Iterator[tuple[Tensor, At | None]]:
    """The computed nodes that an operand leads to, and where each of them is read.

    None where they are not read one for one, as by a gather or at a border.
    """
    stack = [(node, at)]
    while stack:
        x, here = stack.pop()
        if not is_virtual(x):
            yield x, here
            continue
        for k, operand in enumerate(x.inputs):
            place: At | None = None
            if here is not None and isinstance(x.op, Elementwise):
                place = broadcast(here, operand.type.shape)
            elif here is not None and isinstance(x.op, Movement) and k == 0:
                place = tuple(Index.of(i) for i in x.op.index(here, operand.type))
            stack.append((operand, place))


def producers(x: Tensor) -> Sequence[Tensor]:
    """The computed nodes that an operand leads to, the last first."""
    if not is_virtual(x):
        return (x,)
    computed, stack = [], [x]
    while stack:
        node = stack.pop()
        if is_virtual(node):
            stack += node.inputs
        else:
            computed.append(node)
    return computed


def operand_places(node: Tensor, at: At) -> list[tuple[Tensor, At | None]]:
    """Each operand of a node with the indices it is read at, if they are such."""
    if isinstance(node.op, Elementwise):
        return [(x, broadcast(at, x.type.shape)) for x in node.inputs]
    return [(x, None) for x in node.inputs]


def carried_up(x: Tensor, producer: Tensor, at: At) -> At | None:
    """The placement of an operand whose producer stands at `at`.

    Only through reshapes and permutations, which lose and repeat nothing, and through
    what is computed element by element where it is read.
    """
    chain = []
    while x is not producer:
        if isinstance(x.op, Elementwise):
            same = [i for i in x.inputs if equal_shapes(i.type.shape, x.type.shape)]
            x = next((i for i in same if _leads_to(i, producer)), producer)
            if x is producer and not any(i is producer for i in same):
                return None
            continue
        if not isinstance(x.op, (Reshape, PermuteDims, BroadcastTo)):
            return None
        chain.append(x)
        (x,) = x.inputs
    for step in reversed(chain):
        (inner,) = step.inputs
        if inner.type.size != step.type.size:
            return None
        at = moved_by(step, at)
    return at


def _leads_to(x: Tensor, producer: Tensor) -> bool:
    return any(p is producer for p, _ in sources(x, None))


def run_of(axes: Sequence[LoopAxis]) -> Index:
    """The number of a step of nested loops."""
    return flat([Index.of(a) for a in axes], tuple(a.extent for a in axes))


@cached(4096)
def run_through(axes: tuple[LoopAxis, ...], shape: Shape) -> At:
    """The indices of the elements that nested loops run through, one after another."""
    return unflatten(run_of(axes), shape)
