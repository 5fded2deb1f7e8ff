"""Axis names: given, taken away, changed, and brought into an order."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from treadle.base import trees
from treadle.base.axes import Axes
from treadle.base.errors import AxisError
from treadle.base.types import Axis, Names, Type, as_names, resolve_axis
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.movement import Reshape, broadcast_to, permute_dims, reshape
from treadle.ops.reduce import sum

__all__ = [
    "axes_of",
    "broadcast_axes",
    "name_axes",
    "order_axes",
    "rename_axes",
    "slice_axes",
    "unname",
]


F = TypeVar("F", bound=Callable[..., Any])


def _with_names(node: Tensor, names: Any) -> Tensor:
    if names == node.type.axes:
        return node
    return Reshape(node.type.shape, names)(node)


@provide
def name_axes(x: Any, *axes: Any) -> Tensor:
    """`x` with its dimensions named, by strings, Axis objects or None.

    >>> td.name_axes(td.zeros((2, 3)), "n", "c").type
    float32[n=2, c=3]
    """
    node = as_tensor(x)
    return _with_names(node, as_names(axes, node.type.shape))


@provide
def unname(x: Any) -> Tensor:
    """`x` without axis names.

    >>> td.unname(td.name_axes(td.zeros((2, 3)), "n", "c")).type
    float32[2, 3]
    """
    return _with_names(as_tensor(x), None)


def rename_axes(x: Any, **names: str) -> Tensor:
    """`x` with some axes renamed, old=new.

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

    >>> td.order_axes(td.name_axes(td.zeros((2, 3)), "n", "c"), "c", "n").type
    float32[c=3, n=2]
    """
    return permute_dims(x, tuple(axes))


def axes_of(x: Any) -> Axes:
    """The axes of `x` as a set in order; each dimension must have a name.

    >>> x = td.name_axes(td.zeros((2, 3)), "n", "c")
    >>> td.axes_of(x) - td.axes_of(x.sum("n"))
    Axes(n=2)
    """
    t = as_tensor(x).type
    if t.ndim and (t.axes is None or None in t.axes):
        raise AxisError(
            f"{t} has a dimension without a name", hint="name it: td.name_axes(x, ...)"
        ).located("axes_of")
    pairs = zip(t.axes or (), t.shape, strict=True)
    return Axes(*[Axis(name, n) for name, n in pairs if name is not None])


def broadcast_axes(x: Any, *axes: Axis) -> Tensor:
    """`x` repeated along the axes it has not, all in this order; it keeps all it has.

    >>> x = td.name_axes(td.asarray([1.0, 2.0]), "c")
    >>> td.broadcast_axes(x, td.Axis("c", 2), td.Axis("n", 3)).type
    float32[c=2, n=3]
    """
    node, wanted = as_tensor(x), Axes(*axes)
    have = axes_of(node)
    try:
        lost = have - wanted
    except AxisError as error:
        raise error.located("broadcast_axes", repr(node.type)) from None
    if len(lost):
        raise AxisError(
            f"{node.type} would lose {lost}",
            hint="broadcasting keeps all axes: name them too, or sum over them first",
        ).located("broadcast_axes", repr(node.type))
    present = permute_dims(node, (wanted & have).names)
    thin = tuple(a.length if a in have else 1 for a in wanted)
    names = tuple(a.name if a in have else None for a in wanted)
    spread = reshape(present, thin, axes=names)
    return broadcast_to(spread, wanted.shape, axes=wanted.names)


def slice_axes(x: Any, **keys: Any) -> Tensor:
    """`x` indexed by names: a slice keeps its axis, an integer drops it.

    >>> x = td.name_axes(td.zeros((2, 3, 4)), "n", "h", "w")
    >>> td.slice_axes(x, w=slice(1, 3), n=0).type
    float32[h=3, w=2]
    """
    node = as_tensor(x)
    whole: list[Any] = [slice(None)] * node.type.ndim
    for name, key in keys.items():
        try:
            whole[resolve_axis(name, node.type)] = key
        except AxisError as error:
            raise error.located("slice_axes", repr(node.type)) from None
    return functions.getitem(node, tuple(whole))


def named_like(y: Tensor, names: Names | None) -> Tensor:
    """y with these names, where it has as many dimensions."""
    fits = names is not None and y.type.ndim == len(names)
    return _with_names(y, names) if fits else y


def by_role(start: int = 0, free: tuple[int, ...] = (-1,)) -> Callable[[F], F]:
    """A decorator for results with the dimensions of the argument at `start`.

    Weights fill roles by position, so it works without names, which come back on the
    results. Other tensors with names agree with that argument but in the dimensions
    `free`: names are never dropped unseen.
    """

    def wrap(f: F) -> F:
        @wraps(f)
        def wrapper(*args: Any, **settings: Any) -> Any:
            argument = args[start] if len(args) > start else None
            if not isinstance(argument, Operand) or argument.axes is None:
                return f(*args, **settings)
            names = argument.axes

            def plain(x: Any) -> Any:
                if not isinstance(x, Operand) or x.axes is None:
                    return x
                bound = [k for k in range(len(names)) if k - len(names) not in free]
                if len(x.axes) != len(names) or any(
                    x.axes[k] != names[k] for k in bound
                ):
                    raise AxisError(
                        f"{x.node().type} beside {argument.node().type}",
                        hint="they have the same axes by role: td.order_axes, "
                        "td.rename_axes, or td.unname(x)",
                    ).located(f.__qualname__)
                return unname(x)

            values, structure = trees.flatten((args[start:], settings))
            rest, more = trees.unflatten(structure, [plain(x) for x in values])
            leaves, tree = trees.flatten(f(*args[:start], *rest, **more))
            return trees.unflatten(tree, [named_like(y, names) for y in leaves])

        return cast(F, wrapper)

    return wrap


@provide
def by_name(x: Any, type_: Type) -> Tensor:
    """`x` summed and permuted by name to the axes of a type, as a cotangent is.

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
