"""Operands that meet: one dtype, and axes aligned by name before they broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.base.dtypes import KINDS
from treadle.base.errors import AxisError, ShapeError, TreadleError
from treadle.base.types import Type, equal_shapes
from treadle.graph.op import Op
from treadle.graph.operators import Operand, functions
from treadle.graph.origin import capture, describe
from treadle.graph.tensor import Tensor, new_node
from treadle.ops.cast import as_float, operands
from treadle.ops.families import Elementwise


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
    _matched(named)
    return [_placed(x, order) for x in nodes]


def _matched(named: Sequence[Tensor]) -> None:
    """Refuse an operand that shares no axis with the others: an outer sum unseen."""
    for k, x in enumerate(named[1:], 1):
        others = [
            name for y in (*named[:k], *named[k + 1 :]) for name in y.type.axes or ()
        ]
        if not set(x.type.axes or ()).intersection(others):
            raise AxisError(
                f"{x.type} shares no axis with {named[0].type}",
                hint="td.rename_axes(x, old='new') if one is meant; for all pairs, say "
                "so: td.broadcast_axes(x, ...) with the other's axes, or td.outer",
            )


def _alike(a: Type, b: Type) -> bool:
    """Whether dimensions have the same names, and the named ones the same lengths."""
    if a.axes is None or a.axes != b.axes:
        return False
    dimensions = zip(a.axes, a.shape, b.shape, strict=True)
    return all(name is None or m == n for name, m, n in dimensions)


def _by_position(nodes: Sequence[Tensor]) -> bool:
    """Whether names agree by position and a dimension without one has extent 1.

    It broadcasts, as after keepdims, so nothing has to tell which one was meant.
    """
    wide = [x.type for x in nodes if x.type.shape]
    if all(_alike(t, wide[0]) for t in wide):
        return None in (wide[0].axes or ())  # the same dimensions of the same things
    ndim = max(x.type.ndim for x in nodes)
    seen: list[str | None] = [None] * ndim
    lengths: dict[str, int] = {}
    kept = False
    for x in nodes:
        t = x.type
        names = t.axes or (None,) * t.ndim
        for k, (name, n) in enumerate(zip(names, t.shape, strict=True), ndim - t.ndim):
            if name is None:
                kept = True
                if n != 1:
                    return False
            elif (
                seen[k] not in (None, name)
                or name in seen[:k] + seen[k + 1 :]
                or lengths.setdefault(name, n) != n
            ):
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
    permuted = x
    if list(axes) != present:
        permuted = functions.permute_dims(x, tuple(axes.index(n) for n in present))
    if present == order:
        return permuted
    first = order.index(present[0])
    if present == order[first:]:
        return permuted
    size = dict(zip(present, permuted.type.shape, strict=True))
    names = order[first:]
    return functions.reshape(
        permuted,
        tuple(size.get(n, 1) for n in names),
        axes=tuple(n if n in size else None for n in names),
    )


def over_axes(v: Any, x: Tensor, axes: Sequence[int], what: str) -> Tensor:
    """A weight over dimensions of x, by position or their names, shaped to meet x.

    It has no names then: by role its dimensions are those of x, and no others.
    """
    node = as_float(v)
    t = x.type
    extents = tuple(t.shape[k] for k in axes)
    if node.type.axes is not None:
        names = tuple(t.axes[k] if t.axes else None for k in axes)
        if t.axes is not None and set(node.type.axes) == set(names):
            node = functions.permute_dims(node, names)
        elif t.axes is not None or len(names) > 1:
            raise AxisError(
                f"{what} {node.type} is not over {_listed(names)} of {t}",
                hint=f"name it so: td.rename_axes({what}, ...), or td.unname({what})",
            )
    if not equal_shapes(node.type.shape, extents):
        raise ShapeError(f"{what} {node.type} does not fit {t} over axes {tuple(axes)}")
    first = min(axes, default=0)
    wide = tuple(t.shape[k] if k in axes else 1 for k in range(first, t.ndim))
    return functions.reshape(node, wide)


def _listed(names: Sequence[str | None]) -> str:
    known = ", ".join(repr(name) for name in names if name is not None)
    return f"axis {known}" if known else "a dimension with that name"


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
            same = a is b or equal_shapes(a.shape, b.shape)
            plain = same and op.result == "same" and a.dtype.kind == "f"
            if plain and "float" in KINDS[op.takes]:
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
