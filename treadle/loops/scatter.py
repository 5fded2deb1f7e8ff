"""Values added at positions that are data: one position after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.dtypes import bool_
from treadle.graph.op import Op
from treadle.graph.tensor import Tensor
from treadle.loops.fill import Kernels, nested, zeros
from treadle.loops.index import Axis, Datum, Index
from treadle.loops.kernel import (
    Apply,
    Argument,
    Counter,
    Expression,
    Kernel,
    Literal,
    Load,
    Store,
)
from treadle.loops.lower import Strides, placed
from treadle.ops.compare import Less
from treadle.ops.elementwise import Add
from treadle.ops.gather import Unindex
from treadle.ops.lookup import RowsToDense
from treadle.ops.pick import PutAlong
from treadle.ops.select import Select

__all__ = ["SCATTERS"]


def _position(ids: Load, extent: int, negative: bool) -> Index:
    """A position read from data, counted from the end where it is negative."""
    value: Expression = ids
    if negative and ids.dtype.kind == "i":
        below = Apply(Less(), (value, Literal(0, ids.dtype)), bool_)
        size = Counter(Index.of(extent), ids.dtype)
        moved = Apply(Add(), (value, size), ids.dtype)
        value = Apply(Select(), (below, moved, value), ids.dtype)
    return Index(((Datum(value, extent), 1),))


def _added(
    node: Tensor,
    values: Tensor,
    ids: list[Tensor],
    axes: Sequence[Axis],
    ordered: Sequence[Axis],
    target: Sequence[Index],
    strides: Strides,
) -> Kernels:
    """Zeros, then values[axes] added at `target`; `ordered` axes run one by one."""
    place = placed([Index.of(a) for a in axes], strides(values))
    count = len(ids)
    store = Store(
        count + 1,
        placed(target, strides(node)),
        Load(count, place, values.type.dtype),
        Add(),
    )
    inner = nested([a for a in ordered if a.extent != 1], (store,), "serial")
    outer = [a for a in axes if a not in ordered and a.extent != 1]
    loops = nested(outer, inner, "parallel")
    arguments = [Argument(x.type.dtype) for x in (*ids, values)]
    arguments.append(Argument(node.type.dtype, True))
    kernel = Kernel(node.op.name.lower(), tuple(arguments), loops, ordered=True)
    return [zeros(node, strides), (kernel, [*ids, values, node])]


def _rows(node: Tensor, strides: Strides) -> Kernels:
    ids, values = node.inputs
    axes = [Axis(f"i{k}", n) for k, n in enumerate(values.type.shape)]
    rank = ids.type.ndim
    at = [Index.of(a) for a in axes]
    load = Load(0, placed(at[:rank], strides(ids)), ids.type.dtype)
    row = _position(load, node.type.shape[0], False)
    return _added(node, values, [ids], axes, axes[:rank], [row, *at[rank:]], strides)


def _put_along(node: Tensor, strides: Strides) -> Kernels:
    values, ids = node.inputs
    op: Any = node.op
    axes = [Axis(f"i{k}", n) for k, n in enumerate(values.type.shape)]
    at = [Index.of(a) for a in axes]
    load = Load(0, placed(at, strides(ids)), ids.type.dtype)
    target = list(at)
    target[op.axis] = _position(load, op.extent, True)
    return _added(node, values, [ids], axes, [axes[op.axis]], target, strides)


def _unindex(node: Tensor, strides: Strides) -> Kernels:
    values, *ids = node.inputs
    op: Any = node.op
    axes = [Axis(f"i{k}", n) for k, n in enumerate(values.type.shape)]
    at = [Index.of(a) for a in axes]
    rank = max(i.type.ndim for i in ids)
    here = axes[op.place : op.place + rank]
    rest = iter([*at[: op.place], *at[op.place + rank :]])
    places = {}
    for k, (axis, i) in enumerate(zip(op.axes, ids, strict=True)):
        own = [Index.of(a) for a in here[rank - i.type.ndim :]]
        own = [Index() if n == 1 else x for n, x in zip(i.type.shape, own, strict=True)]
        load = Load(k, placed(own, strides(i)), i.type.dtype)
        places[axis] = _position(load, op.shape[axis], True)
    target = [places[k] if k in places else next(rest) for k in range(len(op.shape))]
    return _added(node, values, ids, axes, here, target, strides)


SCATTERS: dict[type[Op], Callable[[Tensor, Strides], Kernels]] = {
    RowsToDense: _rows,
    PutAlong: _put_along,
    Unindex: _unindex,
}
