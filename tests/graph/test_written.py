"""Numbers written in an expression are structure; named or computed ones are data."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.graph.leaves import LITERAL

TWO = 2.0


def numbers(y: Any) -> list[bool]:
    """Of each number beside the tensors below y whether it is structure."""
    nodes, stack = {}, [y]
    while stack:
        x = stack.pop()
        if x.serial not in nodes:
            nodes[x.serial] = x
            stack += x.inputs
    leaves = [
        n for _, n in sorted(nodes.items()) if not n.inputs and n.type.shape == ()
    ]
    return [n.op is LITERAL for n in leaves]


def _label(x: Any) -> Any:
    """2.0 stands in this function, and not in the expression."""
    label = float(np.asarray([2.0])[0])
    return x - label


def _named(x: Any, two: float = 2.0) -> Any:
    return x - two


WRITTEN: dict[str, Callable[[Any], Any]] = {
    "right": lambda x: x - 2.0,
    "left": lambda x: 2.0 * x,
    "negative": lambda x: x * -1,
    "beside a product": lambda x: x * x + 1,
    "over lines": lambda x: (
        x  # a line of its own
        + 2.0
    ),
    "compared": lambda x: x > 0.5,
    "called": lambda x: td.maximum(x, 0.5),
    "half": lambda x: 0.5 * (x + x),
}
DATA: dict[str, Callable[[Any], Any]] = {
    "a label": _label,
    "an argument": _named,
    "a global": lambda x: x - TWO,
    "computed": lambda x: x * (1 + int(x.shape[0] > 1)),
    "elsewhere in the line": lambda x: [x * float(k) for k in (1, 2)][1],
    "too large": lambda x: x * 12.5,
    "NumPy's": lambda x: x * np.float32(2.0),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_a_number_in_the_expression_is_structure(name: str) -> None:
    for _ in range(2):  # by Python, then by the plan of the call
        found = numbers(WRITTEN[name](td.asarray(np.ones(3, np.float32))))
        assert found and all(found), found


@pytest.mark.parametrize("name", DATA)
def test_another_number_is_data(name: str) -> None:
    for _ in range(2):
        found = numbers(DATA[name](td.asarray(np.ones(3, np.float32))))
        assert found and not any(found), found


@pytest.mark.parametrize("hot", [False, True])
def test_a_key_of_an_element_is_structure_where_it_is_written(hot: bool) -> None:
    """Also where Python has come to take the call inline."""
    x, k = td.param(init=np.ones((3, 4), np.float32)) * 2.0, 1
    for _ in range(64 if hot else 1):
        found = x[0, 1], x[0][-1], x[k, 0], x[0][k], x[k, k - 2]
    names = [y.op.name == "Index" for y in found]
    assert names == [False, False, True, True, True]
    assert [float(y) for y in found] == [2.0] * 5


def test_without_places_all_constants_of_a_function_count() -> None:
    code = """
import treadle as td
def f(x):
    label = 2.0
    return x - label
print(type(f(td.ones(3)).inputs[1].op).__name__)
"""
    command = [sys.executable, "-X", "no_debug_ranges", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Literal"]


def test_labels_that_happen_to_stand_in_the_code_make_no_programs() -> None:
    w = td.param("w", init=np.ones(3, np.float32))
    opt = td.optim.SGD([w], lr=0.01)
    rng = np.random.default_rng(0)
    for k in range(24):
        loss = 0.0
        for _ in range(4):  # 0.0 and 2 stand here, and are labels
            row, label = rng.standard_normal(3, np.float32), float(rng.integers(3))
            loss = loss + (td.asarray(row) @ w - label) ** 2
        loss.backward()
        opt.step()
        opt.zero_grad()
        if k == 4:
            before = td.cache_info()
    after = td.cache_info()
    assert (after.misses, after.compiled) == (before.misses, before.compiled)
