"""Orders, places of extremes and searches: ties, NaN, sizes, axes and types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.numerics import assert_close
from treadle.base.dtypes import as_dtype
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute
from treadle.ops.extrema import ArgMax, ArgMin
from treadle.ops.families import outputs_of
from treadle.ops.order import ArgSort, SearchSorted, Sort, TopK
from treadle.ops.reduce import Median

EXTENTS = (1, 2, 7, 16, 33, 128)
TYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8")


def drawn(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    """Few distinct values, so that many are equal, and some NaN among floats."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 9, shape).astype(as_dtype(dtype))
    if "float" in dtype and x.size:
        x[rng.uniform(size=shape) < 0.1] = np.nan
    return x


def check(op: Any, *arrays: Any, native: bool = True) -> None:
    """On one thread and on two, the result is the NumPy rule's."""
    y = op(*[constant_node(a) for a in arrays])
    want = compute(op, y.type, list(arrays))
    wants = want if isinstance(want, tuple) else (want,)
    for threads in (1, 2):
        with td.options(engine="native", threads=threads):
            made = op(*[constant_node(a) for a in arrays])
            several = outputs_of(made) if isinstance(want, tuple) else (made,)
            assert (td.lower(*several).fallbacks == ()) is native
            for got, w in zip(several, wants, strict=True):
                assert_close(got.numpy(), w, "E")


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("extent", EXTENTS)
def test_sizes_and_axes(extent: int, axis: int) -> None:
    shape = [3, 5, 18]
    shape[axis] = extent
    x = drawn(tuple(shape), "float32")
    for descending in (False, True):
        check(ArgSort(axis, descending), x)
        check(Sort(axis, descending), x)
    check(ArgMax(axis), x)
    check(ArgMin(axis, True), x)
    check(Median(axis), x)
    check(TopK(extent // 2, axis), x)


@pytest.mark.parametrize("dtype", TYPES)
def test_types(dtype: str) -> None:
    for shape in ((33,), (4, 40)):
        x = drawn(shape, dtype)
        axis = len(shape) - 1
        for descending in (False, True):
            check(ArgSort(axis, descending), x)
        check(Sort(axis, True), x)
        check(ArgMax(axis), x)
        check(ArgMin(axis), x)
        check(TopK(3, axis), x)


def test_extremes_of_long_rows() -> None:
    x = drawn((3, 70_000), "float32")
    x = np.where(np.isnan(x), 0, x).astype(np.float32)
    check(ArgMax(1), x)
    check(ArgMin(1), x)
    check(ArgMax(0), drawn((700_000,), "int32"))
    check(ArgMax(0), np.full((5,), -np.inf, np.float32))


def test_zeros_of_both_signs_keep_their_order() -> None:
    check(Sort(0), np.array([0.0, -0.0, -1.0, -0.0, 0.0], np.float32))


def test_long_orders_are_left_to_numpy() -> None:
    x = drawn((2, 129), "float32")
    check(ArgSort(1), x, native=False)
    check(Sort(1), x, native=False)
    check(Median(1), x, native=False)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("extent", (0, *EXTENTS, 1000))
def test_searches(extent: int, dtype: str) -> None:
    row = np.sort(drawn((extent,), dtype).astype("float64")).astype(as_dtype(dtype))
    for right in (False, True):
        check(SearchSorted(right), row, drawn((3, 37), dtype, 1))


def test_gradients_are_native_too() -> None:
    x = td.param("x", init=np.random.default_rng(1).standard_normal((5, 8)))
    y = (td.sort(x, 1) ** 2).sum() + td.median(x, 0).sum()
    y = y + (td.top_k(x, 3, 1)[0] ** 2).sum() + td.max(td.sparsemax(x))
    (g,) = td.grad(y, [x])
    with td.options(engine="native"):
        assert td.lower(y, g).fallbacks == ()
