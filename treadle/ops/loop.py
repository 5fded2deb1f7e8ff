"""Loops over the rows of tensors as one node: scan, and map and foldl made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.dtypes import promote
from treadle.base.errors import (
    ArgumentError,
    AxisError,
    DTypeError,
    ShapeError,
    TraceError,
)
from treadle.base.options import current
from treadle.base.types import TupleType, Type, as_names
from treadle.graph.body import Body, Trace, Traceable, trace
from treadle.graph.leaves import Argument, as_tensor, zeros_of
from treadle.graph.op import Cotangents, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import batched, repeated, row_count
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.ops.call import called, match
from treadle.ops.control import call, inexact, union
from treadle.ops.families import Family, outputs_of
from treadle.ops.segmented import keeps_much, vjp_by_segments

__all__ = ["foldl", "map", "scan"]


def drawn_at(draws: Sequence[Any], t: int) -> list[Any]:
    """The draws of iteration t: each pass has random numbers of its own."""
    shift = np.array([0, (t + 1) << 32], dtype=np.uint64)
    return [draw + shift for draw in draws]


@op(tolerance="R")
class Scan(Family):
    """A body run for t = 0 .. length-1 (or back) on carries and the t-th rows.

    Inputs: carries, scanned tensors, constants, then `draws` random draws. Results: the
    last carries, then each further output of the body stacked over t.
    """

    body: Body
    length: int
    carries: int
    scanned: int
    draws: int = 0
    reverse: bool = False
    family = "control"

    def infer(self, *types: Type) -> TupleType:
        c, s = self.carries, self.scanned
        rows = []
        for t in types[c : c + s]:
            if not t.shape or t.shape[0] != self.length:
                raise ShapeError(f"a scanned tensor has {self.length} rows, not {t}")
            rows.append(row_of(t))
        match(self.body, [*types[:c], *rows, *types[c + s :]])
        out = self.body.types
        for k in range(c):
            if (out[k].shape, out[k].dtype) != (types[k].shape, types[k].dtype):
                raise ShapeError(
                    f"carry {k} is {types[k]} and comes back as {out[k]}",
                    hint="a loop's state keeps its shape and dtype",
                )
        names = [t.axes[0] for t in types[c : c + s] if t.axes]
        name = names[0] if names else None
        return TupleType([*out[:c], *[stacked(t, self.length, name) for t in out[c:]]])

    def numpy(self, *arrays: Any) -> Any:
        c, s = self.carries, self.scanned
        carry = list(arrays[:c])
        end = len(arrays) - self.draws
        stacks = [
            np.empty((self.length, *t.shape), t.dtype) for t in self.body.types[c:]
        ]
        steps = range(self.length)
        for t in reversed(steps) if self.reverse else steps:
            rows = [x[t] for x in arrays[c : c + s]]
            draws = drawn_at(arrays[end:], t)
            out = self.body.numpy([*carry, *rows, *arrays[c + s : end], *draws])
            carry = list(out[:c])
            for stack, y in zip(stacks, out[c:], strict=True):
                stack[t] = y
        return (*carry, *stacks)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        if keeps_much(self, xs):
            return vjp_by_segments(self, g, xs)
        c, s = self.carries, self.scanned
        end = len(xs) - self.draws
        arguments = self.body.arguments
        saving = Body(self.body.name, arguments, [*self.body.outputs, *arguments[:c]])
        forward = Scan(saving, self.length, c, s, self.draws, self.reverse)(*xs)
        saved = outputs_of(forward)[len(self.body.outputs) :]
        carry_at = inexact([x.type for x in xs[:c]])
        const_at = [c + s + k for k in inexact([x.type for x in xs[c + s : end]])]
        every = [c + k for k in inexact(self.body.types[c:])]
        out_at = [k for k in every if g[k] is not None]
        start = [g[k] if g[k] is not None else zeros_of(xs[k].type) for k in carry_at]
        start += [zeros_of(xs[k].type) for k in const_at]
        outs = [g[k] for k in out_at]
        step = self._backward_step(carry_at, const_at, out_at, end)
        rows = [*saved, *xs[c : c + s], *outs]
        back = Scan(
            step, self.length, len(start), len(rows), self.draws, not self.reverse
        )(*start, *rows, *xs[c + s :])
        cotangents = outputs_of(back)
        result: list[Tensor | None] = [None] * len(xs)
        scan_at = [c + k for k in inexact([x.type for x in xs[c : c + s]])]
        for k, gx in zip([*carry_at, *const_at, *scan_at], cotangents, strict=True):
            result[k] = gx
        return tuple(result)

    def _backward_step(
        self, carry_at: list[int], const_at: list[int], out_at: list[int], end: int
    ) -> Body:
        """One step back: cotangents of carries, sums of those of constants, of rows."""
        at = tuple(carry_at), tuple(const_at), tuple(out_at)
        key = "scan step", at, current().workspace
        if key in self.body.memo:
            return self.body.memo[key]
        c, s = self.carries, self.scanned
        inner = [x.type for x in self.body.arguments]
        types = [inner[k] for k in [*carry_at, *const_at]]
        types += inner[: c + s]
        types += [self.body.types[k] for k in out_at]
        types += inner[c + s :]
        scan_at = [c + k for k in inexact(inner[c : c + s])]

        def step(*args: Tensor) -> list[Tensor]:
            gc, rest = list(args[: len(carry_at)]), args[len(carry_at) :]
            sums, rest = list(rest[: len(const_at)]), rest[len(const_at) :]
            operands, rest = rest[: c + s], rest[c + s :]
            gy, consts = list(rest[: len(out_at)]), rest[len(out_at) :]
            inputs = [*operands, *consts]
            ys = call(self.body, *inputs)
            outputs = [ys[k] for k in [*carry_at, *out_at]]
            cotangents = functions.pullback(outputs, [*gc, *gy], inputs)

            def of(k: int) -> Tensor:
                return (
                    cotangents[k] if cotangents[k] is not None else zeros_of(inner[k])
                )

            totals = [a + of(k) for a, k in zip(sums, const_at, strict=True)]
            return [*map_list(of, carry_at), *totals, *map_list(of, scan_at)]

        self.body.memo[key] = trace(step, types, f"gradient of {self.body.name}").body
        return self.body.memo[key]

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        c, end = self.carries, self.carries + self.scanned
        n, marked = row_count(has_rows, xs), tuple(has_rows)
        body = batched(self.body, (True,) * c + marked[c:], n)
        if body is None:
            return None
        op = replace(self, body=body)

        def each(*args: Tensor) -> list[Tensor]:
            start = [
                x if g else repeated(x, n)
                for g, x in zip(marked[:c], args[:c], strict=True)
            ]
            steps = [
                swapped(x) if g else x
                for g, x in zip(marked[c:end], args[c:end], strict=True)
            ]
            results = outputs_of(op(*start, *steps, *args[end:]))
            return [*results[:c], *[swapped(y) for y in results[c:]]]

        return called(body.name, each, xs)


def row_of(t: Type) -> Type:
    """The type of a row, whose axes keep their names."""
    axes = t.axes and t.axes[1:]
    return Type(t.shape[1:], t.dtype, axes if axes and any(axes) else None)


def stacked(t: Type, length: int, name: str | None) -> Type:
    """The type of so many of these, along an axis of a name; rows without names have
    none as a stack."""
    shape = (length, *t.shape)
    if t.axes is None and (t.shape or name is None):
        return Type(shape, t.dtype)
    return Type(shape, t.dtype, as_names((name, *(t.axes or ())), shape))


def swapped(x: Tensor) -> Tensor:
    """x with its first two dimensions exchanged: rows of steps, or steps of rows."""
    return functions.moveaxis(x, 0, 1)


def map_list(f: Callable[[int], Tensor], items: Sequence[int]) -> list[Tensor]:
    """f of each item."""
    return [f(k) for k in items]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    *,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """`carry, y = f(carry, row)` for each row of `xs`; the last carry and stacked ys.

    `init`, `xs`, and what f returns are trees; f is traced once, a `td.function` once
    for all scans of rows like these. With `reverse` the
    rows are taken from the last to the first. Variables cannot be assigned inside: pass
    them through the carry. Rows have the axis names of `xs` without the first, which is
    what results that have names are stacked along; a carry keeps the names of `init`.

    >>> total, sums = td.scan(lambda c, x: (c + x, c + x), 0.0, td.asarray([1.0, 2, 3]))
    >>> float(total), sums.tolist()
    (6.0, [1.0, 3.0, 6.0])
    """
    start, structure = trees.flatten(init)
    carries = [as_tensor(x) for x in start]
    flat, rows_structure = trees.flatten(xs)
    scanned = [as_tensor(x) for x in flat]
    length = _rows(scanned, length)
    result: list[Any] = []

    def step(*args: Tensor) -> list[Tensor]:
        carry = trees.unflatten(structure, args[: len(carries)])
        row = trees.unflatten(rows_structure, args[len(carries) :])
        out = f(carry, row)
        if not isinstance(out, tuple) or len(out) != 2:
            raise TraceError("a scanned function returns a pair (carry, y)")
        after, after_structure = trees.flatten(out[0])
        if after_structure != structure:
            raise TraceError("the carry comes back with another structure")
        ys, y_structure = trees.flatten(out[1])
        result[:] = [y_structure]
        carried = [
            _kept(as_tensor(a), b.type, k)
            for k, (a, b) in enumerate(zip(after, carries, strict=True))
        ]
        return [*carried, *[as_tensor(y) for y in ys]]

    types = [x.type for x in carries]
    types += [row_of(x.type) for x in scanned]
    known = _known(f, types, structure, rows_structure, len(carries))
    if known is None:
        traced = trace(step, types, getattr(f, "__name__", "scan"))
    else:
        traced, result[:] = known[0], [known[1]]
    refuse_assignment(tuple(v for v, _ in traced.assigned), "scan")
    op_ = Scan(traced.body, length, len(carries), len(scanned), traced.draws, reverse)
    from_outside = [v.node() for v in traced.variables] + list(traced.captured)
    results = outputs_of(op_(*carries, *scanned, *from_outside, *traced.drawn()))
    last = trees.unflatten(structure, results[: len(carries)])
    return last, trees.unflatten(result[0], results[len(carries) :])


def _known(
    f: Any, types: Sequence[Type], carry: Any, row: Any, carries: int
) -> tuple[Trace, Any] | None:
    """The trace that f keeps of a step of such types, and the structure of its ys; None
    where it keeps none, or the carry comes back in another form."""
    if not isinstance(f, Traceable):
        return None
    leaves: Any = iter([Tensor(Argument(k), (), t) for k, t in enumerate(types)])
    known = f.traced(trees.unflatten(carry, leaves), trees.unflatten(row, leaves))
    if known is None or type(known[1]) is not tuple:
        return None
    traced, (kind, _, parts) = known
    if kind is not tuple or len(parts) != 2 or parts[0] != carry:
        return None
    after = traced.body.types[:carries]
    return (traced, parts[1]) if after == tuple(types[:carries]) else None


def _kept(after: Tensor, before: Type, k: int) -> Tensor:
    """A carry in the dtype it had before the step, if that holds all its values, with
    the axes it had, if that had names."""
    if promote(after.type.dtype, before.dtype) != before.dtype:
        raise DTypeError(
            f"carry {k} is {before} and comes back as {after.type}",
            hint="start from a value of the dtype that comes back (0.0, not 0), or "
            "convert inside with .astype(...)",
        ).located("scan")
    kept: Tensor = functions.astype(after, before.dtype)
    axes = kept.type.axes
    if not before.axes or axes == before.axes or kept.type.shape != before.shape:
        return kept
    if axes is None:
        return functions.name_axes(kept, *before.axes)
    raise AxisError(
        f"carry {k} is {before} and comes back as {after.type}",
        hint="a loop's state keeps its axes: td.order_axes or td.rename_axes inside",
    ).located("scan")


def _rows(scanned: Sequence[Tensor], length: int | None) -> int:
    """The number of steps of a scan."""
    for x in scanned:
        if not x.type.shape:
            raise ShapeError(f"scan takes rows of tensors, not {x.type}").located(
                "scan"
            )
    if length is not None:
        return length
    if not scanned:
        raise ArgumentError("scan needs xs or a length").located("scan")
    return scanned[0].type.shape[0]


def refuse_assignment(assigned: Sequence[Variable], where: str) -> None:
    """Refuse Variables assigned inside a loop: its state is the carry."""
    if assigned:
        names = ", ".join(repr(v.name) for v in union([assigned]))
        raise TraceError(
            f"Variables {names} are assigned inside",
            hint="pass the state through the carry and assign after the loop",
        ).located(where)


@provide
def map(f: Callable[[Any], Any], xs: Any) -> Any:
    """f of each row of `xs`, stacked; f is traced once.

    >>> td.map(lambda row: row.sum(), td.ones((2, 3))).tolist()
    [3.0, 3.0]
    """
    return scan(lambda carry, row: (carry, f(row)), (), xs)[1]


def foldl(f: Callable[[Any, Any], Any], init: Any, xs: Any) -> Any:
    """`carry = f(carry, row)` over the rows of `xs`; the last carry.

    >>> float(td.foldl(lambda c, x: c * x, 1.0, td.asarray([2.0, 3.0])))
    6.0
    """
    return scan(lambda carry, row: (f(carry, row), ()), init, xs)[0]
