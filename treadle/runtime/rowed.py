"""A graph as rows, run: what becomes of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.autodiff.tape import GradientPart, Row, Tape, keep_recipes
from treadle.base.options import current
from treadle.engines.base import Failed, engine
from treadle.graph.resident import soon
from treadle.graph.tensor import Tensor, forget, leave_late, settle
from treadle.graph.traversal import pending
from treadle.runtime.forests import Reads, Rows, RowsRun
from treadle.runtime.recorder import recorder


def run(rows: Rows, reads: Reads[Tensor], every: list[Tensor], once: bool) -> None:
    """Run a graph as rows: its exits are leaves then, and the list of all its nodes, in
    the order of their making, is emptied. Raises Failed.
    """
    # It may wait for the step before, beside which all before this went on.
    fresh = _evaluate(reads.expressions)
    try:
        rows_run = rows.run(_arrays(reads.leaves), _arrays(reads.shared))
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
    rows.forget()
    leave_rows(reads.exits, rows_run, tape, again)
    forget(every)


def leave_rows(
    exits: list[Tensor], rows_run: RowsRun, tape: Tape | None, again: bool
) -> None:
    """Make leaves of the exits of a run, with their values; how they were computed is
    noted if they may be derived `again`."""
    if tape is not None:
        tape.made(exits)
    recipes = [(x.op, x.inputs) for x in exits] if again else []
    leave_late(exits, rows_run.arrays(), rows_run.futures, Row(tape))
    if again:
        keep_recipes(exits, recipes)


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


def _arrays(nodes: Sequence[Tensor]) -> list[Any]:
    """The values of nodes, on the host, where they may be yet to come."""
    return [soon(x.stored) for x in nodes]


def tape_for(rows_run: RowsRun, reads: Reads[Tensor]) -> Tape | None:
    """The tape of a run, with the parts of its gradient, if it has one."""
    if not rows_run.rows.program.gradient:
        return None
    parts = []
    for serial, sparse in rows_run.rows.order:
        node = reads.sources[serial]
        if sparse:
            every, t = rows_run.ids(serial), node.type
            values = type(t)((every.shape[0], *t.shape[1:]), t.dtype)
            parts.append(GradientPart(node, values, every))
        else:
            parts.append(GradientPart(node, node.type))
    sources = {part.source.serial: part.source for part in parts}
    data = {x.serial for x in reads.data}
    return Tape(rows_run, list(sources.values()), parts, data)
