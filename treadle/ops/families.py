"""The families of ops: what their members share, and the rule each member gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from treadle.base.caches import cached
from treadle.base.dtypes import DType, bool_, float32, real_of
from treadle.base.errors import ArityError, AxisError, DTypeError, TreadleError
from treadle.base.types import (
    Names,
    TupleType,
    Type,
    broadcast_shapes,
    equal_shapes,
    normalize_axis,
)
from treadle.graph.leaves import Argument
from treadle.graph.op import Cotangents, Input, Op, Traits, common_axes, family, op
from treadle.graph.operators import functions
from treadle.graph.rows import (
    along_axes,
    follow,
    lifted,
    row_count,
    row_type,
    rows_made,
)
from treadle.graph.tensor import Tensor, results


class Family(Op):
    """The base of all families: mistakes made from the first sample."""

    __slots__ = ()

    def __init_subclass__(cls, **attributes: Any) -> None:
        """Set the attributes that stand in the line of a class."""
        super().__init_subclass__()
        for name, value in attributes.items():
            setattr(cls, name, value)


def same_dtype(types: Sequence[Type]) -> None:
    """Refuse operands of different dtypes; public functions promote before."""
    dtype = types[0].dtype
    for t in types:
        if t.dtype is not dtype and t.dtype != dtype:
            names = ", ".join(t.dtype.name for t in types)
            raise DTypeError(
                f"operands have dtypes {names}", hint="convert with x.astype(...)"
            )


@cached(1024)
def _met(result: str, mixed: tuple[int, ...], types: tuple[Type, ...]) -> Type:
    """The type of an op on elements of operands that broadcast."""
    mains = [t for k, t in enumerate(types) if k not in mixed] or list(types)
    same_dtype(mains)
    first = mains[0]
    shape = first.shape
    if not all(equal_shapes(t.shape, shape) for t in types):
        shape = broadcast_shapes(*[t.shape for t in types])
    axes = None
    if any(t.axes is not None for t in types):
        axes = common_axes(types, len(shape))
    dtype = first.dtype
    if result == "bool":
        dtype = bool_
    elif result == "real":
        dtype = real_of(dtype)
    same = equal_shapes(shape, first.shape) and axes == first.axes
    if same and dtype is first.dtype:
        return first
    return Type(shape, dtype, axes)


class Elementwise(Family):
    """One value per element of the broadcast operands, by the rule `scalar`.

    A primitive is known to code generators; any other member writes `scalar` in terms
    of them, with the operators and functions of programs.
    """

    __slots__ = ()
    family = "elementwise"
    result: ClassVar[str] = "same"  # "same", "bool" or "real" (of a complex)
    mixed: ClassVar[tuple[int, ...]] = ()  # operands that keep a dtype of their own
    ufunc: ClassVar[Any] = None  # the function of NumPy that is its meaning
    domain: ClassVar[tuple[Input, ...]] = (
        Input(),
    )  # of samples; the last is the rest's
    sample_dtypes: ClassVar[tuple[DType, ...]] = (float32,)
    traits = Traits(tolerance="E")

    def numpy(self, *arrays: Any, **_: Any) -> Any:
        return self.ufunc(*arrays)

    def infer(self, *types: Any, **_: Any) -> Type:
        first = types[0]
        for t in types:
            if t is not first:
                break
        else:
            if self.result == "same":
                return first
        return _met(self.result, self.mixed, types)

    def scalar(self, *xs: Any, **_: Any) -> Any:
        """The value at a point, by infix on tensors; a primitive is itself."""
        raise NotImplementedError

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*lifted(has_rows, xs))


class Unary(Elementwise):
    """A function of one float or complex element."""

    __slots__ = ()
    arity = 1
    takes = "inexact"


@family
class Reduction(Family):
    """A monoid folded over `axes` (non-negative, sorted); fields axes and keepdims."""

    __slots__ = ()
    family = "reduction"
    arity = 1
    traits = Traits(tolerance="R")
    ufunc: ClassVar[Any] = None  # the function of NumPy whose fold is its meaning
    axes: tuple[int, ...]
    keepdims: bool = False
    rows = along_axes

    def numpy(self, *arrays: Any, **_: Any) -> Any:
        return self.ufunc.reduce(arrays[0], self.axes, keepdims=self.keepdims)

    def infer(self, *types: Any, **_: Any) -> Type:
        return reduced(types[0], self.axes, self.keepdims)

    def combine(self, a: Any, b: Any) -> Any:
        """The monoid, on arrays or tensors."""
        raise NotImplementedError

    def identity(self, dtype: Any) -> Any:
        """The value of an empty fold; None when there is none."""
        raise NotImplementedError

    def start(self, dtype: Any) -> Any:
        """The value that a fold begins at; of a maximum the least of its dtype."""
        known = self.identity(dtype)
        if known is not None:
            return known
        below = self.name == "Max"
        if dtype.kind in "fV":
            return -np.inf if below else np.inf
        if dtype.kind == "b":
            return not below
        limits = np.iinfo(dtype)
        return int(limits.min if below else limits.max)


@cached(1024)
def reduced(t: Type, axes: tuple[int, ...], keepdims: bool) -> Type:
    """The type after folding `axes`."""
    for axis in axes:
        normalize_axis(axis, t.ndim)
    kept = [k for k in range(t.ndim) if k not in axes]
    if keepdims:
        shape = tuple(1 if k in axes else n for k, n in enumerate(t.shape))
        names = t.axes and tuple(None if k in axes else a for k, a in enumerate(t.axes))
    else:
        shape = tuple(t.shape[k] for k in kept)
        names = t.axes and tuple(t.axes[k] for k in kept)
    return Type(shape, t.dtype, some(names))


def some(names: Names | None) -> Names | None:
    """Axis names, or None where no dimension has one; a name twice is an error."""
    known = [name for name in names or () if name is not None]
    if len(set(known)) != len(known):
        raise AxisError(
            f"the result would have axes {names}, which repeat a name",
            hint="rename one side first: td.rename_axes(x, old='new')",
        )
    return names if known else None


class Movement(Family):
    """Elements moved, none computed: `index` tells where each one comes from."""

    __slots__ = ()
    family = "movement"
    arity = 1
    traits = Traits(tolerance="E", linear=True)

    def index(self, i: Sequence[Any], x: Type) -> tuple[Any, ...]:
        """The input element that feeds output element `i`, by integer arithmetic."""
        raise NotImplementedError


class Opaque(Family):
    """An op known only by its NumPy rule; engines call a library for it."""

    __slots__ = ()
    family = "opaque"
    traits = Traits(tolerance="R")


class Composite(Family):
    """An op that is an expression of smaller ops; gradient and loops follow from it.

    It may carry its own vjp, and an engine may claim it whole.
    """

    __slots__ = ()
    family = "composite"
    traits = Traits(tolerance="R")

    def expand(self, *xs: Any, **_: Any) -> Any:
        """The same thing in smaller ops (a tuple for several results)."""
        raise NotImplementedError

    def vjp(self, g: Any, y: Any, *xs: Any, **_: Any) -> Cotangents:
        return functions.pulled_through(self, g, xs)

    def rows(self, has_rows: Sequence[bool], *xs: Any, **_: Any) -> Tensor | None:
        parts = self._done(has_rows, xs)
        if parts is None or len(parts) == 1:
            return None if parts is None else parts[0]

        def each(*operands: Tensor) -> Any:
            return self._done(has_rows, operands)

        return functions.called(self.name, each, xs)

    def _done(
        self, has_rows: Sequence[bool], xs: Sequence[Tensor]
    ) -> list[Tensor] | None:
        """The results for rows, by what is made of the expansion of one row."""
        # What all rows share is expanded as it is, and nothing above it is looked at.
        values = {x.serial: x for x in xs}
        operands, rows = list(xs), set()
        for k, (x, g) in enumerate(zip(xs, has_rows, strict=True)):
            if g:
                operands[k] = Tensor(Argument(k), (), row_type(x))
                values[operands[k].serial] = x
                rows.add(operands[k].serial)
        y = self.expand(*operands)
        ys = y if isinstance(y, tuple) else (y,)
        if follow(ys, values, rows) is not None:
            return None
        return rows_made(ys, values, rows, row_count(has_rows, xs))


@op(linear=True)
class Output(Family):
    """The k-th result of an op that has several."""

    position: int
    family = "output"
    arity = 1

    def infer(self, *types: Any) -> Type:
        if not isinstance(types[0], TupleType):
            raise TreadleError(f"{types[0]} is not several results")
        if not 0 <= self.position < len(types[0]):
            raise ArityError(f"result {self.position} of {len(types[0])} is asked for")
        return types[0][self.position]

    def check(self, inputs: Sequence[Tensor]) -> None:
        if len(inputs) != 1:
            raise ArityError(f"takes 1 operand, got {len(inputs)}")

    def numpy(self, *arrays: Any) -> Any:
        return arrays[0][self.position]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        count = len(xs[0].type)  # type: ignore[arg-type]
        return (tuple(g if k == self.position else None for k in range(count)),)  # type: ignore[return-value]

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        # What an op with one result in a tuple does to rows may be a call with one.
        return self(*xs) if isinstance(xs[0].type, TupleType) else xs[0]


@cached(1024)
def selections(count: int) -> tuple[Output, ...]:
    """The ops that select each of so many results: they are shared."""
    return tuple(Output(k) for k in range(count))


def outputs_of(node: Tensor) -> tuple[Tensor, ...]:
    """The results of a node as nodes: that of one that has no several is itself."""
    if isinstance(node.type, TupleType):
        return results(node, selections(len(node.type)))
    return (node,)


def is_composed(op: Any) -> bool:
    """Return True for an expression of smaller ops: a composite, or an op of elements
    that is no primitive."""
    primitive = isinstance(op, Elementwise) and op.traits.primitive
    return isinstance(op, (Composite, Elementwise)) and not primitive
