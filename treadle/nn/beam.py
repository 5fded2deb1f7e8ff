"""Beam search: the most probable sequences that a step function gives."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.arrays import Array
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

__all__ = ["beam_search"]


def beam_search(
    step: Step,
    state: Any,
    start: Any,
    *,
    end: int | None,
    max_length: int,
    beam: int = 4,
    n_best: int = 1,
    penalty: float = 0.0,
) -> list[list[Hypothesis]]:
    """The `n_best` sequences found for each sentence of a batch, best first.

    `step(state, tokens)` takes the last tokens, int64[rows], and returns the log
    probabilities of the next, [rows, vocabulary], and the state after them. Each array
    of the state, whatever containers hold it, has the rows as its first axis. `state`
    and `start` are for one row per sentence; step sees `beam` rows for each.

    Each step keeps the `beam` most probable of all continuations, those that ended
    included; these are ranked by log P(Y) / ((5 + |Y|) / 6) ** penalty, where |Y|
    counts the end token (Wu et al. 2016). What reaches `max_length` stops there. Fewer
    than `n_best` are returned where no more are possible.

    >>> table = np.log([[0.1, 0.6, 0.3], [0.2, 0.2, 0.6], [0.4, 0.3, 0.3]])
    >>> best = beam_search(lambda state, tokens: (table[tokens], state), None, [0],
    ...                    end=2, max_length=5, n_best=2)
    >>> [(found.tokens, round(float(np.exp(found.score)), 4)) for found in best[0]]
    [((1, 2), 0.36), ((2,), 0.3)]
    """
    first = first_tokens(start)
    check_limits(max_length, end)
    if beam < 1 or not 1 <= n_best <= beam:
        raise ArgumentError(f"n_best is from 1 to beam, not {n_best} of {beam}")
    search = _Search(len(first), beam, n_best, penalty, end, max_length)
    rows = np.repeat(np.arange(len(first)), beam)
    tokens = first[rows]
    with no_grad():
        state = taken(state, rows, len(first))
        while True:
            alive = search.alive.reshape(-1)
            values, state = advanced(step, state, tokens, alive, end)
            search.advance(values)
            if not search.alive.any():
                return [search.best(sentence) for sentence in range(len(first))]
            tokens = search.last.reshape(-1)
            state = taken(state, search.origin, len(rows))


class _Search:
    """The beams of a batch: `beam` slots a sentence, of which some are alive.

    A finished hypothesis takes a slot of its sentence away, so that a beam of one is
    greedy and a beam as wide as all sequences is exact.
    """

    def __init__(
        self,
        sentences: int,
        beam: int,
        n_best: int,
        penalty: float,
        end: int | None,
        max_length: int,
    ) -> None:
        self.n_best = n_best
        self.penalty = penalty
        self.end = end
        self.max_length = max_length
        self.total = np.full((sentences, beam), -np.inf)
        self.total[:, 0] = 0.0
        self.steps: list[tuple[Array, Array]] = []  # parents and tokens of the slots
        self.finished: list[list[Hypothesis]] = [[] for _ in range(sentences)]

    @property
    def alive(self) -> Array:
        """The mask of slots whose hypothesis goes on."""
        return self.total > -np.inf

    @property
    def last(self) -> Array:
        """The last token of each slot."""
        return self.steps[-1][1]

    @property
    def origin(self) -> Array:
        """The row, of all rows, that each slot continues."""
        parents = self.steps[-1][0]
        begins = np.arange(len(parents)) * parents.shape[1]
        return (parents + begins[:, None]).reshape(-1)

    def advance(self, log_probabilities: Array) -> None:
        """Keep the best continuations of each sentence and finish what ended."""
        sentences, beam = self.total.shape
        vocabulary = log_probabilities.shape[-1]
        alive = self.alive[:, :, None]
        rows = np.where(alive, log_probabilities.reshape(sentences, beam, -1), -np.inf)
        candidates = (rows + self.total[:, :, None]).reshape(sentences, -1)
        chosen = _largest(candidates, beam)
        self.total = np.take_along_axis(candidates, chosen, 1)
        missing = np.array([beam - len(hypotheses) for hypotheses in self.finished])
        self.total[np.arange(beam) >= missing[:, None]] = -np.inf
        self.steps.append((chosen // vocabulary, chosen % vocabulary))
        over = len(self.steps) == self.max_length
        ended = (
            np.full(chosen.shape, False) if self.end is None else self.last == self.end
        )
        for sentence, slot in np.argwhere(self.alive & (ended | over)):
            self._finish(sentence, slot, bool(ended[sentence, slot]))
        self._retire()

    def _finish(self, sentence: int, slot: int, ended: bool) -> None:
        tokens = []
        at = slot
        for parents, tokens_at in reversed(self.steps):
            tokens.append(int(tokens_at[sentence, at]))
            at = parents[sentence, at]
        total = float(self.total[sentence, slot])
        score = total / self._length_penalty(len(tokens))
        hypothesis = Hypothesis(tuple(reversed(tokens)), total, score, ended)
        self.finished[sentence].append(hypothesis)
        self.total[sentence, slot] = -np.inf

    def _retire(self) -> None:
        """Stop sentences in which nothing alive can enter the n best any more."""
        longer = (len(self.steps) + 1, self.max_length)
        # Totals only fall and the penalty is monotonic: at one end is the best score.
        divisor = max(self._length_penalty(n) for n in longer)
        for sentence, hypotheses in enumerate(self.finished):
            if len(hypotheses) >= self.n_best:
                bar = sorted(h.score for h in hypotheses)[-self.n_best]
                if self.total[sentence].max() / divisor <= bar:
                    self.total[sentence] = -np.inf

    def _length_penalty(self, length: int) -> float:
        return float(((5.0 + length) / 6.0) ** self.penalty)

    def best(self, sentence: int) -> list[Hypothesis]:
        """The n best of a sentence; equal scores in the order they were found."""
        ranked = sorted(self.finished[sentence], key=lambda h: -h.score)
        return ranked[: self.n_best]


def _largest(values: Array, count: int) -> Array:
    """The places of the largest values of each row, descending; first of equal ones."""
    # partition leaves the order of equal values to the machine, so it gives the bar.
    bar = np.partition(values, -count, axis=1)[:, -count][:, None]
    above, equal = values > bar, values == bar
    missing = count - above.sum(1, keepdims=True)
    kept = above | (equal & (equal.cumsum(1) <= missing))
    places = np.nonzero(kept)[1].reshape(len(values), count)
    largest = np.take_along_axis(values, places, 1)
    return np.take_along_axis(places, np.argsort(-largest, axis=1, kind="stable"), 1)
