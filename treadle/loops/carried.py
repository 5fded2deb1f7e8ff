"""Loops of a user's whose bodies are element-wise: one kernel, the state in registers.

Each element of the state goes its own way through all steps, one after the other: what
is carried are accumulators, which all change at once at the end of a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from treadle.base.dtypes import bool_, float32, float64, int32, int64
from treadle.base.types import Shape, Type
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels, nested
from treadle.loops.index import Axis, Index
from treadle.loops.kernel import (
    Accumulator,
    Apply,
    Argument,
    Expression,
    Fold,
    Folded,
    Guard,
    Inside,
    Kernel,
    Literal,
    Load,
    Loop,
    Statement,
    Store,
)
from treadle.loops.lower import At, Lowering, Strides, broadcast, is_virtual, placed
from treadle.ops.families import Elementwise
from treadle.ops.loop import Scan
from treadle.ops.select import Select
from treadle.rewrite.expand import Expanded

__all__ = ["carried_loop", "may_be_carried"]

COMPUTED = 4096  # nodes of a body that is one kernel, at most
_DTYPES = (bool_, int32, int64, float32, float64)


def may_be_carried(op: Scan) -> bool:
    """Whether a loop looks as if its body was element-wise, by its types alone."""
    whole = _shape_of(op)
    if whole is None or op.draws or not op.length:
        return False
    types = [x.type for x in op.body.arguments] + list(op.body.types)
    if not all(isinstance(t, Type) and t.dtype in _DTYPES for t in types):
        return False
    made = op.body.types if math.prod(whole) > 1 else ()
    return all(_spreads(t.shape, whole) for t in types) and all(
        t.shape == whole for t in made
    )


def carried_loop(
    node: Tensor, graph: Expanded, results: Sequence[Tensor], strides: Strides
) -> Kernels | None:
    """The kernel of a Scan whose body is this graph, with nodes for its results; None
    where more is done there than elements are computed.
    """
    computed = [x for x in graph.nodes() if x.inputs]
    plain = all(isinstance(x.op, Elementwise) or is_virtual(x) for x in computed)
    if not plain or len(computed) > COMPUTED:
        return None
    if not all(isinstance(x.type, Type) and x.type.dtype in _DTYPES for x in computed):
        return None
    op: Scan = node.op  # type: ignore[assignment]
    whole = _shape_of(op)
    assert whole is not None
    axes = [Axis(f"i{k}", n) for k, n in enumerate(whole)]
    at: At = tuple(
        [Index() if n == 1 else Index.of(a) for n, a in zip(whole, axes, strict=True)]
    )
    along = Axis("t", op.length)
    step = Index.of(along)
    now = along.extent - 1 - step if op.reverse else step
    own = [Accumulator(k, None, 0, x.type.dtype) for k, x in enumerate(_carries(op))]
    given = _given(node, own, at, step, now, strides)
    values = _values(op, graph, given, at)
    if values is None:
        return None
    first, count = len(node.inputs), op.carries
    inside: list[Statement] = []
    for k in range(count, len(results)):
        y = results[k]
        place = placed((now, *_at(at, y.type.shape[1:])), strides(y))
        inside.append(Store(first + k, place, values[k]))
    inside += [Fold(a, x) for a, x in zip(own, values[:count], strict=True)]
    loop = Loop(along, tuple(inside), "serial", folds=tuple(own))
    last = [
        Store(
            first + k,
            placed(_at(at, y.type.shape), strides(y)),
            Folded(own[k], own[k].dtype),
        )
        for k, y in enumerate(results[:count])
    ]
    arguments = [Argument(x.type.dtype) for x in node.inputs]
    arguments += [Argument(y.type.dtype, True) for y in results]
    rest = [a for a in axes if a.extent != 1]
    body = nested(rest, (loop, *last), "parallel")
    kernel = Kernel("loop", tuple(arguments), body, ordered=True)
    return [(kernel, [*node.inputs, *results])]


def _carries(op: Scan) -> list[Tensor]:
    return list(op.body.arguments[: op.carries])


def _shape_of(op: Scan) -> Shape | None:
    """The shape that the carries have in common; None where they have not."""
    shapes = {x.type.shape for x in _carries(op)}
    large = {s for s in shapes if math.prod(s) > 1}
    if not shapes or len(large) > 1 or (large and len(shapes) > 1):
        return None
    return large.pop() if large else max(shapes, key=len)


def _spreads(shape: Shape, whole: Shape) -> bool:
    """Whether a value is read at one place for each element of the whole."""
    own = whole[len(whole) - len(shape) :]
    return len(shape) <= len(whole) and all(
        n in (1, m) for n, m in zip(shape, own, strict=True)
    )


def _at(at: At, shape: Shape) -> At:
    """Where an element of the whole reads a value of this shape."""
    return broadcast(at, shape)


def _given(
    node: Tensor,
    own: Sequence[Accumulator],
    at: At,
    step: Index,
    now: Index,
    strides: Strides,
) -> list[tuple[At, Expression]]:
    """What the arguments of the body are in a step, and where."""
    op: Scan = node.op  # type: ignore[assignment]
    begins = Inside((Guard(step, 0, 1),), bool_)
    found: list[tuple[At, Expression]] = []
    for k, (x, argument) in enumerate(zip(node.inputs, op.body.arguments, strict=True)):
        place, dtype = _at(at, argument.type.shape), x.type.dtype
        if op.carries <= k < op.carries + op.scanned:
            row = placed((now, *place), strides(x))
            found.append((place, Load(k, row, dtype)))
            continue
        value: Expression = Load(k, placed(place, strides(x)), dtype)
        if k < op.carries:
            value = Apply(Select(), (begins, value, Folded(own[k], dtype)), dtype)
        found.append((place, value))
    return found


def _values(
    op: Scan, graph: Expanded, given: Sequence[tuple[At, Expression]], at: At
) -> list[Expression] | None:
    """What a body returns, of what it is given; None where it looks elsewhere."""
    lowering = Lowering(lambda node: None)
    place = {x.serial: k for k, x in enumerate(op.body.arguments)}
    for leaf, argument in zip(graph.leaves, graph.arguments, strict=True):
        k = place.get(leaf.serial)
        if k is not None:
            lowering.known[argument.serial] = given[k]
            continue
        number = leaf.array
        if number is None or leaf.type.shape:
            return None
        literal = Literal(number[()], leaf.type.dtype)
        lowering.known[argument.serial] = (), literal
    roots = [graph.roots[y.serial] for y in op.body.outputs]
    try:
        for x in graph.nodes():  # one after the other: bodies are deep
            if isinstance(x.op, Elementwise):
                lowering.value(x, _at(at, x.type.shape))
        return [lowering.value(x, _at(at, x.type.shape)) for x in roots]
    except KeyError:  # a neighbor of what is given: no rule says what that is
        return None
