"""A graph as rows, run: what becomes of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.options import current
from treadle.engines.base import Failed, engine
from treadle.graph.resident import soon
from treadle.graph.tensor import Tensor, forget, settle
from treadle.graph.traversal import pending
from treadle.runtime.forests import Reads, Rows, leave_rows, tape_for
from treadle.runtime.recorder import recorder


def run(rows: Rows, reads: Reads[Tensor], every: list[Tensor], once: bool) -> None:
    """Run a graph as rows: its exits are leaves then, and the list of all its nodes, in
    the order of their making, is emptied. Raises Failed.
    """
    # It may wait for the step before, beside which all before this went on.
    fresh = _evaluate(reads.expressions)
    try:
        rows_run = rows.run(
            _values(reads.leaves, rows.as_leaf), _values(reads.shared, rows.as_argument)
        )
    except Failed:
        for node in fresh:
            node.stored = None
        raise
    tape = tape_for(rows_run, reads)
    record = recorder()
    # What a step consumes is never derived again.
    again = tape is not None and (current().check_numerics or not once)
    if record is not None:
        record.rows(rows, reads, tape, again)
    if tape is not None:
        tape.kind = rows.kind
    rows.forget()
    leave_rows(reads.exits, rows_run.arrays(), rows_run.futures, tape, again)
    forget(every)


def _evaluate(nodes: Sequence[Tensor]) -> list[Tensor]:
    """Give nodes their values, and tell which had none; they can still be derived."""
    keep = {node.serial for node in nodes if node.stored is None}
    if not keep:
        return []
    every, record = pending(nodes), recorder()
    if record is not None and keep:
        record.program(every, keep)
    values = engine(current().engine).begin(every, {}, keep, frozenset(), sure=True)
    fresh = [node for node in nodes if node.serial in keep]
    for node in fresh:
        settle(node, values[node.serial])
    return fresh


def _values(
    nodes: Sequence[Tensor], as_argument: Callable[[Any, Tensor], Any] | None
) -> list[Any]:
    """The values of nodes as an engine takes them, or else on the host, where they may
    be yet to come."""
    if as_argument is None:
        return [soon(x.stored) for x in nodes]
    return [as_argument(x.stored, x) for x in nodes]
