"""onnx's own backend cases and outputs; what is refused is known by name."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import treadle as td

pytest.importorskip("onnx", minversion="1.23")

import onnx

from tests.io.onnx.test_import import ROWS
from tests.io.onnx_backend import cases, result_of
from treadle.io.onnx.load import IMPORTS

# Why a case is refused; docs/onnx.md has the same list for users.
REFUSED = (
    r"no importer in version \d+ for: (String\w+|RegexFullMatch|TfIdfVectorizer)",
    r"no importer in version \d+ for: ai\.onnx\.ml\.\w+",
    r"no importer in version \d+ for: (ImageDecoder|RandomUniformLike)",
    r"no importer in version \d+ for: ai\.onnx\.preview\.training\.Gradient",
    r"no importer in version 8 for: Scan",
    r"elements left out by chance \(training_mode\)",
    r"input '[xy]' has no dtype or shape that is read",  # tensors of text
)
# Cases whose tolerance is finer than the dtype of what they compare.
ROUNDING = {
    "test_attention_4d_causal_fp16_expanded",
    "test_dft_inverse",
    "test_dft_inverse_opset19",
}
# A softmax of equal logits of 1e10: on some processors NumPy rounds the columns of a
# product differently. `tests.io.onnx_backend` asks the native engine for it.
EQUAL_LOGITS = "test_squeezenet"


def _kinds(graph: Any) -> set[str]:
    """The ops of a graph and of its subgraphs."""
    kinds = set()
    for n in graph.node:
        kinds.add(f"{n.domain}.{n.op_type}".lstrip("."))
        for a in n.attribute:
            kinds |= _kinds(a.g) if a.type == onnx.AttributeProto.GRAPH else set()
    return kinds


def test_cases_pass_or_are_refused_by_name_and_show_every_row() -> None:
    """One test of all: making the cases takes as long as half of them."""
    everything = list(cases())
    assert len(everything) >= 2000
    kinds: set[str] = set()
    failures = []
    with td.options(engine="reference"), np.errstate(all="ignore"):
        for case in everything:
            kinds |= _kinds(onnx.load_model_from_string(case.model).graph)
            if case.name == EQUAL_LOGITS:
                continue
            result, reason = result_of(case)
            known = any(re.search(words, reason) for words in REFUSED)
            if result == "rounding" and case.name in ROUNDING:
                continue
            if result != "pass" and not (result == "refused" and known):
                failures.append(f"{result}: {case.name}: {reason}")
    assert not failures, "\n".join(failures)
    shown = kinds | {row[0] for row in ROWS} | {"treadle.PReluOfChannels"}
    assert set(IMPORTS) <= shown, set(IMPORTS) - shown
