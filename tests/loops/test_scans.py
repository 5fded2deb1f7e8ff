"""Values carried along a dimension: sizes, axes and types that samples leave out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import assert_close
from treadle.base.dtypes import as_dtype
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute
from treadle.ops.recurrence import LinearRecurrence
from treadle.ops.scan import (
    CumulativeLogSumExp,
    CumulativeMax,
    CumulativeProd,
    CumulativeSum,
)

EXTENTS = (0, 1, 7, 16, 33, 1000)
RUNNING: tuple[Any, ...] = (CumulativeSum, CumulativeProd, CumulativeMax)
TYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8")


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    if dtype in ("int32", "int64", "uint8"):
        return rng.integers(0, 5, shape).astype(dtype)
    return rng.uniform(-1.2, 1.2, shape).astype(as_dtype(dtype))


def check(op: Any, *arrays: Any) -> None:
    """The kernel's result, on one thread and on two, is the NumPy rule's bit by bit."""
    y = op(*[constant_node(a) for a in arrays])
    want = compute(op, y.type, list(arrays))
    for threads in (1, 2):
        with td.options(engine="native", threads=threads):
            assert td.lower(y).fallbacks == ()
            got = op(*[constant_node(a) for a in arrays]).numpy()
        if isinstance(op, CumulativeLogSumExp):
            assert_close(got, want, "R", y.type.shape[op.axis])
        else:
            assert got.dtype == want.dtype
            assert got.tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("made", RUNNING)
def test_sizes_and_axes(made: Any, extent: int, axis: int) -> None:
    shape = [3, 5, 18]
    shape[axis] = extent
    for reverse in (False, True):
        for exclusive in (False, True):
            check(made(axis, reverse, exclusive), drawn(tuple(shape), "float32"))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("made", RUNNING)
def test_types(made: Any, dtype: str) -> None:
    for axis, shape in ((0, (33,)), (0, (7, 65)), (1, (65, 7))):
        for exclusive in (False, True):
            check(made(axis, False, exclusive), drawn(shape, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("extent", EXTENTS)
def test_recurrences(extent: int, dtype: str) -> None:
    for axis, shape in ((0, (extent, 19)), (1, (19, extent)), (0, (extent,))):
        for reverse in (False, True):
            factors, terms = drawn(shape, dtype), drawn(shape, dtype, 1)
            check(LinearRecurrence(axis, reverse), factors, terms)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_sums_of_exponentials(dtype: str) -> None:
    for axis, shape in ((0, (33, 19)), (1, (19, 33)), (0, (1,))):
        x = drawn(shape, dtype) * np.asarray(8, as_dtype(dtype))
        x[..., 0] = -np.inf
        for exclusive in (False, True):
            check(CumulativeLogSumExp(axis, False, exclusive), x)


def test_the_first_value_is_its_element() -> None:
    """No factor reaches it, and a zero keeps its sign."""
    factors = np.array([np.nan, 0.5, np.inf], np.float32)
    check(LinearRecurrence(0), factors, np.array([-0.0, -0.0, 1.0], np.float32))
    check(CumulativeSum(0), np.array([-0.0, -0.0, 3.0], np.float32))
    check(CumulativeMax(0), np.array([-np.inf, 1.0, np.nan, 2.0], np.float32))


def test_large_scans_on_threads() -> None:
    x = drawn((700, 513), "float32")
    for axis in (0, 1):
        check(CumulativeSum(axis), x)
        check(LinearRecurrence(axis), x, drawn(x.shape, "float32", 1))


def test_gradients_are_native_too() -> None:
    for name in ("sum", "prod", "max", "logsumexp"):
        x = td.param("x", init=drawn((5, 7), "float32"))
        y = getattr(td, f"cumulative_{name}")(x, axis=1)
        (g,) = td.grad((y * y).sum(), [x])
        with td.options(engine="native"):
            assert td.lower(y, g).fallbacks == ()
