"""Masked arrays have elements without a value: refused wherever an array enters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import treadle as td

MASKED: Any = np.ma.masked_array(np.ones((2, 2), np.float32), [[0, 1], [0, 0]])
WHOLE: Any = np.ma.masked_array([1, 1, 1, 2], [0, 1, 0, 0])
X = td.placeholder((2, 2), name="x")
WAYS: dict[str, Callable[[Any], Any]] = {
    "asarray": td.asarray,
    "asarray, a dtype": lambda a: td.asarray(a, dtype="float64"),
    "constant": td.constant,
    "a list": lambda a: td.asarray([a, a]),
    "an operand": lambda a: td.ones((2, 2)) + a,
    "an argument": lambda a: td.exp(a),
    "a function": lambda a: td.function(td.tanh)(a),
    "read around a function": lambda a: td.function(lambda x: x + a)(td.ones((2, 2))),
    "Variable": td.Variable,
    "Parameter": td.Parameter,
    "param": lambda a: td.param(init=a),
    "assign": lambda a: td.Variable(np.zeros((2, 2))).assign(a),
    "fill": lambda a: td.Variable(np.zeros((2, 2)))[:].assign(a),
    "computation": lambda a: td.computation(X * 2, X)(a),
    "stack": lambda a: td.stack([td.ones((2, 2)), a]),
    "state": lambda a: td.nn.Linear(2, 2).load_state_dict({"weight": a, "bias": a[0]}),
    "embedding": td.nn.Embedding.from_array,
    "pad": lambda a: td.data.pad([a, a]),
    "counts": lambda a: td.repeat(td.ones(4), WHOLE),
    "widths": lambda a: td.nn.functional.pad(td.ones((2, 2)), WHOLE),
    "a size": lambda a: td.nn.functional.affine_grid(td.ones((1, 2, 3)), WHOLE),
    "examples": lambda a: td.data.ListDataset([1, 2, 3])[WHOLE],
    "a metric": lambda a: td.train.Accuracy().update(WHOLE, WHOLE),
    "confusion": lambda a: td.train.confusion_matrix(WHOLE, np.ones((4, 2))),
    "fit": lambda a: td.train.Model(td.nn.Linear(2, 1)).fit(a, a, epochs=1, verbose=0),
    "py_function": lambda a: td.py_function(lambda x: a, td.ones((2, 2)).type)(
        td.ones((2, 2))
    ).numpy(),
}


@pytest.mark.parametrize("name", WAYS)
def test_masked_elements_are_refused(name: str) -> None:
    with pytest.raises(td.TreadleError, match="masked"):
        WAYS[name](MASKED)


def test_files_hold_no_masked_elements(tmp_path: Path) -> None:
    with pytest.raises((td.TreadleError, ValueError), match="masked"):
        td.save(tmp_path / "w.safetensors", {"w": MASKED})


def test_an_array_with_no_masked_element_is_whole() -> None:
    array = np.ma.masked_array(np.arange(3.0), False)
    assert td.asarray(array).tolist() == [0.0, 1.0, 2.0]
