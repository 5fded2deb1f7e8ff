"""Plans of small programs as the core runs them, all at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.core import native
from treadle.graph.variable import Variable
from treadle.runtime.steps import Computed, Plan, Slot, Source

__all__ = ["are_small", "at_once"]

PLACE, MADE, VARIABLE, ARRAY = range(4)  # kinds of sources (core/run.cpp)


def are_small(parts: Sequence[Any]) -> bool:
    """Whether the core may run all parts of a plan."""
    if native is None:
        return False
    return all(type(x) is Computed and x.program.is_small() for x in parts)


def at_once(plan: Plan, nodes: int) -> Any:
    """A plan of small parts for the core, for graphs of so many nodes; None where it
    does what only Python can.
    """
    parts: Sequence[Any] = plan.parts
    sources = [[_source(x) for x in part.sources] for part in parts]
    if plan.rows or any(x is None for own in sources for x in own):
        return None
    of: dict[Any, int] = {}
    own = []
    for part, given in zip(parts, sources, strict=True):
        of |= dict(part.results)
        results = [(k, int(slot)) for k, slot in part.results]
        own.append((given, results, [(k, uses) for k, _, uses in part.reused]))
    changes = [(x.variable, x.base, of[x.number]) for x in parts[-1].changes]
    if any(type(x.variable).commit is not Variable.commit for x in parts[-1].changes):
        return None
    cuts = [(-1 if s is None else s, place, leaf, 0) for s, place, leaf in plan.nodes]
    kept = [] if plan.values is None else plan.values.nodes
    values = [(slot, place, None, carried) for slot, place, carried in kept]
    noted = None if plan.values is None else plan.values.noted
    if not any(carried for *_, carried in values):  # nobody will ask
        noted = None
    key, numbers, leaves = noted or (None, [], None)
    told = plan.slots, nodes, key, list(numbers), leaves
    return native.run_plan(own, changes, cuts, values, *told)


def _source(x: Source) -> tuple[int, Any] | None:
    if type(x) is int:
        return PLACE, x
    if type(x) is Slot:
        return MADE, int(x)
    if isinstance(x, Variable):
        return VARIABLE, x
    return (ARRAY, x) if type(x) is np.ndarray else None


if native is not None:
    native.bind_run(Variable)
