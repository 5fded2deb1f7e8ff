"""Sampling: sequences drawn token by token from what a step function gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError
from treadle.graph.frame import no_grad
from treadle.nn.generation import (
    Hypothesis,
    Step,
    advanced,
    check_limits,
    first_tokens,
    taken,
)
from treadle.ops import random

__all__ = ["sample", "truncated_log_probabilities"]


def sample(
    step: Step,
    state: Any,
    start: Any,
    *,
    end: int | None,
    max_length: int,
    count: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> list[list[Hypothesis]]:
    """`count` sequences drawn for each sentence of a batch.

    `step`, `state` and `start` are those of `beam_search`. A token is drawn by the
    Gumbel-max method, with the thread's seed, from what `truncated_log_probabilities`
    leaves; at temperature 0 it is the most probable one. The log probability of a
    hypothesis is that which the step gave, not the truncated one.

    >>> table = np.log([[0.1, 0.6, 0.3], [0.2, 0.3, 0.5], [0.4, 0.3, 0.3]])
    >>> def step(state, tokens):
    ...     return td.constant(table)[tokens], state
    >>> sample(step, None, [0], end=2, max_length=5, temperature=0.0)[0][0].tokens
    (1, 2)
    >>> with td.options(seed=3):
    ...     drawn = sample(step, None, [0], end=2, max_length=5, count=4)
    >>> [found.tokens[-1] for found in drawn[0]]
    [2, 2, 2, 2]
    """
    first = first_tokens(start)
    check_limits(max_length, end)
    choice = _Choice(temperature, top_k, top_p)
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ArgumentError(f"count is a number of sequences, not {count!r}")
    rows = np.repeat(np.arange(len(first)), count)
    tokens, alive = first[rows], np.full(len(rows), True)
    drawn = _Drawn(len(rows))
    with no_grad():
        state = taken(state, rows, len(first))
        for _ in range(max_length):
            values, state = advanced(step, state, tokens, alive, end)
            values[~alive] = 0.0  # whatever a model says of what has ended
            tokens = choice.tokens(values)
            drawn.add(tokens, values, alive)
            if end is not None:
                alive = alive & (tokens != end)
            if not alive.any():
                break
    hypotheses = drawn.hypotheses(~alive)
    return [hypotheses[k : k + count] for k in range(0, len(hypotheses), count)]


def truncated_log_probabilities(
    log_probabilities: Any,
    temperature: float = 1.0,
    *,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Array:
    """Log probabilities at a temperature, of the most probable tokens alone.

    Divided by the temperature; then the `top_k` largest are left; of these the fewest
    whose probabilities add up to `top_p` (Holtzman et al. 2020); what is left adds up
    to 1, the rest is -inf. Of equal ones the first are kept.

    >>> rows = np.log([[0.5, 0.2, 0.2, 0.1]])
    >>> np.exp(truncated_log_probabilities(rows, top_k=2)).round(2).tolist()
    [[0.71, 0.29, 0.0, 0.0]]
    >>> np.exp(truncated_log_probabilities(rows, top_p=0.8)).round(2).tolist()
    [[0.56, 0.22, 0.22, 0.0]]
    """
    if not temperature:
        raise ArgumentError("at temperature 0 one token is left: take the argmax")
    rows = np.asarray(whole(log_probabilities), np.float64)
    return _Choice(temperature, top_k, top_p).truncated(rows)


@dataclass(frozen=True)
class _Choice:
    """The choice of a token from a row of scores."""

    temperature: float
    top_k: int | None
    top_p: float | None

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < np.inf:
            raise ArgumentError(f"a temperature is 0 or above, not {self.temperature}")
        if self.top_k is not None and (
            not isinstance(self.top_k, int) or self.top_k < 1
        ):
            raise ArgumentError(f"top_k is a number of tokens, not {self.top_k!r}")
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise ArgumentError(f"top_p is a probability above 0, not {self.top_p}")

    def tokens(self, rows: Array) -> Array:
        """One token a row."""
        if not self.temperature:
            return rows.argmax(1)
        return random.categorical(self.truncated(rows)).numpy()

    def truncated(self, rows: Array) -> Array:
        """The rows as `truncated_log_probabilities` returns them."""
        most = rows.max(-1, keepdims=True)
        if (most == -np.inf).any():
            raise ArgumentError("a row has no token that is possible")
        with np.errstate(over="ignore"):  # a small temperature leaves one token
            left = _normalized((rows - most) / self.temperature)
        if self.top_k is None and self.top_p is None:
            return left
        # By what was given: rounding since may have made neighbors equal.
        order = np.argsort(-rows, axis=-1, kind="stable")
        ranked = np.take_along_axis(left, order, -1)
        if self.top_k is not None:
            ranked[..., self.top_k :] = -np.inf
        if self.top_p is not None:
            share = np.exp(_normalized(ranked))
            before = share.cumsum(-1) - share
            ranked[..., 1:][before[..., 1:] >= self.top_p] = -np.inf
        np.put_along_axis(left, order, ranked, -1)
        return _normalized(left)


class _Drawn:
    """The tokens drawn so far, and their log probability, row by row."""

    def __init__(self, rows: int) -> None:
        self.steps: list[Array] = []
        self.length = np.zeros(rows, np.int64)
        self.total = np.zeros(rows)

    def add(self, tokens: Array, values: Array, alive: Array) -> None:
        """A token for each row, which counts where the row is alive."""
        chosen = np.take_along_axis(values, tokens[:, None], 1)[:, 0]
        self.steps.append(tokens)
        self.length += alive
        self.total[alive] += chosen[alive]

    def hypotheses(self, ended: Array) -> list[Hypothesis]:
        """One for each row, scored by its probability."""
        table = np.stack(self.steps, 1).tolist()
        columns = zip(
            table,
            self.length.tolist(),
            self.total.tolist(),
            ended.tolist(),
            strict=True,
        )
        return [Hypothesis(tuple(t[:n]), p, p, e) for t, n, p, e in columns]


def _normalized(rows: Array) -> Array:
    shifted = rows - rows.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
