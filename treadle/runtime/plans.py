"""Calls of a function that is traced already, as plans: one node and its results.

What `Function` does in general (flatten, look up, guard, build the call and its
results) is put down here once for a signature. A call that does more is left to the
trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.graph.calls import SINGLE, NodePlan, PlanStep
from treadle.graph.signature import TUPLE, things_of
from treadle.graph.tensor import Tensor

DATA = (Tensor, np.ndarray)  # what is data in a call that is told


def plan_of_call(
    args: Sequence[Any], entry: Any, holds: Callable[[], bool]
) -> NodePlan:
    """The plan of calls like this one.

    The arguments are given by position. `entry` is the trace of the call, which they
    mean while `holds` says so.
    """
    traced = entry.trace
    things = tuple(things_of(args))
    places = [k for k, x in enumerate(things) if isinstance(x, DATA)]
    types = [x.type if isinstance(x, Tensor) else x for x in things]
    kept = tuple([None if isinstance(x, np.ndarray) else x for x in types])
    count = len(places)
    if entry.open or traced.draws or not (entry.flat or entry.single):
        return NodePlan(count, (), (), (), (), SINGLE, (), kept, holds, run=entry.call)
    leaves = count + len(traced.variables) + len(traced.captured)
    steps = [PlanStep(entry.op, tuple(range(leaves)), entry.type)]
    first, chosen = leaves, entry.selections
    if chosen is not None:
        pairs = zip(chosen, entry.type, strict=True)
        steps += [PlanStep(op, (leaves,), t) for op, t in pairs]
        first += 1
    arrays = [n for n, k in enumerate(places) if isinstance(things[k], np.ndarray)]
    arguments = traced.body.arguments
    return NodePlan(
        count,
        tuple(traced.variables),
        tuple(traced.captured),
        (),
        tuple(steps),
        SINGLE if entry.single else TUPLE,
        tuple(range(first, leaves + len(steps))),
        kept,
        holds,
        tuple([(n, arguments[n].type) for n in arrays]),
    )
