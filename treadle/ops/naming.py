"""Axis names: given, taken away, changed, and brought into an order."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import AxisError
from treadle.base.types import Type, as_names
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.movement import Reshape, permute_dims
from treadle.ops.reduce import sum

__all__ = ["name_axes", "order_axes", "rename_axes", "unname"]


def _with_names(node: Tensor, names: Any) -> Tensor:
    """The node with other names: of one that only changed names, what it was made of."""
    while (
        type(node.op) is Reshape
        and node.inputs
        and node.stored is None
        and node.inputs[0].type.shape == node.type.shape
    ):
        node = node.inputs[0]
    if names == node.type.axes:
        return node
    return Reshape(node.type.shape, names)(node)


@provide
def name_axes(x: Any, *axes: Any) -> Tensor:
    """`x` with its dimensions named, by strings, Axis objects or None.

    >>> import treadle as td
    >>> td.name_axes(td.zeros((2, 3)), "n", "c").type
    float32[n=2, c=3]
    """
    node = as_tensor(x)
    return _with_names(node, as_names(axes, node.type.shape))


@provide
def unname(x: Any) -> Tensor:
    """`x` without axis names.

    >>> import treadle as td
    >>> td.unname(td.name_axes(td.zeros((2, 3)), "n", "c")).type
    float32[2, 3]
    """
    return _with_names(as_tensor(x), None)


def rename_axes(x: Any, **names: str) -> Tensor:
    """`x` with some axes renamed, old=new.

    >>> import treadle as td
    >>> td.rename_axes(td.name_axes(td.zeros((2, 3)), "n", "c"), c="d").type
    float32[n=2, d=3]
    """
    node = as_tensor(x)
    known = node.type.axes or ()
    missing = [name for name in names if name not in known]
    if missing:
        raise AxisError(f"no axis is named {missing[0]!r} in {node.type}").located(
            "rename_axes"
        )
    changed = tuple(names.get(a, a) if a is not None else None for a in known)
    return _with_names(node, as_names(changed, node.type.shape))


def order_axes(x: Any, *axes: Any) -> Tensor:
    """`x` with its named dimensions in this order.

    >>> import treadle as td
    >>> td.order_axes(td.name_axes(td.zeros((2, 3)), "n", "c"), "c", "n").type
    float32[c=3, n=2]
    """
    return permute_dims(x, tuple(axes))


@provide
def by_name(x: Any, type_: Type) -> Tensor:
    """`x` summed and permuted by name to the axes of a type, as a cotangent is.

    >>> import treadle as td
    >>> wide = td.name_axes(td.ones((2, 3)), "n", "c")
    >>> by_name(wide, td.name_axes(td.ones((3,)), "c").type).tolist()
    [2.0, 2.0, 2.0]
    """
    node = as_tensor(x)
    have, want = node.type.axes or (), type_.axes
    if want is None or any(name is None for name in (*have, *want)):
        return unname(node)
    gone = tuple(k for k, name in enumerate(have) if name not in want)
    node = sum(node, gone) if gone else node
    present = tuple(name for name in want if name in (node.type.axes or ()))
    return permute_dims(node, present) if present else node
