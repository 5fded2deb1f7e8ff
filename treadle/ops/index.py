"""`x[key]`: NumPy's indexing as slices, reshapes and gathers."""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from treadle.base.caches import cached
from treadle.base.dtypes import bool_, whole
from treadle.base.errors import ArgumentError, ShapeError, TraceError, TreadleError
from treadle.base.slices import SliceRange
from treadle.base.types import Names, Shape, Type
from treadle.graph.frame import top
from treadle.graph.leaves import INTEGER, Version, as_tensor, integer_node
from treadle.graph.op import Op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.origin import capture, describe, is_key_written
from treadle.graph.parts import is_differentiable_part, settle_part
from treadle.graph.recorded import recorded_of_parts
from treadle.graph.tensor import Tensor, new_node
from treadle.ops.families import some
from treadle.ops.gather import Index
from treadle.ops.movement import Reshape, reshape
from treadle.ops.positions import is_number, part_at, places
from treadle.ops.slice import SetSlice, Slice, extents

__all__ = ["IndexRangeError", "nonzero"]


class IndexRangeError(ArgumentError, IndexError):
    """An integer index outside its dimension, or too many indices."""


class Plan(NamedTuple):
    """A key as a slice, a reshape of it to `shape`, and positions along `axes`."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    steps: tuple[int, ...]
    shape: Shape
    names: Names | None
    axes: tuple[int, ...]
    place: int
    ids: tuple[Tensor, ...]

    def view(self, x: Tensor) -> Tensor:
        """The part of x before positions are applied."""
        part = x if self.whole(x.type) else Slice(*self[:3])(x)
        if part.type.shape == self.shape and part.type.axes == self.names:
            return part
        return reshape(part, self.shape, axes=self.names)

    def whole(self, t: Type) -> bool:
        """Whether the slice is all of x."""
        return self.steps == (1,) * t.ndim and self.part(t) == t.shape

    def part(self, t: Type) -> Shape:
        """The shape of the slice."""
        return extents(t.shape, *self[:3])

    def result(self, x: Tensor) -> Tensor:
        """x[key]."""
        view = self.view(x)
        return Index(self.axes, self.place)(view, *self.ids) if self.ids else view

    def put(self, x: Tensor, view: Tensor) -> Tensor:
        """x with the part that `view` gives replaced by a tensor."""
        if self.whole(x.type):
            return reshape(view, x.type.shape, axes=x.type.axes)
        part = reshape(view, self.part(x.type), axes=x.type.axes)
        return SetSlice(*self[:3])(x, part)


def evaluated(mask: Any, what: str) -> Any:
    """The value of a tensor that decides a shape; refused where none can be had."""
    if isinstance(mask, Operand):
        if top().tracing:
            raise TraceError(
                f"{what} has as many elements as its values say, but this is a trace",
                hint="use td.where(mask, a, b), or x.at[mask].set(scalar)",
            ).located(what, repr(mask.type), describe(capture()))
        return mask.numpy()
    return np.asarray(whole(mask))


def _items(key: Any, t: Type) -> list[Any]:
    """The key with masks as positions, lists as arrays and the Ellipsis as slices."""
    items: list[Any] = []
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, (bool, np.bool_)):
            raise ArgumentError(
                "an index is no bool", hint="td.where(condition, a, b) selects"
            )
        if isinstance(item, (list, tuple, range, np.ndarray)) or _is_foreign(item):
            item = _array(item)
            item = item.astype(np.int64) if not item.size else item
        items.append(item)
    used = sum(map(_axes_read, items))
    if used > t.ndim:
        raise IndexRangeError(f"{used} indices for {t.ndim} dimensions")
    dots = [k for k, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise ArgumentError("an index holds more than one '...'")
    at = dots[0] if dots else len(items)
    items[at : at + 1] = [slice(None)] * (t.ndim - used)
    expanded: list[Any] = []
    axis = 0
    for item in items:
        if _is_mask(item):
            extent = t.shape[axis : axis + item.ndim]
            # A mask of nothing fits anything, as in the standard.
            if any(m not in (n, 0) for m, n in zip(item.shape, extent, strict=True)):
                raise IndexRangeError(f"a mask {item.shape} indexes {extent}")
            expanded += [as_tensor(i) for i in evaluated(item, "a mask").nonzero()]
        else:
            arrays = isinstance(item, (np.ndarray, Operand))
            expanded.append(as_tensor(item) if arrays else item)
        axis += _axes_read(item)
    return expanded


def _is_foreign(item: Any) -> bool:
    """Return True for an array of another library, such as a column of a table."""
    return hasattr(item, "__array__") and not isinstance(item, (Operand, np.generic))


def _is_mask(item: Any) -> bool:
    return isinstance(item, (np.ndarray, Operand)) and item.dtype == bool_


def _axes_read(item: Any) -> int:
    """How many axes of what is indexed an item of the index stands for."""
    if _is_mask(item):
        return int(item.ndim)
    return int(item is not None and item is not Ellipsis)


def _array(item: Any) -> Any:
    try:
        return np.asarray(whole(item))
    except ValueError as error:
        raise ArgumentError(f"the index {item!r} is no array: {error}") from None


def _range(item: slice, n: int) -> SliceRange:
    try:
        return SliceRange.of(item, n)
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"the index {item!r} is no range: {error}") from None


def _position(item: Any, n: int) -> int:
    try:
        k = operator.index(item)
    except TypeError:
        raise ArgumentError(
            f"an index is an integer, a slice, None, '...' or an array, not {item!r}"
        ) from None
    if not -n <= k < n:
        raise IndexRangeError(f"index {k} is out of range for extent {n}")
    return k % n


def planned(key: Any, t: Type) -> Plan:
    """The plan by which `x[key]` of an x of type t is read and written."""
    cuts: list[tuple[int, int, int]] = []
    shape: list[int] = []
    names: list[str | None] = []
    axes, ids = [], []
    advanced: list[int] = []  # where positions stand among the items
    before = 0  # dimensions of the result in front of the positions
    items = _items(key, t)
    arrays = any(isinstance(item, Tensor) for item in items)
    for order, item in enumerate(items):
        d = len(cuts)
        if item is None:
            shape.append(1)
            names.append(None)
        elif isinstance(item, slice):
            places = _range(item, t.shape[d])
            length = places.count
            cuts.append(tuple(places) if length else (0, 0, 1))
            shape.append(length)
            names.append(t.axes[d] if t.axes else None)
        else:
            if not advanced:
                before = len(shape)
            advanced.append(order)
            if isinstance(item, Tensor):
                cuts.append((0, t.shape[d], 1))
                axes.append(len(shape))
                ids.append(item)
                shape.append(t.shape[d])
                names.append(t.axes[d] if t.axes else None)
            else:
                k = _position(item, t.shape[d])
                cuts.append((k, k + 1, 1))
    together = not arrays or advanced[-1] - advanced[0] + 1 == len(advanced)
    starts, stops, steps = zip(*cuts, strict=True) if cuts else ((), (), ())
    return Plan(
        starts,
        stops,
        steps,
        tuple(shape),
        some(tuple(names)),
        tuple(axes),
        before if together else 0,
        tuple(ids),
    )


def plan_of(key: Any, x: Tensor, what: str) -> Plan:
    try:
        return planned(key, x.type)
    except TreadleError as error:
        raise error.located(what, repr(x.type), describe(capture())) from None


Step = tuple[Op, tuple[Tensor, ...], Type]


@provide
def item_step(x: Tensor, key: Any) -> Step | None:
    """The op, the inputs and the type of x[key]; None where there is more to that than
    numbers, ranges and new dimensions, or it is all of x, or an error."""
    plain = _plain(key)
    moves = None if plain is None else _moves(x.type, plain)
    if moves is None:
        return None
    *before, (op, t) = moves
    for earlier, part in before:
        x = new_node(earlier, (x,), part)
    return op, (x,), t


def _data_step(x: Tensor, key: Any) -> Step | None:
    """The op, the inputs and the type of x[key] for whole numbers as data: who reads a
    part looks alike for each. So it is where x is part of a value that is yet to be
    derived, and for elements of others unless the key is written in the program.
    """
    numbers = key if type(key) is tuple else (key,)
    if type(key) is not int and not all(map(is_number, numbers)):
        return _column_step(x, numbers) if type(x.op) is Version else None
    if top().tracing:
        return None
    if not is_differentiable_part(x):
        element = len(numbers) == x.type.ndim
        waits = x.stored is None or (type(x.op) is Version and x.type.ndim > 1)
        if not (element and waits) or is_key_written(sys._getframe(1)):
            return None
    ids = places(numbers, x.type) if numbers else None
    if ids is None:
        return None
    op, t = part_at(x.type, len(numbers))
    return op, (x, *ids), t


def _column_step(x: Tensor, items: tuple[Any, ...]) -> Step | None:
    """The same of a Variable for numbers behind ranges: columns, say."""
    places = [k for k, item in enumerate(items) if is_number(item)]
    if top().tracing or not places or places[-1] < len(places):
        return None
    if not all(is_number(x) or type(x) is slice or x is Ellipsis for x in items):
        return None
    if is_key_written(sys._getframe(2)):
        return None
    data = [integer_node(int(x)) if is_number(x) else x for x in items]
    try:
        plan = planned(tuple(data), x.type)
        checked = planned(items, x.type)  # which checks the numbers
    except TreadleError:
        return None
    index = Index(plan.axes, plan.place)
    view = plan.view(x)
    t = index.infer(view.type, *[INTEGER] * len(places))
    return (index, (view, *plan.ids), t) if t.shape == checked.shape else None


def _plain(key: Any) -> Any:
    """A key of numbers, ranges, None and '...', to look it up by; None of another."""
    if type(key) is int:
        return key
    parts = []
    for item in key if type(key) is tuple else (key,):
        if item is None or item is Ellipsis:
            parts.append(item)
            continue
        if type(item) is slice:
            item = item.start, item.stop, item.step
            for x in item:
                if x is not None and type(x) is not int:
                    return None
        elif type(item) is not int:
            return None
        parts.append(item)
    return tuple(parts)


@cached(4096)
def _moves(t: Type, plain: Any) -> list[tuple[Op, Type]] | None:
    """A part as a slice and then a reshape of an x of type t; one or both."""
    items = plain if type(plain) is tuple else (plain,)
    try:
        plan = planned(tuple(slice(*x) if type(x) is tuple else x for x in items), t)
    except TreadleError:
        return None
    steps = list[tuple[Op, Type]]()
    if not plan.whole(t):
        cut = Slice(*plan[:3])
        steps.append((cut, cut.infer(t)))
    last = steps[-1][1] if steps else t
    if last.shape != plan.shape or last.axes != plan.names:
        shape = Reshape(plan.shape, plan.names)
        steps.append((shape, shape.infer(last)))
    return steps or None


@provide
@recorded_of_parts
def getitem(x: Any, key: Any) -> Tensor:
    """`x[key]` as NumPy indexes: integers, slices, None, '...', arrays and masks.

    Integer tensors are data of the graph, and so are whole numbers where x is part of a
    value that derivatives go behind, or an element is taken by other numbers than those
    that are written there; a mask is evaluated at the call.

    >>> x = td.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    >>> x[1, ::-2].tolist(), x[[1, 0], [2, 0]].tolist()
    ([6.0, 4.0], [6.0, 1.0])
    """
    node = as_tensor(x)
    step = _data_step(node, key) if node.inputs or type(node.op) is Version else None
    step = step or item_step(node, key)
    if step is not None:
        part = new_node(*step)
        settle_part(part, node, key)
        return part
    if isinstance(key, (Operand, np.ndarray)) and key.dtype == bool_ and not key.shape:
        # One truth value keeps the whole or nothing of it, in a new first dimension.
        return getitem(functions.expand_dims(node, 0), functions.reshape(key, (1,)))
    plan = plan_of(key, node, "getitem")
    part = plan.result(node)
    if part is node and x is not node:  # a part of a Variable is a node of its own
        return Slice(*plan[:3])(node)
    if not plan.ids and part is not node:
        settle_part(part, node, key)
    return part


@provide
def nonzero(x: Any) -> tuple[Tensor, ...]:
    """Positions of the elements that are not 0, one tensor for each dimension.

    Evaluated at the call, because their number depends on the values.

    >>> [i.tolist() for i in td.nonzero([[0, 3], [4, 0]])]
    [[0, 1], [1, 0]]
    """
    value = evaluated(as_tensor(x), "nonzero")
    if value.ndim == 0:
        raise ShapeError("nonzero takes no scalar")
    places: Sequence[Any] = value.nonzero()
    return tuple(as_tensor(i) for i in places)
