"""Whether two graphs are built alike: the same ops, types, wiring and constants."""

from __future__ import annotations

from typing import Any

from treadle.base import trees
from treadle.graph.leaves import Constant, as_tensor
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import reach

__all__ = ["alike"]


def _matches(a: Tensor, b: Tensor) -> bool:
    if type(a.op) is not type(b.op) or a.type != b.type:
        return False
    for (_, x), (_, y) in zip(a.op.attributes(), b.op.attributes(), strict=True):
        # Identity first: a Variable's == is element by element.
        if x is not y and (hasattr(x, "node") or hasattr(y, "node") or x != y):
            return False
    if isinstance(a.op, Constant):
        assert a.stored is not None and b.stored is not None
        return a.stored.tobytes() == b.stored.tobytes()
    return True


def alike(x: Any, y: Any) -> bool:
    """Whether the graphs of two trees of tensors have the same structure.

    Constants are compared by their bits, Variables by identity; names, marks and
    stored values are not looked at.

    >>> import treadle as td
    >>> a = td.param("a", init=1.0)
    >>> td.alike(a * 2.0, a * 2.0), td.alike(a * 2.0, a * 3.0)
    (True, False)
    """
    first, first_structure = trees.flatten(x)
    second, second_structure = trees.flatten(y)
    if first_structure != second_structure:
        return False
    pairs = list(zip(map(as_tensor, first), map(as_tensor, second), strict=True))
    known: dict[int, int] = {}
    while pairs:
        a, b = pairs.pop()
        if a.serial in known:
            if known[a.serial] != b.serial:
                return False
            continue
        if not _matches(a, b) or len(a.inputs) != len(b.inputs):
            return False
        known[a.serial] = b.serial
        pairs.extend(zip(a.inputs, b.inputs, strict=True))
    return len(set(known.values())) == len(known) == len(reach(map(as_tensor, first)))
