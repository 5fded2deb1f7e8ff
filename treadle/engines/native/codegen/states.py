"""States of loops as steps find them: where they begin with data.

A recurrence reads `select(first step, data, state)`. Where all that read a state do,
and its loop runs all its steps, the state may begin with the data.
"""

from __future__ import annotations

from collections.abc import Callable

from treadle.base.dtypes import bool_
from treadle.loops.index import Index
from treadle.loops.kernel import (
    Accumulate,
    Accumulated,
    Accumulator,
    Apply,
    Const,
    Expression,
    Guard,
    Inside,
    Loop,
    Store,
    expressions,
)
from treadle.ops.select import Select


def states_of(
    loop: Loop, is_known: Callable[[Expression], bool]
) -> dict[Expression, Accumulator]:
    """The expressions that are a state of a loop, where these begin with data that is
    known before it, and all other states that its steps replace."""
    replaced = {a for a in loop.folds if a.combine is None}
    if not replaced or any(isinstance(s, Loop) for s in loop.body):
        return {}
    first = Inside((Guard(Index.of(loop.axis), 0, 1),), bool_)
    reads: dict[Accumulator, set[Expression | None]] = {a: set() for a in replaced}
    for s in loop.body:
        if isinstance(s, (Store, Accumulate)) and isinstance(s.value, Accumulated):
            reads.setdefault(s.value.accumulator, set()).add(None)
    for x in expressions(loop.body):
        for v in x.inputs if isinstance(x, Apply) else ():
            if isinstance(v, Accumulated):
                reads.setdefault(v.accumulator, set()).add(x)
    states: dict[Expression, Accumulator] = {}
    for a in loop.folds:
        if a in replaced:
            reader = next(iter(reads[a])) if len(reads[a]) == 1 else None
            begins = (
                isinstance(reader, Apply)
                and isinstance(reader.op, Select)
                and reader.inputs[0] == first
                and isinstance(reader.inputs[2], Accumulated)
                and (isinstance(reader.inputs[1], Const) or is_known(reader.inputs[1]))
                and not loop.bounds
                and loop.stride == 1
            )
            states[reader if begins and reader else Accumulated(a, a.dtype)] = a
    return states
