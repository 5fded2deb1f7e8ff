"""Values added at positions that are data: one position after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.dtypes import bool_
from treadle.base.types import Shape
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels, nested, zeros
from treadle.loops.index import Datum, Index, LoopAxis
from treadle.loops.kernel import (
    Apply,
    Const,
    Counter,
    Expression,
    Kernel,
    KernelArgument,
    Load,
    Store,
)
from treadle.loops.lower import Strides, placed
from treadle.ops.compare import Less
from treadle.ops.elementwise import Add, Multiply
from treadle.ops.gather import Unindex
from treadle.ops.lookup import RowsToDense
from treadle.ops.pick import PutAlong
from treadle.ops.scatter import IndexFold, IndexSet
from treadle.ops.select import Maximum, Minimum, Select

COPY = "copy"  # a step left out where source and target are one
_ADD = Add()


def _position(ids: Load, extent: int, negative: bool) -> Index:
    """A position read from data, counted from the end where it is negative."""
    value: Expression = ids
    if negative and ids.dtype.kind == "i":
        below = Apply(Less(), (value, Const(0, ids.dtype)), bool_)
        size = Counter(Index.of(extent), ids.dtype)
        wrapped = Apply(Add(), (value, size), ids.dtype)
        value = Apply(Select(), (below, wrapped, value), ids.dtype)
    return Index(((Datum(value, extent), 1),))


def _added(
    node: Tensor,
    values: Tensor,
    ids: list[Tensor],
    axes: Sequence[LoopAxis],
    ordered: Sequence[LoopAxis],
    target: Sequence[Index],
    strides: Strides,
    combine: Op | None = _ADD,
) -> Kernels:
    """Zeros, then values[axes] added at `target`; `ordered` axes run one by one."""
    place = placed([Index.of(a) for a in axes], strides(values))
    count = len(ids)
    store = Store(
        count + 1,
        placed(target, strides(node)),
        Load(count, place, values.type.dtype),
        combine,
    )
    inner = nested([a for a in ordered if a.extent != 1], (store,), "serial")
    outer = [a for a in axes if a not in ordered and a.extent != 1]
    loops = nested(outer, inner, "parallel")
    arguments = [KernelArgument(x.type.dtype) for x in (*ids, values)]
    arguments.append(KernelArgument(node.type.dtype, True))
    kernel = Kernel(node.op.name.lower(), tuple(arguments), loops, ordered=True)
    return [zeros(node, strides), (kernel, [*ids, values, node])]


def _rows(node: Tensor, strides: Strides) -> Kernels:
    ids, values = node.inputs
    axes = [LoopAxis(f"i{k}", n) for k, n in enumerate(values.type.shape)]
    rank = ids.type.ndim
    at = [Index.of(a) for a in axes]
    load = Load(0, placed(at[:rank], strides(ids)), ids.type.dtype)
    row = _position(load, node.type.shape[0], False)
    return _added(node, values, [ids], axes, axes[:rank], [row, *at[rank:]], strides)


def _put_along(node: Tensor, strides: Strides) -> Kernels:
    values, ids = node.inputs
    op: Any = node.op
    axes = [LoopAxis(f"i{k}", n) for k, n in enumerate(values.type.shape)]
    at = [Index.of(a) for a in axes]
    load = Load(0, placed(at, strides(ids)), ids.type.dtype)
    target = list(at)
    target[op.axis] = _position(load, op.extent, not op.labels)
    return _added(node, values, [ids], axes, [axes[op.axis]], target, strides)


def _unindex(node: Tensor, strides: Strides) -> Kernels:
    values, *ids = node.inputs
    op: Any = node.op
    axes, here, target = _targets(op, op.place, values, ids, op.shape, strides)
    return _added(node, values, ids, axes, here, target, strides)


def _targets(
    op: Any,
    start: int,
    values: Tensor,
    ids: list[Tensor],
    shape: Shape,
    strides: Strides,
) -> tuple[list[LoopAxis], list[LoopAxis], list[Index]]:
    """The loops over values, those over positions, and where each value goes."""
    axes = [LoopAxis(f"i{k}", n) for k, n in enumerate(values.type.shape)]
    at = [Index.of(a) for a in axes]
    rank = max(i.type.ndim for i in ids)
    here = axes[start : start + rank]
    rest = iter([*at[:start], *at[start + rank :]])
    places = {}
    for k, (axis, i) in enumerate(zip(op.axes, ids, strict=True)):
        indices = [Index.of(a) for a in here[rank - i.type.ndim :]]
        indices = [
            Index() if n == 1 else x for n, x in zip(i.type.shape, indices, strict=True)
        ]
        load = Load(k, placed(indices, strides(i)), i.type.dtype)
        places[axis] = _position(load, shape[axis], True)
    target = [places[k] if k in places else next(rest) for k in range(len(shape))]
    return axes, here, target


def _index_set(node: Tensor, strides: Strides, combine: Op | None = None) -> Kernels:
    """The operand copied, then its elements at the positions replaced, one by one."""
    x, values, *ids = node.inputs
    op: Any = node.op
    whole = [LoopAxis(f"i{k}", n) for k, n in enumerate(x.type.shape)]
    place = [Index.of(a) for a in whole]
    load = Load(0, placed(place, strides(x)), x.type.dtype)
    store = Store(1, placed(place, strides(node)), load)
    loops = nested([a for a in whole if a.extent != 1], (store,), "parallel")
    arguments = (KernelArgument(x.type.dtype), KernelArgument(node.type.dtype, True))
    copy = Kernel(COPY, arguments, loops), [x, node]
    axes, here, target = _targets(op, op.place, values, ids, x.type.shape, strides)
    kernels = _added(node, values, ids, axes, here, target, strides, combine)
    return [copy, kernels[-1]]


def _index_fold(node: Tensor, strides: Strides) -> Kernels:
    op: Any = node.op
    return _index_set(node, strides, FOLDS[op.mode])


FOLDS: dict[str, Op] = {"multiply": Multiply(), "max": Maximum(), "min": Minimum()}
SCATTERS: dict[type[Op], Callable[[Tensor, Strides], Kernels]] = {
    RowsToDense: _rows,
    PutAlong: _put_along,
    Unindex: _unindex,
    IndexSet: _index_set,
    IndexFold: _index_fold,
}
