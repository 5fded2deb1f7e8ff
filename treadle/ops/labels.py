"""Labels beside scores: checked, put in order by name, and where they stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.caches import cached
from treadle.base.dtypes import kind
from treadle.base.errors import AxisError, DTypeError, RunError, ShapeError
from treadle.base.types import Type, resolve_axis
from treadle.graph.leaves import as_tensor, integer_node
from treadle.graph.op import Array, family, matched
from treadle.graph.operators import functions
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.cast import scored
from treadle.ops.compare import not_equal
from treadle.ops.families import Composite, some
from treadle.ops.pick import one_hot
from treadle.ops.rearrange import moveaxis
from treadle.ops.select import where


def known_labels(labels: Array, classes: int) -> Array:
    """The labels; one that names no class is a RunError."""
    bad = (labels < 0) | (labels >= classes)
    if bad.any():
        raise RunError(
            f"label {labels[bad].flat[0]} is out of range for {classes} classes",
            hint="labels are 0 .. classes - 1; leave some out with ignore_index=",
        )
    return labels.astype(np.intp)


@cached(1024)
def _labeled(axis: int, x: Type, labels: Type) -> Type:
    """The type of what labels choose among scores with classes along `axis`."""
    if kind(x.dtype) != "float":
        raise DTypeError(f"takes float scores, not {x.dtype.name}")
    if kind(labels.dtype) != "integer":
        raise DTypeError(
            f"labels are integers, not {labels.dtype.name}",
            hint="probabilities have the shape of the logits and a float type",
        )
    place = resolve_axis(axis, x)
    if labels.shape != (*x.shape[:place], *x.shape[place + 1 :]):
        raise ShapeError(
            f"scores {x} with labels {labels}",
            hint="labels have the scores' shape without its class dimension",
        )
    if labels.size and not x.shape[place]:
        raise ShapeError(f"there are no classes to label: axis {place} of {x}")
    places = tuple(f"dimension {k}" for k in range(x.ndim))
    rest = (*places[:place], *places[place + 1 :])
    return Type(labels.shape, x.dtype, matched(((x, places), (labels, rest)), rest))


@family
class OfLabels(Composite):
    """A loss of scores with classes along `axis`, one for each integer label."""

    __slots__ = ()
    arity = 2
    axis: int = 1
    rows = along_axes

    def infer(self, *types: Type) -> Type:
        return _labeled(self.axis, *types)


def hot_at(labels: Tensor, x: Tensor, axis: int) -> Tensor:
    """1 at the label along `axis`, 0 elsewhere, shaped as x."""
    return moveaxis(one_hot(labels, x.type.shape[axis], x.type.dtype), -1, axis)


def is_label(labels: Tensor, x: Tensor, axis: int) -> Tensor:
    """Whether a position along `axis` is the label's, shaped as x."""
    return moveaxis(one_hot(labels, x.type.shape[axis], "bool"), -1, axis)


def classes_of(scores: Any, axis: Any) -> tuple[Tensor, int]:
    """The node and its dimension of classes: 1 if there are two, or what is named."""
    x = scored(scores)
    if not x.type.ndim:
        raise ShapeError(f"scores {x.type} have no dimension of classes")
    place = min(1, x.type.ndim - 1) if axis is None else resolve_axis(axis, x.type)
    return x, place


def labels_of(
    target: Any, ignore: int | None, x: Tensor, axis: int
) -> tuple[Tensor, Tensor | None]:
    """The labels, 0 for those left out, and which of them count (None: all).

    They have the names of the scores without the classes by role, and the order by
    name; probabilities have all of them.
    """
    if type(target) is int and ignore is None:
        return integer_node(target), None
    empty = isinstance(target, (list, tuple)) and not len(target)
    labels = as_tensor(target, "int64" if empty else None)
    if labels.type.axes is not None:
        labels = _in_order(labels, x, axis)
    if ignore is None or kind(labels.type.dtype) != "integer":
        return labels, None
    kept = not_equal(labels, ignore)
    return where(kept, labels, 0), kept


def _in_order(labels: Tensor, x: Tensor, axis: int) -> Tensor:
    """Named labels in the order of the scores' other dimensions, without names."""
    label_names, names = labels.type.axes or (), x.type.axes
    if names is not None:
        rest = (*names[:axis], *names[axis + 1 :])
        wanted = names if len(label_names) == len(names) else rest
        if set(label_names) != set(wanted):
            raise AxisError(
                f"labels {labels.type} of scores {x.type}",
                hint="labels have the scores' axes without the classes: name them so, "
                "or drop their names with td.unname(labels)",
            )
        if None not in label_names:
            labels = functions.permute_dims(labels, wanted)
    return functions.unname(labels)


def over_labels(values: Tensor, x: Tensor, axis: int) -> Tensor:
    """A value for each label with the names that the scores have without classes."""
    names = x.type.axes
    if names is None or not values.type.shape:
        return values
    rest = some((*names[:axis], *names[axis + 1 :]))
    return functions.reshape(values, values.type.shape, axes=rest)
