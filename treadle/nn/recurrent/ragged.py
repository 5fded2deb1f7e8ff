"""Sequences of unequal length through one cell: loops in which only live rows run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dataclass import dataclass
from treadle.base.dtypes import whole
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.nn.recurrent.cell import Cell, State, first
from treadle.ops.create import zeros
from treadle.ops.join import concat, split
from treadle.ops.lookup import RowsToDense, embedding
from treadle.ops.loop import scan
from treadle.ops.movement import reshape

LIVE = 0.5  # the part of a loop's rows that has not ended when the loop does
SAVED = 1 << 28  # multiplications that further loops must save to be worth their code


@dataclass(frozen=True)
class RaggedLoop:
    """Some steps: `count` rows, the places of their inputs, and which are live."""

    count: int
    places: Array  # (steps, count), each a row of the sequences end to end
    live: Array | None  # (steps, count, 1), None where all are


class Ragged:
    """Sequences of unequal length, end to end as rows, run by loops over time.

    Sequences are sorted by length, longest first. Those that have ended keep their
    state to the end of the loop. Where it saves enough of the `cost` of a row, in
    multiplications, a loop goes on until half of its sequences have ended, and the next
    has the others.

    >>> plan = Ragged([1, 3, 2, 4])
    >>> [loop.places.tolist() for loop in plan.loops]
    [[[6, 1, 4, 0], [7, 2, 5, 0], [8, 3, 5, 0], [9, 3, 5, 0]]]
    """

    def __init__(self, lengths: Sequence[int] | Array, cost: int = 0) -> None:
        self.lengths = np.asarray(whole(lengths), np.int64)
        self.starts = np.concatenate([[0], np.cumsum(self.lengths)])
        self.order = np.argsort(-self.lengths, kind="stable")
        self.rank = np.argsort(self.order, kind="stable")
        self.loops: list[RaggedLoop] = []
        self.total = int(self.starts[-1])
        homes: list[Array] = []
        ordered = self.lengths[self.order]
        begin = 0
        while (count := int((ordered > begin).sum())) > 0:
            end = int(ordered[0])
            idle = int((end - np.maximum(ordered[:count], begin)).sum())
            if idle * cost > SAVED:  # it ends where too few of its sequences are left
                end = int(ordered[max(int(np.ceil(LIVE * count)) - 1, 0)])
            steps = np.arange(begin, end)[:, None]
            live = steps < ordered[:count]
            inside = np.minimum(steps, ordered[:count] - 1)
            places = self.starts[self.order[:count]] + inside
            every = bool(live.all())
            self.loops.append(
                RaggedLoop(count, places, None if every else live[..., None])
            )
            homes.append(np.where(live, places, self.total).reshape(-1))
            begin = end
        # Where each row of the loops' outputs belongs; those not live, behind the end.
        self.homes = np.concatenate([*homes, np.zeros(0, np.int64)])

    def run(
        self, cell: Cell, rows: Tensor, state: State, mask: Any, backwards: bool
    ) -> tuple[Tensor, State]:
        """Outputs, end to end as the inputs are, and the last state of each sequence.

        `state` and `mask` have a row for each sequence.
        """
        projected = cell.project(rows)
        dtype = first(projected).dtype
        if state is None:
            state = cell.initial_state((len(self.lengths),), dtype)
        if not self.loops:
            return zeros((0, cell.hidden_size), dtype), state
        # Side by side: the rows of a loop are found once.
        widths = (
            [part.shape[-1] for part in projected]
            if isinstance(projected, tuple)
            else None
        )
        whole = projected if widths is None else concat(list(projected), -1)
        order = constant_node(self.order)
        waiting = each(lambda x: embedding(x, order), state)
        mask = None if mask is None else embedding(mask, order)
        loops = self.loops[::-1] if backwards else self.loops
        outputs: list[Tensor] = []
        for loop in loops:
            inputs: Any = embedding(whole, constant_node(loop.places))
            if widths is not None:
                inputs = tuple(split(inputs, widths, -1))
            now = each(lambda x, n=loop.count: x[:n], waiting)
            some = mask if mask is None else mask[: loop.count]
            live = None if loop.live is None else constant_node(loop.live)
            after, ys = over_time(cell, inputs, now, live, some, backwards)
            outputs.append(reshape(ys, (-1, cell.hidden_size)))
            waiting = _head(after, waiting, loop.count)
        rank = constant_node(self.rank)
        last = each(lambda x: embedding(x, rank), waiting)
        stacked = concat(outputs[::-1] if backwards else outputs)
        home = constant_node(self.homes)
        return RowsToDense(self.total + 1)(home, stacked)[: self.total], last


def over_time(
    cell: Cell, projected: Any, state: State, live: Any, mask: Any, backwards: bool
) -> tuple[State, Tensor]:
    """A cell along the first dimension of projected inputs; states that are not `live`
    stay as they are. The last state, and the outputs of all steps.
    """

    def step(state: State, inputs: Any) -> tuple[State, Any]:
        row, on = inputs if live is not None else (inputs, None)
        after = cell.step(row, state, mask)
        output = first(after)
        if on is not None:
            after = each(lambda new, old: functions.where(on, new, old), after, state)
        return after, output

    rows = projected if live is None else (projected, live)
    return scan(step, state, rows, reverse=backwards)


def each(f: Any, *states: State) -> State:
    """f of each part of one or several states."""
    if isinstance(states[0], (tuple, list)):
        return tuple(f(*parts) for parts in zip(*states, strict=True))
    return f(*states)


def _head(after: State, before: State, count: int) -> State:
    """States with the first `count` replaced."""

    def joined(new: Any, old: Any) -> Any:
        return new if old.shape[0] == count else concat([new, old[count:]])

    return each(joined, after, before)


def masked(
    cell: Cell, x: Tensor, lengths: Tensor, state: State, mask: Any, backwards: bool
) -> tuple[Tensor, State]:
    """As `Ragged.run`, for padded inputs (time, batch, width) and lengths that a trace
    does not know: every row takes part in every step.
    """
    steps = as_tensor(np.arange(x.shape[0])[:, None])
    live = reshape(steps < reshape(lengths, (1, -1)), (*x.shape[:2], 1))
    projected = cell.project(functions.where(live, x, 0.0))
    if state is None:
        state = cell.initial_state((x.shape[1],), first(projected).dtype)
    last, ys = over_time(cell, projected, state, live, mask, backwards)
    outputs: Tensor = functions.where(live, ys, 0.0)
    return outputs, last
