"""Loops cut where conditions turn: what is asked no more, and what is computed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import treadle as td
from tests.programs import built, interpreted, kernels_of
from treadle.engines.native.translation.translate import claimed
from treadle.graph.traversal import pending
from treadle.loops.text import kernel_text
from treadle.program.program import Program
from treadle.rewrite.expand import expand

VECTOR = 32  # bytes: 8 floats


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def joined(*widths: int) -> td.Tensor:
    return td.concat([td.asarray(numbers(5, n)).node() for n in widths], axis=1)


def padded(before: int, n: int, after: int) -> td.Tensor:
    x = td.asarray(numbers(5, n)).node()
    return td.pad(x, ((0, 0), (before, after)), value=2.0)


# A graph, the vector loops of its kernel, and whether that still chooses or asks.
CASES: dict[str, tuple[Any, int, bool]] = {
    "two parts": (lambda: joined(16, 24), 2, False),
    "parts that are no whole vectors": (lambda: joined(9, 13, 50), 3, False),
    "a part of less than a vector": (lambda: joined(16, 7), 2, True),
    "an empty part": (lambda: joined(16, 0, 8), 2, False),
    "computed parts": (lambda: joined(16, 24) * 3.0 + 1.0, 2, False),
    "a join of joins": (
        lambda: td.concat([joined(8, 16), joined(16)], axis=1),
        3,
        False,
    ),
    "borders": (lambda: padded(8, 20, 16), 3, False),
    "a border of less than a vector": (lambda: padded(8, 20, 1), 3, True),
    "two borders too near": (lambda: padded(1, 14, 1), 1, True),
    "a border along rows": (lambda: td.pad(joined(16, 24), ((1, 0), (0, 0))), 2, True),
    "one row, which is shared out among threads": (
        lambda: td.concat([td.asarray(numbers(n)).node() for n in (16, 24)]),
        1,
        True,
    ),
    "rows joined, which vectors do not cross": (
        lambda: td.concat([td.asarray(numbers(n, 40)).node() for n in (3, 4)]),
        1,
        True,
    ),
    "a roll": (lambda: td.roll(joined(40), 8, axis=1), 2, False),
    "a roll by less than a vector": (
        lambda: td.roll(joined(40), -3, axis=1),
        2,
        True,
    ),
    "a roll along rows": (lambda: td.roll(joined(40), 2, axis=0), 1, False),
    "a part replaced": (
        lambda: joined(40).at[:, 8:24].set(td.asarray(numbers(5, 16))),
        3,
        False,
    ),
}

PADDED = """
kernel pad(b0: float32 written, b1: float32) of n0, n1, n2, n3, n4, n5, n6, n7, n8, n9
  parallel i0 < n0
    vector i2 < n3 by 8
      b0[i0*n4 + i2] = 2.0
    vector i1 < n2 by 8
      b0[i0*n5 + i1 + n6] = b1[i0*n1 + i1]
    vector i3 < n7 by 8
      b0[i0*n8 + i3 + n9] = 2.0
"""


@pytest.mark.parametrize("case", CASES)
def test_loops(case: str) -> None:
    make, loops, asks = CASES[case]
    root = make()
    program = same_as_reference(root)
    text = kernel_text(kernels_of(program)[-1].kernel)
    assert len(re.findall(r"vector ", text)) == loops, text
    assert bool(re.search(r"select|where", text)) == asks, text


def test_text() -> None:
    (step,) = kernels_of(same_as_reference(padded(8, 20, 16)))
    assert kernel_text(step.kernel) == PADDED.strip()


@given(st.lists(st.integers(0, 40), min_size=2, max_size=7), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_parts_of_any_widths(widths: list[int], rows: int) -> None:
    """The parts are computed on, too, each in its own loop."""
    assume(sum(widths))
    parts = [td.asarray(numbers(rows, n)).node() for n in widths]
    same_as_reference(td.concat([x * (k + 2.0) for k, x in enumerate(parts)], axis=1))


@given(st.integers(1, 70), st.integers(-80, 80), st.integers(-3, 3))
@settings(max_examples=40, deadline=None)
def test_rolls_of_any_widths(width: int, across: int, down: int) -> None:
    x = td.asarray(numbers(5, width)).node()
    moved = td.roll(td.roll(x, across, axis=1), down, axis=0)
    same_as_reference(moved * 2.0 + x)
    same_as_reference(td.abs(moved).max(axis=1))


def same_as_reference(root: td.Tensor) -> Program:
    """The program of a graph, whose kernels interpreted have the bits of NumPy."""
    graph = expand(pending([root]), {}, {root.serial}, claimed)
    program = built(graph, VECTOR)
    found = interpreted(program, [x.array for x in graph.leaves])
    with td.options(engine="reference"):
        want = root.numpy()
    np.testing.assert_array_equal(found[root.serial].reshape(want.shape), want)
    return program
