"""Connectionist temporal classification: labels whose places in time are unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import int64, kind
from treadle.base.errors import (
    ArgumentError,
    DTypeError,
    RunError,
    ShapeError,
    TreadleError,
)
from treadle.base.symbolic import arange, array_of
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor, constant_node, zeros_of
from treadle.graph.op import Array, matched, op
from treadle.graph.operators import Operand, functions, provide
from treadle.graph.rows import row_count, spread
from treadle.graph.tensor import Tensor
from treadle.ops.cast import astype, scored
from treadle.ops.distance import reduced
from treadle.ops.families import Composite
from treadle.ops.join import concat, stack
from treadle.ops.loop import scan
from treadle.ops.movement import broadcast_to
from treadle.ops.pick import TakeAlong
from treadle.ops.select import maximum, where

__all__ = ["ctc_loss"]


@op()
class CTC(Composite):
    """-log of the probability of all paths that read as the labels, for each sequence.

    Inputs: log-probabilities x[t, n, c], labels[n, s], how many of the t steps and of
    the s labels each sequence has. More steps than t count as t.
    """

    blank: int = 0
    arity = 4

    def infer(self, *types: Type) -> Type:
        x, labels, steps, counts = types
        if kind(x.dtype) != "float":
            raise DTypeError(f"takes float log-probabilities, not {x.dtype.name}")
        for t in types[1:]:
            if kind(t.dtype) != "integer":
                raise DTypeError(f"labels and lengths are integers, not {t.dtype.name}")
        if x.ndim != 3 or labels.ndim != 2 or x.shape[1] != labels.shape[0]:
            raise ShapeError(
                f"log-probabilities {x} with labels {labels}",
                hint="takes x[time, n, classes] and labels[n, most], padded",
            )
        for t in (steps, counts):
            if t.shape != (x.shape[1],):
                raise ShapeError(
                    f"a length for each of {x.shape[1]} sequences, not {t}"
                )
        if not 0 <= self.blank < x.shape[2]:
            raise ShapeError(f"blank is {self.blank} of {x.shape[2]} classes")
        parts = ("time", "batch", "classes"), ("batch", "labels"), ("batch",)
        pairs = zip(types, (*parts, ("batch",)), strict=True)
        return Type((x.shape[1],), x.dtype, matched(tuple(pairs), ("batch",)))

    def numpy(self, x: Any, labels: Any, steps: Any, counts: Any) -> Array:
        losses = np.empty(x.shape[1], x.dtype)
        for n, (sequence, t, s) in enumerate(zip(labels, steps, counts, strict=True)):
            if not 0 <= s <= len(sequence):
                raise RunError(f"sequence {n} has {s} of {len(sequence)} labels")
            losses[n] = -_path_sum(x[: max(t, 0), n], sequence[:s], self.blank)
        return losses

    def expand(self, *xs: Tensor) -> Tensor:
        x, labels, steps, counts = (functions.unname(v) for v in xs)
        most, batch = labels.type.shape[1], labels.type.shape[0]
        known = constant_node(arange(most)) < counts.reshape(batch, 1)
        labels = where(known, astype(labels, int64), self.blank)
        blanks, last = (
            zeros_of(Type((batch, count), int64)) + self.blank for count in (most, 1)
        )
        between = stack([blanks, labels], -1).reshape(batch, 2 * most)
        states = concat([between, last], 1)
        # A label may follow another one at once, unless it is the same.
        leaps = (states != functions.shift(states, 2, 1, self.blank)) & (
            states != self.blank
        )
        shape = (*x.type.shape[:2], 2 * most + 1)
        emitted = TakeAlong(2, labels=True)(x, broadcast_to(states, shape))
        n = x.type.shape[0]
        times = constant_node(arange(n)).reshape(n, 1)
        first = array_of(_first, shape[1:], *shape[1:], x.type.dtype)

        def step(a: Tensor, row: Any) -> tuple[Tensor, tuple[()]]:
            here, live = row
            nxt = functions.shift(a, 1, 1, -np.inf)
            far = where(leaps, functions.shift(a, 2, 1, -np.inf), -np.inf)
            new = functions.logsumexp(stack([a, nxt, far], 0), 0) + here
            return where(live, new, a), ()

        live = (times < steps).reshape(*shape[:2], 1)
        a = scan(step, constant_node(first), (emitted, live))[0]
        ends = astype(counts, int64).reshape(batch, 1) * 2
        at = concat([ends, maximum(ends - 1, 0)], 1)
        whole = TakeAlong(1, labels=True)(a, at)
        # Without labels there is one last state, not two.
        both = concat([ends >= 0, ends > 0], 1)
        return -functions.logsumexp(where(both, whole, -np.inf), 1)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        count = row_count(has_rows, xs)
        x, *rest = spread(has_rows, xs)
        _, t, n, c = x.type.shape
        flat = functions.moveaxis(x, 0, 1).reshape(t, count * n, c)
        merged = [r.reshape(count * n, *r.type.shape[2:]) for r in rest]
        return self(flat, *merged).reshape(count, n)


def _first(count: int, states: int, dtype: Any) -> Array:
    """Logarithms of the paths before the first step: all begin in the first state."""
    first = np.full((count, states), -np.inf, dtype)
    first[:, 0] = 0
    return first


def _path_sum(x: Array, labels: Array, blank: int) -> Any:
    """The log-probability of one sequence of labels, over its own steps."""
    bad = (labels < 0) | (labels >= x.shape[1])
    if bad.any():
        raise RunError(
            f"label {labels[bad][0]} is out of range for {x.shape[1]} classes"
        )
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    a = np.full(len(states), -np.inf)
    a[0] = 0.0
    for row in x.astype(np.float64):
        before = np.r_[-np.inf, a[:-1]]
        far = np.r_[-np.inf, -np.inf, a[:-2]][: len(a)]
        alike = np.r_[[True, True], states[2:] == states[:-2]][: len(a)]
        far = np.where(alike | (states == blank), -np.inf, far)
        a = np.logaddexp(np.logaddexp(a, before), far) + row[states]
    return np.logaddexp.reduce(a[-2:])


def _lengths(values: Any, most: int, n: int, what: str) -> Tensor:
    """Lengths of n sequences, all of them whole by default; those known are checked."""
    if values is None:
        return as_tensor(np.full(n, most))
    if not isinstance(values, Operand):
        lengths = np.asarray(values)
        bad = (lengths < 0) | (lengths > most)
        if bad.any():
            raise ArgumentError(f"a sequence has {lengths[bad][0]} of {most} {what}")
    return as_tensor(values)


@provide
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any = None,
    target_lengths: Any = None,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log p(labels) of sequences whose labels have no known places in time.

    Takes log-probabilities x[time, n, classes], as log_softmax gives them, and labels
    [n, most], with anything behind those that a sequence has. p sums over all ways to
    write one class a step that read as the labels once repeats are joined and blanks
    dropped. The mean is of losses over their numbers of labels. A sequence too short
    for its labels has an infinite loss, or none with `zero_infinity`. Graves et al.,
    Connectionist temporal classification, 2006.

    >>> even = td.log(td.full((2, 1, 2), 0.5))  # a-, -a and aa read as a
    >>> f"{float(td.exp(-td.ctc_loss(even, [[1]]))):.4f}"
    '0.7500'
    """
    try:
        x, labels = scored(log_probs), as_tensor(targets)
        if x.type.ndim != 3 or labels.type.ndim != 2:
            raise ShapeError(
                f"log-probabilities {x.type} with labels {labels.type}",
                hint="takes x[time, n, classes] and labels[n, most], padded",
            )
        (time, n, _), most = x.type.shape, labels.type.shape[1]
        steps = _lengths(input_lengths, time, n, "steps")
        counts = _lengths(target_lengths, most, n, "labels")
        values = CTC(blank)(x, labels, steps, counts)
    except TreadleError as error:
        raise error.located("ctc_loss") from None
    if zero_infinity:
        values = where(functions.isinf(values), 0, values)
    if reduction == "mean":
        values = values / astype(maximum(counts, 1), values.type.dtype)
    return reduced(values, reduction, "ctc_loss")
