"""Differences of neighbors."""

from __future__ import annotations

from typing import Any

from treadle.base.errors import ArgumentError
from treadle.base.types import as_integer, resolve_axis
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions, provide
from treadle.graph.tensor import Tensor
from treadle.ops.join import concat

__all__ = ["diff"]


@provide
def diff(
    x: Any, *, axis: Any = -1, n: int = 1, prepend: Any = None, append: Any = None
) -> Tensor:
    """x[i + 1] - x[i] along `axis`, done `n` times; of bools, where they change.

    `prepend` and `append` are joined to x before. With them x[.., m, ..] becomes
    [.., m - n, ..] of the joined extent m.

    >>> td.diff([1.0, 4.0, 9.0]).tolist(), td.diff([1.0, 4.0, 9.0], n=2).tolist()
    ([3.0, 5.0], [2.0])
    """
    node = as_tensor(x)
    times = as_integer(n)
    if times is None or times < 0:
        raise ArgumentError(f"n is a whole number from 0 on, not {n!r}").located("diff")
    place = resolve_axis(axis, node.type)
    parts = [part for part in (prepend, node, append) if part is not None]
    if len(parts) > 1:
        node = concat(parts, place)
    lead = (slice(None),) * place
    differ = functions.not_equal if node.type.dtype.kind == "b" else functions.subtract
    for _ in range(times):
        node = differ(node[(*lead, slice(1, None))], node[(*lead, slice(None, -1))])
    return node
