"""Beam search and sampling, against what can be counted out and against chi-square."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import treadle as td
from treadle.base.errors import ArgumentError, ShapeError

Array = np.ndarray[Any, Any]
Step = Callable[[Any, Array], tuple[Any, Any]]

PENALTIES = [0.0, 0.6, 1.0, 2.0, -0.5]


def markov(seed: int, tokens: int, sparse: bool = False) -> Array:
    """Log probabilities of the next token by the two before."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(tokens, tokens, tokens)) * 2
    if sparse:
        logits[rng.random(logits.shape) < 0.3] = -np.inf
        logits[..., 1] = 0.0
    with np.errstate(divide="ignore"):
        shares = np.exp(logits)
        return np.log(shares / shares.sum(-1, keepdims=True))


def stepper(table: Array) -> Step:
    """A step whose state is the token before; counted to see what is passed on."""

    def step(state: Any, tokens: Array) -> tuple[Any, Any]:
        before, count = state["before"], state["count"]
        return table[before, tokens], {"before": tokens, "count": count + 1}

    return step


def begin(sentences: int) -> dict[str, Any]:
    return {"before": np.arange(sentences) % 3, "count": 0}


def all_sequences(
    table: Array, before: int, start: int, end: int | None, longest: int
) -> dict[tuple[int, ...], float]:
    """The log probability of every sequence there is."""
    found = {}
    size = len(table)
    for length in range(1, longest + 1):
        for tokens in product(range(size), repeat=length):
            stops = tokens[-1] == end or length == longest
            if stops and end not in tokens[:-1]:
                chain = [before, start, *tokens]
                found[tokens] = float(
                    sum(table[a, b, c] for a, b, c in zip(chain, chain[1:], tokens))  # noqa: B905
                )
    return {tokens: p for tokens, p in found.items() if p > -np.inf}


@settings(deadline=None, max_examples=40)
@given(
    st.integers(0, 10**6), st.sampled_from([0, 2, None]), st.integers(1, 4),
    st.sampled_from(PENALTIES), st.booleans(), st.integers(1, 5),
)  # fmt: skip
def test_a_beam_of_full_width_is_exact(
    seed: int, end: int | None, longest: int, penalty: float, sparse: bool, n_best: int
) -> None:
    table = markov(seed, 3, sparse)
    start = np.array([0, 2, 1])
    found = td.nn.beam_search(
        stepper(table), begin(3), start, end=end, max_length=longest, beam=3**longest,
        n_best=min(n_best, 3**longest), penalty=penalty,
    )  # fmt: skip
    for sentence, hypotheses in enumerate(found):
        every = all_sequences(table, sentence, int(start[sentence]), end, longest)
        scores = {t: p / ((5 + len(t)) / 6) ** penalty for t, p in every.items()}
        best = sorted(scores.values(), reverse=True)[:n_best]
        assert len(hypotheses) == min(n_best, 3**longest, len(every))
        np.testing.assert_allclose(
            [h.score for h in hypotheses], best[: len(hypotheses)]
        )
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)
        for h in hypotheses:
            assert h.ended == (h.tokens[-1] == end)
            np.testing.assert_allclose(h.log_probability, every[h.tokens])
            np.testing.assert_allclose(h.score, scores[h.tokens])


def greedy(table: Array, before: int, token: int, end: int, longest: int) -> list[int]:
    made: list[int] = []
    while len(made) < longest and (not made or made[-1] != end):
        before, token = token, int(table[before, token].argmax())
        made.append(token)
    return made


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from(PENALTIES))
def test_a_beam_of_one_is_greedy(seed: int, longest: int, penalty: float) -> None:
    table = markov(seed, 5)
    start = np.arange(5)
    beams = td.nn.beam_search(
        stepper(table), begin(5), start, end=4, max_length=longest, beam=1,
        penalty=penalty,
    )  # fmt: skip
    cold = td.nn.sample(
        stepper(table), begin(5), start, end=4, max_length=longest, temperature=0.0
    )
    for k in range(5):
        expected = tuple(greedy(table, k % 3, k, 4, longest))
        assert beams[k][0].tokens == cold[k][0].tokens == expected
        assert beams[k][0].log_probability == pytest.approx(cold[k][0].log_probability)


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from(PENALTIES))
def test_a_sentence_does_not_depend_on_its_batch(
    seed: int, beam: int, penalty: float
) -> None:
    table = markov(seed, 6)
    state = {"before": np.array([0, 1, 2, 0]), "count": 0}
    start = np.array([1, 2, 3, 4])

    def search(rows: Array) -> list[Any]:
        own = {"before": state["before"][rows], "count": 0}
        return td.nn.beam_search(
            stepper(table), own, start[rows], end=5, max_length=8, beam=beam,
            n_best=beam, penalty=penalty,
        )  # fmt: skip

    together = search(np.arange(4))
    assert together == [search(np.array([k]))[0] for k in range(4)]
    for hypotheses in together:
        assert [h.score for h in hypotheses] == sorted(
            (h.score for h in hypotheses), reverse=True
        )


def test_equal_scores_come_in_one_order() -> None:
    """Ties go to the earlier slot and the smaller token, on any machine."""
    flat = np.full((40, 40), -np.log(40))
    found = td.nn.beam_search(
        lambda state, tokens: (flat[tokens], state), None, [0], end=None,
        max_length=2, beam=5, n_best=5,
    )  # fmt: skip
    assert [h.tokens for h in found[0]] == [(0, k) for k in range(5)]


def test_searching_stops_when_nothing_can_win() -> None:
    table = np.log([[0.01, 0.99], [0.5, 0.5]])
    calls = []

    def step(state: Any, tokens: Array) -> tuple[Any, Any]:
        calls.append(len(tokens))
        return table[tokens], state

    found = td.nn.beam_search(step, None, [0], end=1, max_length=50, beam=3)
    assert found[0][0].tokens == (1,) and calls == [3]
    td.nn.sample(step, None, [0, 0], end=1, max_length=50, temperature=0.0)
    assert calls == [3, 2]


def test_a_dead_end_leaves_fewer() -> None:
    table = np.array([[-np.inf, 0.0, -np.inf], [-np.inf, -np.inf, 0.0], [0.0] * 3])
    found = td.nn.beam_search(
        lambda state, tokens: (table[tokens], state), None, [0], end=2, max_length=9,
        beam=4, n_best=4,
    )  # fmt: skip
    assert [h.tokens for h in found[0]] == [(1, 2)]


# -- networks --------------------------------------------------------------------------


class Speaker(td.nn.Module):
    """A recurrent language model."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.embed = td.nn.Embedding(words, width)
        self.cell = td.nn.LSTMCell(width, width)
        self.out = td.nn.Linear(width, words)

    def step(self, state: Any, tokens: Array) -> tuple[Any, Any]:
        h, c = self.cell(self.embed(tokens), state)
        return td.log_softmax(self.out(h)), (h, c)


def test_networks() -> None:
    """A sequence's score is what the network says of it in one pass."""
    with td.options(seed=3):
        model = Speaker(7, 5)
        zeros = (td.zeros((2, 5)), td.zeros((2, 5)))
        arguments: dict[str, Any] = {"end": 6, "max_length": 6}
        beams = td.nn.beam_search(
            model.step, zeros, [0, 1], beam=3, n_best=3, **arguments
        )
        drawn = td.nn.sample(model.step, zeros, [0, 1], count=3, **arguments)
    for first, sentence in zip([0, 1], [*zip(beams, drawn, strict=True)], strict=True):
        for h in [*sentence[0], *sentence[1]]:
            state: Any = (td.zeros((1, 5)), td.zeros((1, 5)))
            total, last = 0.0, first
            for token in h.tokens:
                logs, state = model.step(state, np.array([last]))
                total, last = total + float(logs[0, token]), token
            assert h.log_probability == pytest.approx(total, abs=1e-5)
    with td.options(seed=3):
        model = Speaker(7, 5)
        again = td.nn.beam_search(
            model.step, zeros, [0, 1], beam=3, n_best=3, **arguments
        )
        assert again == beams
        assert td.nn.sample(model.step, zeros, [0, 1], count=3, **arguments) == drawn


def test_each_step_is_one_program() -> None:
    """Shapes stay as they are while sentences end, and no expression grows.

    The LSTM's c is not among what the log probabilities depend on.
    """
    with td.options(seed=1):
        model = Speaker(5, 4)
    zeros = (td.zeros((3, 4)), td.zeros((3, 4)))
    arguments: dict[str, Any] = {"end": 4, "beam": 3, "n_best": 3}
    td.nn.beam_search(model.step, zeros, [0, 1, 2], max_length=3, **arguments)
    before = td.cache_info().programs
    td.nn.beam_search(model.step, zeros, [2, 1, 0], max_length=12, **arguments)
    assert td.cache_info().programs == before


# -- distributions ---------------------------------------------------------------------

SHARES = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
CHOICES: list[tuple[dict[str, Any], list[float]]] = [
    ({}, [0.4, 0.25, 0.2, 0.1, 0.05]),
    ({"temperature": 0.5}, [0.16, 0.0625, 0.04, 0.01, 0.0025]),
    ({"temperature": 2.0}, (SHARES**0.5).tolist()),
    ({"top_k": 2}, [0.4, 0.25, 0, 0, 0]),
    ({"top_k": 1}, [1, 0, 0, 0, 0]),
    ({"top_k": 9}, [0.4, 0.25, 0.2, 0.1, 0.05]),
    ({"top_p": 0.8}, [0.4, 0.25, 0.2, 0, 0]),
    ({"top_p": 1e-9}, [1, 0, 0, 0, 0]),
    ({"top_p": 1.0}, [0.4, 0.25, 0.2, 0.1, 0.05]),
    ({"top_k": 3, "top_p": 0.7}, [0.4, 0.25, 0, 0, 0]),
    ({"temperature": 2.0, "top_p": 0.7}, [*(SHARES**0.5)[:3], 0, 0]),
    ({"temperature": 1e-320}, [1, 0, 0, 0, 0]),
]


@pytest.mark.parametrize("given, shares", CHOICES, ids=lambda x: str(x)[:40])
def test_drawn_tokens_are_distributed_as_they_should(
    given: dict[str, Any], shares: list[float]
) -> None:
    expected = np.array(shares) / sum(shares)
    left = td.nn.truncated_log_probabilities(np.log(SHARES)[None], **given)
    np.testing.assert_allclose(np.exp(left)[0], expected, atol=1e-12)
    count = 5000
    table = np.log(SHARES)
    with td.options(seed=7):
        (drawn,) = td.nn.sample(
            lambda state, tokens: (table[None].repeat(len(tokens), 0), state),
            None, [0], end=None, max_length=1, count=count, **given,
        )  # fmt: skip
    seen = Counter(h.tokens[0] for h in drawn)
    possible = expected > 0
    assert all(possible[token] for token in seen)
    wanted = expected[possible] * count
    got = np.array([seen[k] for k in np.flatnonzero(possible)])
    chi_square = ((got - wanted) ** 2 / wanted).sum()
    # The 0.999 quantiles of the distribution with 0 to 4 degrees of freedom.
    assert chi_square <= [1e-9, 10.83, 13.82, 16.27, 18.47][possible.sum() - 1]


def test_sequences_are_drawn_by_their_probability() -> None:
    table = markov(3, 3)
    every = all_sequences(table, 0, 1, 2, 3)
    count = 4000
    with td.options(seed=11):
        (drawn,) = td.nn.sample(
            stepper(table), begin(1), [1], end=2, max_length=3, count=count
        )
    assert {h.tokens for h in drawn} <= set(every)
    seen = Counter(h.tokens for h in drawn)
    wanted = {tokens: np.exp(p) * count for tokens, p in every.items()}
    chi_square = sum((seen[t] - n) ** 2 / n for t, n in wanted.items())
    assert abs(sum(wanted.values()) - count) < 1e-6
    assert len(every) == 15 and chi_square < 36.12  # 0.999 at 14 degrees of freedom
    for h in drawn:
        assert h.log_probability == pytest.approx(every[h.tokens]) == h.score


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.floats(-8, 0), min_size=1, max_size=8),
    st.integers(1, 9) | st.none(), st.floats(0.01, 1.0) | st.none(),
    st.floats(0.1, 5.0),
)  # fmt: skip
@example([-3e-19, 0.0], None, 0.5, 1.0)  # equal once they are normalized
def test_truncation_keeps_the_most_probable(
    values: list[float], top_k: int | None, top_p: float | None, temperature: float
) -> None:
    logs = np.array(values)
    left = td.nn.truncated_log_probabilities(
        logs, temperature, top_k=top_k, top_p=top_p
    )
    kept = left > -np.inf
    assert 1 <= kept.sum() <= (top_k or len(values))
    assert np.exp(left).sum() == pytest.approx(1.0)
    assert logs[kept].min() >= logs[~kept].max(initial=-np.inf)
    np.testing.assert_allclose(
        left[kept] - left[kept][0], (logs[kept] - logs[kept][0]) / temperature,
        atol=1e-9,
    )  # fmt: skip


# -- what is refused -------------------------------------------------------------------


def constant_step(result: Any) -> Step:
    return lambda state, tokens: (result, state)


HALVES = np.log(np.full((1, 2), 0.5))
WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"start": 0}, ShapeError, "start is one token a sentence"),
    ({"start": [0.5]}, ShapeError, "start is one token a sentence"),
    ({"start": []}, ShapeError, "start is one token a sentence"),
    ({"max_length": 0}, ArgumentError, "max_length is a number of tokens"),
    ({"end": -1}, ArgumentError, "end is a token or None"),
    ({"end": 2}, ArgumentError, "end=2 is not one of 2 tokens"),
    ({"step": constant_step(HALVES + 1)}, ArgumentError, "apply td.log_softmax"),
    ({"step": constant_step(HALVES * np.nan)}, ArgumentError, "returned nan"),
    ({"step": lambda s, tokens: HALVES}, ArgumentError, "step returned a ndarray"),
    ({"step": constant_step(HALVES[0])}, ShapeError, r"\[2\] for 1 tokens"),
    ({"state": np.zeros((3, 2))}, ShapeError, "does not have 1 rows"),
]


@pytest.mark.parametrize("changes, error, message", WRONG, ids=lambda x: str(x)[:30])
def test_wrong_use(
    changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    arguments = {
        "step": constant_step(HALVES), "state": None, "start": [0], "end": 1,
        "max_length": 3, **changes,
    }  # fmt: skip
    with pytest.raises(error, match=message):
        td.nn.beam_search(beam=1, **arguments)
    with pytest.raises(error, match=message):
        td.nn.sample(**arguments)


def test_wrong_choices() -> None:
    arguments: dict[str, Any] = {"end": 1, "max_length": 3}
    for changes, message in (
        ({"temperature": -1.0}, "a temperature is 0 or above"),
        ({"temperature": float("nan")}, "a temperature is 0 or above"),
        ({"top_k": 0}, "top_k is a number of tokens"),
        ({"top_p": 0.0}, "top_p is a probability above 0"),
        ({"top_p": 1.5}, "top_p is a probability above 0"),
        ({"count": 0}, "count is a number of sequences"),
    ):
        with pytest.raises(ArgumentError, match=message):
            td.nn.sample(constant_step(HALVES), None, [0], **arguments, **changes)
    for beam, n_best in ((0, 1), (2, 3), (2, 0)):
        with pytest.raises(ArgumentError, match="n_best is from 1 to beam"):
            td.nn.beam_search(
                constant_step(HALVES), None, [0], beam=beam, n_best=n_best, **arguments
            )
    nothing = constant_step(np.full((1, 2), -np.inf))
    with pytest.raises(ArgumentError, match="no token that is possible"):
        td.nn.sample(nothing, None, [0], **arguments)
    with pytest.raises(ArgumentError, match="take the argmax"):
        td.nn.truncated_log_probabilities(HALVES, 0.0)
