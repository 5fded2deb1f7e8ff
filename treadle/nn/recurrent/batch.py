"""Batches of sequences of any lengths: lists, padded ones, and loops over live rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, DTypeError, ShapeError, UnboundError
from treadle.graph.frame import top
from treadle.graph.leaves import CONSTANT, as_tensor, constant_node
from treadle.graph.operators import Operand, functions
from treadle.graph.tensor import Tensor
from treadle.nn.recurrent.cell import Cell, State, checked, first
from treadle.ops.bounds import InRange
from treadle.ops.create import zeros
from treadle.ops.join import concat, split
from treadle.ops.lookup import Embedding, RowsToDense, embedding
from treadle.ops.loop import scan
from treadle.ops.movement import permute_dims, reshape

LIVE = 0.5  # the part of a loop's rows that has not ended when the loop does
SAVED = 1 << 28  # multiplications that further loops must save to be worth their code


@dataclass(frozen=True)
class LoopCell:
    """A cell, and its step by `stepping` as a function that loops trace once."""

    cell: Cell
    step: Callable[..., Any]


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
        self, looped: LoopCell, rows: Tensor, state: State, mask: Any, backwards: bool
    ) -> tuple[Tensor, State]:
        """Outputs, end to end as the inputs are, and the last state of each sequence.

        `state` and `mask` have a row for each sequence.
        """
        cell = looped.cell
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
            after, ys = over_time(looped, inputs, now, live, some, backwards)
            outputs.append(reshape(ys, (-1, cell.hidden_size)))
            waiting = _head(after, waiting, loop.count)
        rank = constant_node(self.rank)
        last = each(lambda x: embedding(x, rank), waiting)
        stacked = concat(outputs[::-1] if backwards else outputs)
        home = constant_node(self.homes)
        return RowsToDense(self.total + 1)(home, stacked)[: self.total], last


def over_time(
    looped: LoopCell,
    projected: Any,
    state: State,
    live: Any,
    mask: Any,
    backwards: bool,
) -> tuple[State, Tensor]:
    """A cell along the first dimension of projected inputs; states that are not `live`
    stay as they are. The last state, and the outputs of all steps.
    """
    step = looped.step if mask is None else stepping(looped.cell, mask)
    return scan(step, state, (projected, live), reverse=backwards)


def stepping(cell: Cell, mask: Any = None) -> Callable[..., Any]:
    """A step of a cell as `scan` takes it: a state, and inputs with which are live."""

    def step(state: State, inputs: Any) -> tuple[State, Any]:
        row, on = inputs
        after = cell.step(row, state, mask)
        output = first(after)
        if on is not None:
            after = each(lambda new, old: functions.where(on, new, old), after, state)
        return after, output

    return step


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
    looped: LoopCell,
    x: Tensor,
    lengths: Tensor,
    state: State,
    mask: Any,
    backwards: bool,
) -> tuple[Tensor, State]:
    """As `Ragged.run`, for padded inputs (time, batch, width) and lengths that a trace
    does not know: every row takes part in every step.
    """
    steps = as_tensor(np.arange(x.shape[0])[:, None])
    live = reshape(steps < reshape(lengths, (1, -1)), (*x.shape[:2], 1))
    projected = looped.cell.project(functions.where(live, x, 0.0))
    if state is None:
        state = looped.cell.initial_state((x.shape[1],), first(projected).dtype)
    last, ys = over_time(looped, projected, state, live, mask, backwards)
    outputs: Tensor = functions.where(live, ys, 0.0)
    return outputs, last


class Batch:
    """Sequences as `rows`; `run` puts rows through a cell, `result` gives them back."""

    rows: Tensor
    count: int

    def run(
        self, looped: LoopCell, rows: Tensor, state: State, masks: Any, backwards: bool
    ) -> tuple[Tensor, State]:
        """Outputs as rows, and the last state of each sequence."""
        raise NotImplementedError

    def result(self, rows: Tensor) -> Any:
        """Rows in the form the sequences came in."""
        raise NotImplementedError


class Even(Batch):
    """A tensor (time, batch, width), whose sequences are of one length."""

    def __init__(self, x: Tensor, batch_first: bool) -> None:
        self.rows = permute_dims(x, (1, 0, 2)) if batch_first else x
        self.batch_first = batch_first
        self.count = self.rows.shape[1]

    def run(
        self, looped: LoopCell, rows: Tensor, state: State, masks: Any, backwards: bool
    ) -> tuple[Tensor, State]:
        input_mask, mask = masks
        cell, x = looped.cell, rows if input_mask is None else rows * input_mask
        projected = cell.project(x)
        if state is None:
            state = cell.initial_state((self.count,), first(projected).dtype)
        last, ys = over_time(looped, projected, state, None, mask, backwards)
        return ys, last

    def result(self, rows: Tensor) -> Any:
        return permute_dims(rows, (1, 0, 2)) if self.batch_first else rows


class EndToEnd(Batch):
    """A list of sequences, as the rows of all of them."""

    def __init__(self, rows: Tensor, lengths: Sequence[int] | Array, cost: int) -> None:
        self.rows, self.plan = rows, Ragged(lengths, cost)
        self.count = len(self.plan.lengths)

    def run(
        self, looped: LoopCell, rows: Tensor, state: State, masks: Any, backwards: bool
    ) -> tuple[Tensor, State]:
        input_mask, mask = masks
        if input_mask is not None:
            whose = np.repeat(np.arange(self.count), self.plan.lengths)
            rows = rows * embedding(input_mask, constant_node(whose))
        return self.plan.run(looped, rows, state, mask, backwards)

    def result(self, rows: Tensor) -> Any:
        ends = self.plan.starts.tolist()
        return [rows[a:b] for a, b in pairwise(ends)]


class Padded(EndToEnd):
    """A padded tensor of sequences whose lengths are known: padding is not read."""

    def __init__(self, x: Tensor, lengths: Array, batch_first: bool, cost: int) -> None:
        self.shape, self.batch_first = x.shape[:2], batch_first
        live = np.arange(self._steps)[:, None] < lengths
        # (sequence, step) of each row, and where it stands among all places.
        whose, when = np.nonzero(live.T)
        at = (whose, when) if batch_first else (when, whose)
        self.places = np.full(self.shape, len(whose))
        self.places[at] = np.arange(len(whose))
        flat = reshape(x, (-1, x.shape[2]))
        taken = constant_node(np.ravel_multi_index(at, self.shape))
        super().__init__(embedding(flat, taken), lengths, cost)

    @property
    def _steps(self) -> int:
        return self.shape[1 if self.batch_first else 0]

    def result(self, rows: Tensor) -> Any:
        zero = zeros((1, rows.shape[1]), rows.dtype)
        return embedding(concat([rows, zero]), constant_node(self.places))


class Masked(Even):
    """A padded tensor in a trace that does not know the lengths: all of it runs."""

    def __init__(self, x: Tensor, lengths: Tensor, batch_first: bool) -> None:
        super().__init__(x, batch_first)
        self.lengths = InRange(self.rows.shape[0], "length")(lengths)

    def run(
        self, looped: LoopCell, rows: Tensor, state: State, masks: Any, backwards: bool
    ) -> tuple[Tensor, State]:
        input_mask, mask = masks
        rows = rows if input_mask is None else rows * input_mask
        return masked(looped, rows, self.lengths, state, mask, backwards)


def batch_of(
    x: Any, lengths: Any, width: int, batch_first: bool, cost: int = 0
) -> Batch | None:
    """The sequences in a list, or in a tensor; None for a single one.

    `cost`: multiplications of a cell for a row.
    """
    if _is_list(x):
        if lengths is not None:
            raise ArgumentError("a list of sequences has lengths of its own")
        return _end_to_end(x, width, cost)
    node = checked(x, width)
    if lengths is None:
        return _even(node, batch_first)
    if node.ndim != 3:
        raise ShapeError(f"lengths go with (time, batch, width), got {node.type}")
    steps, count = node.shape[:2][::-1] if batch_first else node.shape[:2]
    counts = as_tensor(lengths)
    if counts.dtype.kind not in "iu":
        raise DTypeError(f"lengths are whole numbers, got {counts.type}")
    if counts.shape != (count,):
        raise ShapeError(f"{count} sequences have {count} lengths, got {counts.type}")
    known = _known(counts)
    if known is None:
        return Masked(node, counts, batch_first)
    wrong = (known < 0) | (known > steps)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise ArgumentError(
            f"length {known[k]} of sequence {k} is not from 0 to {steps}",
            hint="is the input (time, batch, width)? batch_first=True takes the other",
        )
    return Padded(node, known, batch_first, cost)


def _even(x: Tensor, batch_first: bool) -> Even | None:
    """The sequences of a tensor; None for a single one, as steps of one are batched
    with those of others."""
    if x.ndim not in (2, 3):
        raise ShapeError(f"a sequence is (time, batch, width), got {x.type}")
    if not x.shape[1 if batch_first and x.ndim == 3 else 0]:
        raise ShapeError(
            "a sequence has at least one step",
            hint="among sequences of a list there may be empty ones",
        )
    return Even(x, batch_first) if x.ndim == 3 else None


def _is_list(x: Any) -> bool:
    """Whether x is several arrays, and not one written as nested lists."""
    if not isinstance(x, (list, tuple)):
        return False
    return not x or any(isinstance(item, (Operand, np.ndarray)) for item in x)


def _end_to_end(xs: Sequence[Any], width: int, cost: int) -> EndToEnd:
    nodes = [as_tensor(x) for x in xs]
    for k, node in enumerate(nodes):
        if node.ndim != 2 or node.shape[1] != width:
            raise ShapeError(
                f"sequence {k} of the list is {node.type}, not (time, {width})",
                hint="an empty sequence is (0, width); a batch is one tensor"
                if node.ndim != 2
                else "all sequences of a list have one width",
            )
    if nodes and all(type(x) is np.ndarray for x in xs):
        rows = constant_node(np.concatenate([x.stored for x in nodes]))
    else:
        rows = _joined(nodes) if nodes else zeros((0, width))
    return EndToEnd(rows, [node.shape[0] for node in nodes], cost)


def _joined(nodes: Sequence[Tensor]) -> Tensor:
    """The rows of sequences. If they are those of one table at ids that are data, these
    are joined as data: how many there are is no structure then.
    """
    are_lookups = all(type(x.op) is Embedding and x.stored is None for x in nodes)
    if are_lookups and len({x.inputs[0].serial for x in nodes}) == 1:
        ids = [x.inputs[1] for x in nodes]
        if all(x.op is CONSTANT and type(x.stored) is np.ndarray for x in ids):
            joined = np.concatenate([x.stored for x in ids])
            return embedding(nodes[0].inputs[0], constant_node(joined))
    return concat(nodes)


def _known(lengths: Tensor) -> Array | None:
    """The lengths as numbers, if anything says what they are before the run."""
    if top().tracing and lengths.stored is None:
        return None
    try:
        return np.asarray(lengths.numpy())
    except UnboundError:
        return None
