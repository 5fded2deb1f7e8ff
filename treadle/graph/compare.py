"""Structural comparison of graphs: the same ops, types, wiring and constants."""

from __future__ import annotations

from typing import Any

from treadle.base import trees
from treadle.graph.body import Body
from treadle.graph.leaves import Constant, as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor

__all__ = ["alike"]

Pairs = list[tuple[Tensor, Tensor]]


def alike(x: Any, y: Any) -> bool:
    """Return True if the graphs of two trees of tensors have the same structure.

    Constants are compared by their bits, Variables by identity, bodies of calls and
    loops by their graphs; names, marks, draws and stored values are not looked at.

    >>> a = td.param("a", init=1.0)
    >>> td.alike(a * 2.0, a * 2.0), td.alike(a * 2.0, a * 3.0)
    (True, False)
    """
    first, first_structure = trees.flatten(x)
    second, second_structure = trees.flatten(y)
    if first_structure != second_structure:
        return False
    ours = functions.written_out([as_tensor(leaf) for leaf in first])
    theirs = functions.written_out([as_tensor(leaf) for leaf in second])
    pairs: Pairs = list(zip(ours, theirs, strict=True))
    known: dict[int, int] = {}
    while pairs:
        a, b = pairs.pop()
        if a.serial in known:
            if known[a.serial] != b.serial:
                return False
            continue
        inner = _inside(a, b)
        if inner is None or len(a.inputs) != len(b.inputs):
            return False
        known[a.serial] = b.serial
        pairs += inner
        pairs += zip(a.inputs, b.inputs, strict=True)
    # One node for one node: x * x is not x * (another x).
    return len(set(known.values())) == len(known)


def _inside(a: Tensor, b: Tensor) -> Pairs | None:
    """The other pairs that have to be alike for two nodes to be; None where they are
    not."""
    constants = isinstance(a.op, Constant) and isinstance(b.op, Constant)
    if (type(a.op) is not type(b.op) and not constants) or a.type != b.type:
        return None
    pairs: Pairs = []
    for (_, x), (_, y) in zip(a.op.attributes(), b.op.attributes(), strict=True):
        if isinstance(x, Body) and isinstance(y, Body):
            ours, theirs = x.arguments + x.outputs, y.arguments + y.outputs
            sizes = len(x.arguments), len(x.outputs)
            if sizes != (len(y.arguments), len(y.outputs)):
                return None
            pairs += zip(ours, theirs, strict=True)
        elif _differ(x, y):
            return None
    if isinstance(a.op, Constant):
        known, other = a.array, b.array
        assert known is not None and other is not None
        if known.tobytes() != other.tobytes():
            return None
    return pairs


def _differ(x: Any, y: Any) -> bool:
    # Identity first: a Variable's == is element by element. 1 is not True.
    if x is y:
        return False
    if hasattr(x, "node") or hasattr(y, "node") or type(x) is not type(y):
        return True
    return bool(x != y)
