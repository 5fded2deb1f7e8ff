"""Sets of elements: the distinct ones of a tensor, and which are among others."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from treadle.base.dtypes import KINDS, float32, kind
from treadle.base.errors import TraceError
from treadle.graph.frame import top
from treadle.graph.leaves import SCALARS, as_tensor
from treadle.graph.op import Array
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.origin import capture, describe
from treadle.graph.tensor import Tensor
from treadle.ops.cast import astype, operands
from treadle.ops.compare import compared

__all__ = [
    "isin",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAll(NamedTuple):
    """The results of `unique_all`."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The results of `unique_counts`."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The results of `unique_inverse`."""

    values: Tensor
    inverse_indices: Tensor


def _distinct(x: Any, name: str) -> tuple[Tensor, Array, Array, Array]:
    """The distinct elements, where each is first, where each element stands among them,
    and how often.
    """
    node = as_tensor(x)
    if isinstance(x, Operand) and top().tracing:
        raise TraceError(
            "there are as many distinct elements as the values say, but this is a "
            "trace",
            hint="td.sort(x) and a comparison of neighbors have a known shape",
        ).located(name, repr(node.type), describe(capture()))
    value = node.numpy().reshape(-1)
    if value.dtype.itemsize == 2 and value.dtype.kind not in "iu":
        value = value.astype(float32)
    _, first, inverse, counts = np.unique(value, True, True, True, equal_nan=False)
    flat = functions.reshape(node, (-1,))
    values = functions.take(flat, as_tensor(first), 0)
    return values, first, inverse.reshape(node.type.shape), counts


@provide
def unique_values(x: Any) -> Tensor:
    """The distinct elements in rising order; each NaN is distinct.

    Evaluated at the call, because their number depends on the values.

    >>> td.unique_values([3.0, 1.0, 3.0]).tolist()
    [1.0, 3.0]
    """
    return _distinct(x, "unique_values")[0]


@provide
def unique_counts(x: Any) -> UniqueCounts:
    """The distinct elements in rising order, and how often each occurs.

    >>> [t.tolist() for t in td.unique_counts([3.0, 1.0, 3.0])]
    [[1.0, 3.0], [1, 2]]
    """
    values, _, _, counts = _distinct(x, "unique_counts")
    return UniqueCounts(values, as_tensor(counts))


@provide
def unique_inverse(x: Any) -> UniqueInverse:
    """The distinct elements in rising order, and where each element is among them.

    >>> [t.tolist() for t in td.unique_inverse([3.0, 1.0, 3.0])]
    [[1.0, 3.0], [1, 0, 1]]
    """
    values, _, inverse, _ = _distinct(x, "unique_inverse")
    return UniqueInverse(values, as_tensor(inverse))


@provide
def unique_all(x: Any) -> UniqueAll:
    """The distinct elements in rising order, the position in the flattened x where each
    is first, where each element of x is among them, and how often each occurs.

    >>> [t.tolist() for t in td.unique_all([3.0, 1.0, 3.0])]
    [[1.0, 3.0], [1, 0], [1, 0, 1], [1, 2]]
    """
    values, *rest = _distinct(x, "unique_all")
    return UniqueAll(values, *map(as_tensor, rest))


def _alike(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """Tensors to compare: numbers are weak, integers stay as they are."""
    if isinstance(x1, SCALARS) or isinstance(x2, SCALARS):
        x, y = operands(x1, x2)
        return x, y
    x, y = as_tensor(x1), as_tensor(x2)
    if all(kind(v.type.dtype) == "integer" for v in (x, y)):
        return x, y
    return compared(x, y)


@provide
def isin(x1: Any, x2: Any, *, invert: bool = False) -> Tensor:
    """Whether each element of x1 is among those of x2, or is not with `invert`: bools.

    NaN is among none, and elements are compared as `equal` does. Each element is looked
    up in the sorted x2; complex numbers and bools, which have no order here, are
    compared with all of it.

    >>> td.isin([1, 2, 3], [3, 1]).tolist()
    [True, False, True]
    """
    x, y = _alike(x1, x2)
    flat = functions.reshape(y, (-1,))
    count = flat.type.size
    if not count or kind(x.type.dtype) not in KINDS["ordered"]:
        alike = functions.equal(functions.expand_dims(x, -1), flat)
        within: Tensor = functions.any(alike, -1)
    else:
        row = functions.sort(flat)  # what its type cannot hold is equal to none of it
        sought = astype(x, row.type.dtype)
        places = functions.minimum(functions.searchsorted(row, sought), count - 1)
        within = functions.equal(row[places], x)
    return cast(Tensor, functions.logical_not(within)) if invert else within
