"""A function of one row applied to all rows at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from treadle.base import trees
from treadle.base.errors import ArgumentError, AxisError, ShapeError, TreadleError
from treadle.base.types import Axis, Type, resolve_axis
from treadle.graph.body import traced
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Op
from treadle.graph.rows import traced_rows
from treadle.graph.tensor import Tensor
from treadle.ops.call import called
from treadle.ops.families import outputs_of
from treadle.ops.loop import map, refuse_assignment
from treadle.ops.movement import reshape
from treadle.ops.naming import unname
from treadle.ops.rearrange import moveaxis

__all__ = ["vmap"]


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """`f`, written for one row, as a function of all rows: without a loop over them.

    `in_axes` tells which dimension of the arguments counts the rows: a number or a name
    for all, a tuple with one for each argument, or a tree as the arguments are; None
    is for what all rows share and f takes as it is. `out_axes` tells where the rows
    stand in the results. f is traced on one row at each call; in it a row has no name
    for the dimension taken away, and each row draws random numbers of its own. An op
    that cannot be done for all rows at once, such as a function of the host or
    `td.print`, is done for one row after the other. Results
    are named if both the rows and their dimension are.

    >>> w = td.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> td.vmap(lambda x: w @ x)(td.asarray([[1.0, 0.0], [0.0, 1.0]])).tolist()
    [[1.0, 3.0], [2.0, 4.0]]
    >>> x, y = td.asarray([1.0, 2.0]), td.asarray([1.0, 10.0])
    >>> td.vmap(lambda a, b: a * b, in_axes=(0, None))(x, y).tolist()
    [[1.0, 10.0], [2.0, 20.0]]
    """

    if not callable(f):
        raise ArgumentError(f"takes a function, not {f!r}")

    @functools.wraps(f)
    def mapped(*args: Any) -> Any:
        try:
            rows = _Rows(args, in_axes)
            result, outputs, results = rows.done(f)
            places = _places(out_axes, result)
            leaves = [
                rows.placed(y, one.type, place)
                for y, one, place in zip(results, outputs, places, strict=True)
            ]
        except TreadleError as error:
            raise error.located("vmap") from None
        return trees.unflatten(trees.flatten(result)[1], leaves)

    return mapped


def _places(axes: Any, tree: Any) -> list[Any]:
    """The dimension of rows of each leaf of a tree, by a tree that may be less."""
    if axes is None or hasattr(axes, "__index__") or isinstance(axes, (str, Axis)):
        return [axes] * len(trees.flatten(tree)[0])
    whole = isinstance(axes, dict) and isinstance(tree, dict)
    if whole and axes.keys() == tree.keys():
        return [place for key in tree for place in _places(axes[key], tree[key])]
    listed = isinstance(axes, (list, tuple)) and isinstance(tree, (list, tuple))
    if listed and len(axes) == len(tree):
        pairs = zip(axes, tree, strict=True)
        return [place for pair in pairs for place in _places(*pair)]
    raise ArgumentError(
        f"axes {axes!r} are not for {trees.flatten(tree)[1]!r}",
        hint="give a number, a name or None, or one for each argument",
    )


def one_by_one(op: Op, has_rows: Sequence[bool], *xs: Tensor) -> Tensor:
    """An op without a rule for rows, done for one row after the other."""
    single: list[bool] = []

    def one(rows: Sequence[Tensor]) -> Any:
        rest = iter(rows)
        result = op(
            *[next(rest) if g else x for x, g in zip(xs, has_rows, strict=True)]
        )
        single[:] = [isinstance(result.type, Type)]
        return (result,) if single[0] else outputs_of(result)

    def each(*rows: Tensor) -> Any:
        return map(one, rows)

    operands = [x for x, g in zip(xs, has_rows, strict=True) if g]
    results: tuple[Tensor, ...] = each(*operands)
    return results[0] if single[0] else called(f"{op.name} by rows", each, operands)


class _Rows:
    """Arguments of which some are taken row by row."""

    def __init__(self, args: Sequence[Any], in_axes: Any) -> None:
        self.leaves, self.structure = trees.flatten(tuple(args))
        self.places = _places(in_axes, tuple(args))
        self.count: int | None = None
        self.name: str | None = None
        self.types: list[Type] = []
        self.operands: list[Tensor] = []
        for leaf, place in zip(self.leaves, self.places, strict=True):
            if place is not None:
                self._take(as_tensor(leaf), place)
        if self.count is None:
            raise ArgumentError("no argument has rows", hint="see in_axes=")

    def _take(self, x: Tensor, place: Any) -> None:
        """An argument with rows along a dimension."""
        t = x.type
        k = resolve_axis(place, t)
        if self.count not in (None, t.shape[k]):
            raise ShapeError(f"arguments have {self.count} and {t.shape[k]} rows")
        self.count = t.shape[k]
        name = t.axes and t.axes[k]
        if name and self.name not in (None, name):
            raise AxisError(f"rows are along axis {self.name!r} and axis {name!r}")
        self.name = name or self.name
        names = t.axes and (*t.axes[:k], *t.axes[k + 1 :])
        shape = (*t.shape[:k], *t.shape[k + 1 :])
        self.types.append(Type(shape, t.dtype, names if names and any(names) else None))
        self.operands.append(moveaxis(unname(x), k, 0))

    def done(self, f: Callable[..., Any]) -> tuple[Any, list[Tensor], list[Tensor]]:
        """The results of f for one row, the tensors in them, and these for all rows."""
        assert self.count is not None
        result: list[Any] = []

        def run(*rows: Tensor) -> list[Tensor]:
            left = iter(rows)
            pairs = zip(self.leaves, self.places, strict=True)
            leaves = [x if place is None else next(left) for x, place in pairs]
            result[:] = [f(*trees.unflatten(self.structure, leaves))]
            return [as_tensor(y) for y in trees.flatten(result[0])[0]]

        name = getattr(f, "__name__", "vmap")
        frame, arguments, outputs = traced(run, self.types, name)
        refuse_assignment(frame.assigned, "vmap")
        pairs = zip(arguments, self.operands, strict=True)
        inputs = {x.serial: operand for x, operand in pairs}
        rows = set(inputs)
        inputs |= {x.serial: v.node() for v, x in frame.reads.values()}
        results = traced_rows(
            outputs, frame.start, rows, inputs, self.count, one_by_one
        )
        return result[0], outputs, results

    def placed(self, y: Tensor, row: Type, place: Any) -> Tensor:
        """A result with its rows where they are asked for, named if all of it is."""
        if not hasattr(place, "__index__"):
            raise ArgumentError(f"rows of a result stand at a number, not {place!r}")
        known = self.name is not None and (row.axes is not None or not row.shape)
        if known:
            y = reshape(y, y.type.shape, axes=(self.name, *(row.axes or ())))
        return moveaxis(y, 0, place)
