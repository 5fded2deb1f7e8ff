"""Hypotheses and steps, which beam search and sampling share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base import trees
from treadle.base.arrays import Array
from treadle.base.dtypes import whole
from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.operators import Operand
from treadle.runtime.evaluate import evaluate

__all__ = ["Hypothesis"]

Step = Callable[[Any, Array], tuple[Any, Any]]


@dataclass(frozen=True)
class Hypothesis:
    """A sequence with the log of its probability, and the score it is ranked by.

    `ended` tells whether the end token stopped it; if so, that is its last token.
    """

    tokens: tuple[int, ...]
    log_probability: float
    score: float
    ended: bool


def first_tokens(start: Any) -> Array:
    """One token a sentence as int64[sentences]."""
    tokens = np.asarray(whole(start))
    if tokens.ndim != 1 or not tokens.size or tokens.dtype.kind not in "iu":
        raise ShapeError(
            f"start is one token a sentence, not {start!r}",
            hint="feed a longer prompt through step first, start with its last token",
        )
    return tokens.astype(np.int64)


def check_limits(max_length: int, end: int | None) -> None:
    """Refuse lengths and end tokens that are none."""
    if (
        isinstance(max_length, bool)
        or not isinstance(max_length, int)
        or max_length < 1
    ):
        raise ArgumentError(f"max_length is a number of tokens, not {max_length!r}")
    if end is not None and (not isinstance(end, (int, np.integer)) or end < 0):
        raise ArgumentError(f"end is a token or None, not {end!r}")


def advanced(
    step: Step, state: Any, tokens: Array, alive: Array, end: int | None
) -> tuple[Array, Any]:
    """A step's results: log probabilities float64[rows, vocabulary], and the state.

    Both are evaluated in one run: a part of the state that the log probabilities do not
    depend on would else be a longer expression after each step.
    """
    returned = step(state, tokens)
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise ArgumentError(
            f"step returned a {type(returned).__name__}, not (log probabilities, state)"
        )
    evaluate(
        *(leaf for leaf in trees.flatten(returned)[0] if isinstance(leaf, Operand))
    )
    log_probabilities, state = returned
    values = np.asarray(whole(log_probabilities)).astype(np.float64)
    _check(values, alive, end)
    return values, state


def _check(values: Array, alive: Array, end: int | None) -> None:
    """Refuse what are no log probabilities of the tokens after those of the rows."""
    if values.ndim != 2 or len(values) != len(alive) or not values.shape[1]:
        raise ShapeError(
            f"step returned log probabilities {list(values.shape)} for "
            f"{len(alive)} tokens",
            hint="step(state, tokens) returns ([rows, vocabulary], state)",
        )
    if end is not None and end >= values.shape[1]:
        raise ArgumentError(f"end={end} is not one of {values.shape[1]} tokens")
    most = values[alive].max(initial=-np.inf)
    if not most <= 1e-3:  # NaN as well; rounding may leave a little above 0
        raise ArgumentError(
            f"step returned {most}, which is no log probability",
            hint="apply td.log_softmax to logits",
        )


def taken(state: Any, rows: Array, count: int) -> Any:
    """The state of these rows; numbers in it stay as they are."""
    leaves, structure = trees.flatten(state)
    chosen = []
    for leaf in leaves:
        shape = getattr(leaf, "shape", ())
        if not shape:
            chosen.append(leaf)
        elif shape[0] == count:
            chosen.append(leaf[rows])
        else:
            raise ShapeError(
                f"an array {list(shape)} of the state does not have {count} rows",
                hint="its first axis runs over the sentences: permute it before",
            )
    return trees.unflatten(structure, chosen)
