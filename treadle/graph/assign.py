"""Assignments that follow one another, all made at one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from treadle.base.options import modes
from treadle.graph.tensor import Tensor
from treadle.graph.thread import assigning, local, native_calls

if TYPE_CHECKING:
    from treadle.graph.variable import Variable


def update_all(
    pairs: list[tuple[Variable, Any]], explicit: bool | None = None
) -> list[Tensor]:
    """The Updates of assignments, one after the other, which all are seen at once;
    None: they are explicit where the scopes around say so."""
    now, frame = modes.get(), local.state.frames[-1]
    around = now.transactions
    explicit = bool(now.explicit) if explicit is None else explicit
    updates: list[Tensor] | None = None
    if native_calls is not None and not (explicit or around):
        with assigning:
            updates = native_calls.assign(frame, pairs)
    if updates is not None:
        return updates
    fitting = [(v, v.fitting(value)) for v, value in pairs]
    with assigning:
        updates = []
        for v, value in fitting:
            base = v.node()
            update = v.update_from(base, value, explicit)
            for transaction in around:
                transaction.note(v, update, base)
            if not explicit:
                frame.record(v, update)
            updates.append(update)
    return updates
