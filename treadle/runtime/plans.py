"""Calls of a function that is traced already, as plans: one node and its results.

What `Function` does in general (flatten, look up, guard, build the call and its
results) is put down here once for a signature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.graph.calls import SINGLE, Plan, Step
from treadle.graph.signature import TUPLE, things_of
from treadle.graph.tensor import Tensor


def plan_of_call(
    args: Sequence[Any], entry: Any, holds: Callable[[], bool]
) -> Plan | None:
    """The plan of calls like this one; None where there is too much to them.

    The arguments are given by position. `entry` is the trace of the call, which they
    mean while `holds` says so.
    """
    traced = entry.trace
    if traced.draws or not (entry.flat or entry.single):
        return None
    things = tuple(things_of(args))
    count = sum(isinstance(x, Tensor) for x in things)
    leaves = count + len(traced.variables) + len(traced.captured)
    steps = [Step(entry.op, tuple(range(leaves)), entry.type)]
    first, chosen = leaves, entry.selections
    if chosen is not None:
        pairs = zip(chosen, entry.type, strict=True)
        steps += [Step(op, (leaves,), t) for op, t in pairs]
        first += 1
    return Plan(
        count,
        tuple(traced.variables),
        tuple(traced.captured),
        (),
        tuple(steps),
        SINGLE if entry.single else TUPLE,
        tuple(range(first, leaves + len(steps))),
        tuple(x.type if isinstance(x, Tensor) else x for x in things),
        holds,
    )
