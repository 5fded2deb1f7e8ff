"""Derivatives that were recorded for users and still live.

Who runs what they derive, or cuts it, has to compute them with it.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

from treadle.autodiff.written import Derivative
from treadle.base.types import TupleType
from treadle.core import native
from treadle.graph.tensor import Tensor
from treadle.graph.traversal import (
    by_serial,
    living_results,
    reach,
    waiting_results,
)
from treadle.ops.families import Output

# By serial.
_recorded: dict[int, weakref.ref[Tensor]] = {}
if native is not None:
    native.bind_live(_recorded)
# Those of them through rows that are yet to run.
_late: dict[int, weakref.ref[Tensor]] = {}


def mind(derivative: Tensor) -> None:
    """Know of a Derivative, and so of its results, as long as it lives."""
    serial = derivative.serial  # when it is gone, no Python runs
    _recorded[serial] = weakref.ref(derivative, partial(_recorded.pop, serial))
    if is_late(derivative):
        _late[serial] = weakref.ref(derivative, partial(_late.pop, serial))


def some_live() -> bool:
    """Return True if there are any."""
    return bool(_recorded)


def is_late(node: Tensor) -> bool:
    """Return True for a derivative through rows that run with it."""
    return type(node.op) is Derivative and node.op.late


def with_late(roots: Sequence[Tensor]) -> Sequence[Tensor]:
    """Roots, and what goes on through the rows that these are yet to run as: gradients
    are computed with them, for which all values of the rows are there then.
    """
    if not _late:
        return roots
    every = {x.serial: x for x in roots}
    derived = set(every)
    for x in roots:
        if x.inputs and type(x.op) is Output and type(x.inputs[0].op) is Derivative:
            derived |= {y.serial for y in _derived_by(x.inputs[0])}
    for serial, reference in list(_late.items()):
        derivative = reference()
        results = [] if derivative is None else waiting_results(derivative)
        if derivative is None or not results:
            _late.pop(serial, None)
        elif any(y.serial in derived for y in _derived_by(derivative)):
            every |= {x.serial: x for x in results}
    return list(every.values())


def _derived_by(derivative: Tensor) -> Sequence[Tensor]:
    """The nodes that a Derivative derives."""
    op: Any = derivative.op
    return derivative.inputs[: op.of]


def _may_endanger(roots: Sequence[Tensor]) -> bool:
    """Return True if a result of a derivative that waits is not among these roots."""
    return native is None or native.endangered([*roots]) is NotImplemented


def endangered(roots: Sequence[Tensor]) -> list[Tensor]:
    """Results, not yet evaluated, of derivatives of what these roots reach, but for the
    roots.

    Cutting the roots would lose them: they are evaluated first.
    """
    if not _recorded or not _may_endanger(roots):
        return []
    rooted, pairs = set(map(by_serial, roots)), []
    for reference in list(_recorded.values()):
        node = reference()
        if node is None:
            continue
        several = isinstance(node.type, TupleType)
        results = living_results(node) if several else [node]
        if rooted.issuperset(map(by_serial, results)):
            continue
        missing = [x for x in results if x.stored is None and x.serial not in rooted]
        if missing:
            pairs.append((node, missing))
    if not pairs:
        return []
    rooted_serials = {node.serial for node in reach(roots) if node.inputs}
    return [
        x
        for node, results in pairs
        if any(n.serial in rooted_serials for n in reach(node.inputs))
        for x in results
    ]
