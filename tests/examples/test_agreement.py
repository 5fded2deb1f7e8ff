"""The networks of the examples give as rows what they give node by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

import treadle as td
from examples import parser, spelling, tagger, trees
from treadle.data import Vocabulary
from treadle.runtime.rows import counts


def known(items: Iterable[str], **roles: str) -> Vocabulary:
    return Vocabulary.from_counts(Counter(items), unknown="<unk>", **roles)


def of_trees() -> Any:
    found = trees.load(None, 12)["train"]
    labels = sorted({t.label for t in found})
    model = trees.TreeLSTM(
        known(w for t in found for w in t.words()), labels, 5, 6, 0.5
    )
    return model, found


def of_tagger() -> Any:
    found = tagger.made(12)
    words = known(w for s in found for w in s.words)
    return tagger.Tagger(words, known(t for s in found for t in s.tags), 5, 6), found


def of_parser() -> Any:
    found = parser.made(12)
    words = known((w for s in found for w in s.words), begin="<root>")
    return parser.Parser(words, known(x for s in found for x in s.labels), 5, 6), found


def of_spelling() -> Any:
    found = spelling.made(24)
    letters = known(x for word in found for x in word.letters)
    sounds = known((x for w in found for x in w.sounds), begin="<s>", end="</s>")
    return spelling.Speller(letters, sounds, 5, 6), found


@pytest.mark.parametrize("make", [of_trees, of_tagger, of_parser, of_spelling])
def test_an_example_as_rows_and_node_by_node(make: Callable[[], Any]) -> None:
    def run() -> list[Any]:
        with td.options(dtype="float64", seed=3):
            model, examples = make()
            loss = model.loss(examples)
            grads = td.grad(loss, list(model.parameters()), unused="zero")
            return td.evaluate([loss, *grads])

    before = counts.runs
    batched = run()
    assert counts.runs > before
    with td.options(autobatch=False, engine="reference"):
        alone = run()
    for x, y in zip(batched, alone, strict=True):
        assert x.dtype == np.float64
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)
