"""Errors name the function, the operands, the user's line and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td

X = td.ones((2, 3))


@pytest.mark.parametrize(
    ("mistake", "parts"),
    [
        (lambda: X[5], ["getitem", "index 5", "float32[2, 3]"]),
        (lambda: X @ X, ["do not meet", "float32[2, 3], float32[2, 3]"]),
        (lambda: X.sum(axis=4), ["sum: axis 4", "float32[2, 3]"]),
        (lambda: X.mean("c"), ["mean: no axis is named 'c'", "float32[2, 3]"]),
        (lambda: td.Tensor([1.0, 2.0]), ["not of list", "td.asarray"]),  # type: ignore[arg-type]
        (lambda: td.sin("a"), ["sin: 'a' holds no numbers"]),
        (lambda: td.grad(td.sin, [X]), ["holds no numbers", "is a graph: f(x)"]),
        (lambda: X + None, ["add: None holds no numbers", "float32[2, 3]"]),
        (lambda: bool(X > 0), ["bool", "6 elements", "x.all()"]),
        (lambda: float(X), ["needs one element", "float32[2, 3]"]),
        (lambda: td.where(X, 1, 2), ["Select: the condition is bool", "x != 0"]),
        (lambda: td.reshape(X, (-1, -1)), ["reshape", "more than one -1"]),
        (lambda: td.Variable([1.0]).assign(X), ["assign", "float32[1]"]),
        (lambda: td.embedding(X, [9]).numpy(), ["Embedding: id 9", "int64[1]"]),
        (lambda: td.grad(X.sum(), [np.ones(3)]), ["derivatives are by tensors"]),
        (lambda: td.nn.Linear(4, 2)(X), ["do not meet", "(4, 2)"]),
        (lambda: td.param([1.0, "a"], init=2.0), ["the name of a variable", "[1.0"]),  # type: ignore[arg-type]
        (lambda: td.Variable(1.0, name=0), ["the name of a variable is a string"]),  # type: ignore[arg-type]
        (lambda: td.placeholder((2,), name=b"x"), ["the name of a placeholder"]),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_is_told(mistake: Callable[[], Any], parts: list[str]) -> None:
    with pytest.raises(td.TreadleError) as caught:
        mistake()
    text = str(caught.value)
    for part in [*parts, "test_errors.py", "at: "]:
        assert part in text, text
