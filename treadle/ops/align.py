"""Operands that meet: one dtype, and axes aligned by name before they broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.base.errors import AxisError, TreadleError
from treadle.base.types import Type
from treadle.graph.op import Op
from treadle.graph.operators import Operand, functions
from treadle.graph.origin import capture, describe
from treadle.graph.tensor import Tensor, new_node
from treadle.ops.cast import as_float, operands
from treadle.ops.families import Elementwise

__all__ = ["align", "binary", "unary"]


def align(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Named operands permuted and expanded to the first's axes, then the others'.

    Unnamed operands follow NumPy; a named one beside an unnamed one that is no scalar
    is an error, because nothing tells which dimension was meant.
    """
    named = [x for x in nodes if x.type.axes is not None]
    if not named:
        return list(nodes)
    if _by_position(nodes):
        return list(nodes)
    order: list[str] = []
    lengths: dict[str, int] = {}
    for x in named:
        assert x.type.axes is not None
        for name, n in zip(x.type.axes, x.type.shape, strict=True):
            if name is None:
                raise AxisError(
                    f"{x.type} has a dimension without a name",
                    hint="name it with td.name_axes(x, ...), or td.unname all",
                )
            if name not in lengths:
                order.append(name)
                lengths[name] = n
            elif lengths[name] != n:
                raise AxisError(f"axis {name!r} has lengths {lengths[name]} and {n}")
    return [_placed(x, order) for x in nodes]


def _by_position(nodes: Sequence[Tensor]) -> bool:
    """Whether names agree by position and a dimension without one has extent 1.

    It broadcasts, as after keepdims, so nothing has to tell which one was meant.
    """
    ndim = max(x.type.ndim for x in nodes)
    seen: list[str | None] = [None] * ndim
    kept = False
    for x in nodes:
        t = x.type
        names = t.axes or (None,) * t.ndim
        for k, (name, n) in enumerate(zip(names, t.shape, strict=True), ndim - t.ndim):
            if name is None:
                kept = True
                if n != 1:
                    return False
            elif seen[k] not in (None, name) or name in seen[:k] + seen[k + 1 :]:
                return False
            else:
                seen[k] = name
    return kept


def _placed(x: Tensor, order: list[str]) -> Tensor:
    if not x.type.shape:
        return x
    axes = x.type.axes
    if axes is None:
        raise AxisError(
            f"{x.type} has no axis names but its partner has: {', '.join(order)}",
            hint="name it: td.name_axes(x, 'a', 'b')",
        )
    present = [name for name in order if name in axes]
    moved = x
    if list(axes) != present:
        moved = functions.permute_dims(x, tuple(axes.index(n) for n in present))
    if present == order:
        return moved
    first = order.index(present[0])
    if present == order[first:]:
        return moved
    size = dict(zip(present, moved.type.shape, strict=True))
    names = order[first:]
    wide: Tensor = functions.reshape(
        moved,
        tuple(size.get(n, 1) for n in names),
        axes=tuple(n if n in size else None for n in names),
    )
    return wide


def located(error: TreadleError, op: Op, nodes: Sequence[Tensor]) -> TreadleError:
    """An error of the public function, told as the op's own."""
    types = ", ".join(repr(x.type) for x in nodes)
    return error.located(op.name, types, describe(capture()))


def binary(op: Elementwise, x: Any, y: Any) -> Tensor:
    """`op` on two operands promoted to one dtype and aligned by axis names."""
    if type(x) is not Tensor and isinstance(x, Operand):
        x = x.node()
    if type(y) is not Tensor and isinstance(y, Operand):
        y = y.node()
    if type(x) is Tensor and type(y) is Tensor:
        a: Type = x.type
        b: Type = y.type
        if a.dtype is b.dtype and a.axes is None and b.axes is None:
            same = a is b or a.shape == b.shape
            if same and op.result == "same" and a.dtype.kind == "f":
                return new_node(op, (x, y), a, 4)  # what check and infer would find
            return op(x, y)
    nodes = operands(x, y)
    if nodes[0].type.axes is not None or nodes[1].type.axes is not None:
        try:
            nodes = align(nodes)
        except TreadleError as error:
            raise located(error, op, nodes) from None
    return op(*nodes)


def unary(op: Op, x: Any) -> Tensor:
    """`op` on an operand made a float where it is an integer or bool."""
    return op(as_float(x))
