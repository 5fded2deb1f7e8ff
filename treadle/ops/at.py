"""`x.at[key]`: a tensor with a part of it changed, as a new one."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import bool_, kind, promote
from treadle.base.errors import AxisError, DTypeError, ShapeError, TreadleError
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor, integer_node, weak_operand
from treadle.graph.op import shared
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.origin import capture, describe
from treadle.graph.tensor import Tensor, new_node
from treadle.ops.gather import Index, Unindex, indexed
from treadle.ops.index import getitem, plan_of, planned
from treadle.ops.movement import broadcast_to, reshape
from treadle.ops.positions import has_data, is_number, part_at, places
from treadle.ops.scatter import IndexFold, IndexSet


class At:
    """`x.at`: choose a part, then say what becomes of it; x itself stays.

    Whole numbers in the key that were computed are data: a loop that changes another
    element each time is one program.
    """

    __slots__ = ("_data", "_key", "_x")

    def __init__(self, x: Tensor, key: Any = Ellipsis, data: bool = False) -> None:
        self._x = x
        self._key = key
        self._data = data  # whole numbers in the key are

    def __getitem__(self, key: Any) -> At:
        return At(self._x, key, has_data(key))

    def get(self) -> Tensor:
        """The part itself."""
        return getitem(self._x, self._key)

    def set(self, value: Any) -> Tensor:
        """x with the part replaced; of duplicate positions the last wins."""
        return self._changed("set", value)

    def add(self, value: Any) -> Tensor:
        """x with `value` added to the part; duplicate positions all count."""
        return self._changed("add", value)

    def subtract(self, value: Any) -> Tensor:
        """x with `value` subtracted from the part."""
        return self._changed("add", -as_tensor(self._value(value)))

    def multiply(self, value: Any) -> Tensor:
        """x with the part multiplied; duplicate positions all count."""
        return self._changed("multiply", value)

    def max(self, value: Any) -> Tensor:
        """x with the maximum of the part and `value` in it."""
        return self._changed("max", value)

    def min(self, value: Any) -> Tensor:
        """x with the minimum of the part and `value` in it."""
        return self._changed("min", value)

    def _value(self, value: Any) -> Tensor:
        """The value in the dtype of x, or an error where it would lose its kind."""
        x = self._x
        node = weak_operand(value, x)
        wide = promote(node.type.dtype, x.type.dtype)
        if kind(wide) != kind(x.type.dtype):
            raise DTypeError(
                f"{node.type} does not fit into {x.type}",
                hint="convert one of them with .astype(...)",
            ).located("at", repr(x.type), describe(capture()))
        return functions.astype(node, x.type.dtype)

    def _changed(self, mode: str, value: Any) -> Tensor:
        x, e = self._x, self._value(value)
        if not e.type.shape and self._is_mask():
            mask = as_tensor(self._key)
            lead = mask.type.shape + (1,) * (x.type.ndim - mask.type.ndim)
            wide = reshape(mask, lead)
            return functions.where(wide, _combined(mode, x, e), x)
        key = self._key
        ids = places(key, x.type) if self._data else None
        if ids:
            take, t = part_at(x.type, len(ids))
            e = self._fitted(e, t)
            if mode != "set":
                e = _combined(mode, new_node(take, (x, *ids), t), e)
            return new_node(shared(IndexSet, take.axes), (x, e, *ids), x.type)
        plan = plan_of(_as_data(key, x.type) if self._data else key, x, "at")
        view = plan.view(x)
        if not plan.ids:
            old = reshape(view, view.type.shape)
            return plan.put(x, _combined(mode, old, self._fitted(e, view.type)))
        want = indexed(view.type, plan.axes, plan.place, [i.type for i in plan.ids])
        e = self._fitted(e, want)
        if mode != "set" and not any(i.type.ndim for i in plan.ids):  # one place
            old = Index(plan.axes, plan.place)(view, *plan.ids)
            mode, e = "set", _combined(mode, old, e)
        if mode == "add":
            put = Unindex(view.type.shape, plan.axes, plan.place)(e, *plan.ids)
            return plan.put(x, view + reshape(put, plan.shape, axes=plan.names))
        if mode == "set":
            return plan.put(x, IndexSet(plan.axes, plan.place)(view, e, *plan.ids))
        fold = IndexFold(plan.axes, plan.place, mode)
        return plan.put(x, fold(view, e, *plan.ids))

    def _by_names(self, e: Tensor, want: Type) -> Tensor:
        """The value with its axes where the part has them, 1 elsewhere."""
        known, names = want.axes or (), e.type.axes or ()
        if None in names or not set(names) <= set(known):
            raise AxisError(
                f"a value {e.type} for a part {want}",
                hint="a value has axes of the part: td.rename_axes(value, ...), or "
                "td.unname(value)",
            ).located("at", f"{self._x.type}, {e.type}", describe(capture()))
        size = dict(zip(names, e.type.shape, strict=True))
        order = tuple(names.index(name) for name in known if name in size)
        permuted: Tensor = functions.permute_dims(e, order)
        return reshape(permuted, tuple(size.get(name, 1) for name in known))

    def _fitted(self, e: Tensor, want: Type) -> Tensor:
        """The value broadcast to the part, by its names if it has some."""
        if e.type.axes is not None:
            e = self._by_names(e, want)
        while e.type.ndim > want.ndim and e.type.shape[0] == 1:
            e = reshape(e, e.type.shape[1:])
        try:
            return broadcast_to(e, want.shape)
        except TreadleError as error:
            types = f"{self._x.type}, {e.type}"
            raise ShapeError(
                f"a value of shape {e.type.shape} does not fill {want.shape}"
            ).located("at", types, describe(capture())) from error

    def _is_mask(self) -> bool:
        key = self._key
        if not isinstance(key, (Operand, np.ndarray)) or key.dtype != bool_:
            return False
        return key.shape == self._x.type.shape[: key.ndim] and key.ndim > 0


def _as_data(key: Any, t: Type) -> Any:
    """The key with whole numbers as data; what is out of range is as it was, for an
    error to say so."""
    items = key if type(key) is tuple else (key,)
    try:
        planned(items, t)
    except TreadleError:
        return key
    return tuple([integer_node(int(x)) if is_number(x) else x for x in items])


def _combined(mode: str, x: Tensor, e: Tensor) -> Tensor:
    if mode == "set":
        return broadcast_to(e, x.type.shape)
    names = {"add": "add", "multiply": "multiply", "max": "maximum", "min": "minimum"}
    return getattr(functions, names[mode])(x, e)


@provide
def at(x: Any) -> At:
    """`at(x)[key].set(e)` and its kin: x with a part changed, as a new tensor.

    >>> x = td.zeros(4)
    >>> x.at[1:3].set(5).tolist(), x.at[[0, 0]].add(1).tolist()
    ([0.0, 5.0, 5.0, 0.0], [2.0, 0.0, 0.0, 0.0])
    """
    return At(as_tensor(x))
