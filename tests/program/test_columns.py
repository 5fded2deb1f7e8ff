"""Folds of columns beside rows: the kernels, and the bits of a kernel of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.programs import built, interpreted, kernels_of
from tests.verifier import kernel_problems
from treadle.engines.base import engine
from treadle.engines.native.engine import Native
from treadle.engines.native.translation.translate import claimed, direct
from treadle.graph.traversal import pending
from treadle.loops.kernel import Loop, Store
from treadle.loops.parameters import bound
from treadle.loops.text import kernel_text
from treadle.program import arrange, columns
from treadle.program.program import Program
from treadle.rewrite import cut
from treadle.rewrite.pipeline import Ways, prepare

Tensors = Sequence[td.Tensor]
RNG = np.random.default_rng(11)
ROWS, COLUMNS = 320, 5
X, G = (RNG.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in range(2))
W, B = (RNG.standard_normal(COLUMNS).astype(np.float32) for _ in range(2))


@pytest.fixture(autouse=True)
def short_folds_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "LONG", 1 << 10)
    monkeypatch.setattr(cut, "LARGE", 1 << 10)
    monkeypatch.setattr(columns, "WIDE", 2)
    monkeypatch.setattr(cut, "WIDE", 2)
    monkeypatch.setattr("treadle.program.group.MANY", 1 << 10)


def program_of(ys: Tensors) -> tuple[Program, list[Any]]:
    """The program of a graph that has gone through the pipeline, and its arguments."""
    keep = {y.serial for y in ys}
    graph = prepare(pending(list(ys)), {}, keep, Ways(claimed, direct))
    return built(graph), [x.stored for x in graph.leaves]


def pulled(f: Callable[..., td.Tensor], *arrays: Any) -> list[td.Tensor]:
    xs = [td.asarray(a) for a in arrays]
    y = f(*xs)
    return [y, *td.vjp(y, xs, td.asarray(G.reshape(y.shape)))]


def norm(x: td.Tensor, w: td.Tensor, b: td.Tensor) -> td.Tensor:
    return td.nn.functional.layer_norm(x, COLUMNS, w, b)


CASES: dict[str, Callable[[], Tensors]] = {
    "layer norm": lambda: pulled(norm, X, W, B),
    "a few times many rows": lambda: pulled(
        norm, X.reshape(4, ROWS // 4, COLUMNS), W, B
    ),
    "once many rows": lambda: pulled(norm, X.reshape(1, ROWS, COLUMNS), W, B),
    "many times rows": lambda: pulled(norm, X.reshape(32, ROWS // 32, COLUMNS), W, B),
    "gelu of a sum": lambda: pulled(lambda x, b: td.gelu(x + b), X, B),
    "softmax of a sum": lambda: pulled(lambda x, b: td.softmax(x + b, 1), X, B),
    "scaled rows": lambda: pulled(lambda x, w: td.tanh(x * w) / 3.0, X, W),
    "beside more rows than are summed": lambda: (
        td.concat([x := td.asarray(X), x], 0),
        x.mean(0),
    ),
    "beside an exponential that waits": lambda: (
        td.softmax(x := td.sin(td.asarray(X)), 1),
        x.sum(0),
    ),
    "greatest of columns": lambda: (
        (x := td.asarray(X)) - x.max(1, keepdims=True),
        x.max(0),
    ),
    "what a sum of columns is needed for": lambda: (
        (x := td.asarray(X)) * 2.0,
        x - x.sum(0),
        td.exp(x.sum(0)),
    ),
    "double": lambda: pulled(
        lambda x, b: td.sin(x.astype("float64") + b.astype("float64")), X, B
    ),
    "half": lambda: ((x := td.asarray(X).astype("float16")) * 2.0, x.sum(0)),
    "columns of a transposed array": lambda: (
        (x := td.permute_dims(td.asarray(X.T.copy()), (1, 0))) * 2.0,
        x.sum(0),
    ),
}


ALONE = {  # in another order or type, or over other loops
    "half",
    "columns of a transposed array",
    "beside more rows than are summed",
}


@pytest.mark.parametrize("name", [n for n in CASES if "needed" not in n])
def test_rows_follow_each_other(name: str) -> None:
    program, _ = program_of(CASES[name]())
    texts = [kernel_text(s.kernel) for s in kernels_of(program)]
    assert any("ordered" in text for text in texts) == (name not in ALONE)


def run(make: Callable[[], Tensors], threads: int) -> list[np.ndarray[Any, Any]]:
    native = engine("native")
    assert isinstance(native, Native)
    native.programs.clear()
    with td.options(threads=threads):
        ys = make()
        td.evaluate(*ys)
        return [y.numpy() for y in ys]


@pytest.mark.parametrize("name", CASES)
def test_the_bits_are_those_of_a_kernel_of_its_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = CASES[name]
    beside = [run(make, threads) for threads in (1, 2, 4)]
    with td.options(engine="reference"):
        ys = make()
        td.evaluate(*ys)
        judged = [y.numpy() for y in ys]
    monkeypatch.setattr(arrange, "fold_columns_together", lambda units, *_: units)
    alone = run(make, 1)
    for found in beside:
        for a, b in zip(found, alone, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(alone, judged, strict=True):
        tolerance = 2e-2 if a.dtype.itemsize == 2 else 2e-4
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    run(make, 1)


@pytest.mark.parametrize("name", CASES)
def test_interpreting_is_the_meaning(name: str) -> None:
    ys = CASES[name]()
    program, given = program_of(ys)
    found = interpreted(program, given)
    td.evaluate(*ys)
    for y in ys:
        got = found[y.serial].reshape(y.shape)
        tolerance = 2e-2 if got.dtype.itemsize == 2 else 2e-4
        np.testing.assert_allclose(got, y.numpy(), rtol=tolerance, atol=tolerance)


TEXTS = {
    "a sum that waits for a fold of its row": (
        lambda: (y := (x := td.asarray(X)) - x.max(1, keepdims=True), y.sum(0)),
        """
kernel max_subtract_sum(b0: float32 written, b1: float32 written, b2: float32) \
of n0, n1, n2, n3, n4, n5
  parallel i0 < n0
    vector i2 < n4 by 16
      b1[i0*n5 + i2] = 0.0
    ordered i1 < n2
      a0: float32 = -inf
      vector i2 < n4 by 16
        a0 = Maximum with b2[i0*n1 + i1*n3 + i2]
      vector i2 < n4 by 16
        v0 = subtract(b2[i0*n1 + i1*n3 + i2], a0)
        b0[i0*n1 + i1*n3 + i2] = v0
        b1[i0*n5 + i2] = Add with v0
""",
    ),
    "sums beside an element-wise result": (
        lambda: ((x := td.asarray(X)) * 2.0, x.sum(0), x.max(0)),
        """
kernel multiply_sum_max(b0: float32 written, b1: float32 written, \
b2: float32 written, b3: float32) of n0, n1, n2, n3, n4, n5
  parallel i0 < n0
    vector i2 < n4 by 16
      b1[i0*n5 + i2] = 0.0
      b2[i0*n5 + i2] = -inf
    ordered i1 < n2
      vector i2 < n4 by 16
        v0 = b3[i0*n1 + i1*n3 + i2]
        b0[i0*n1 + i1*n3 + i2] = multiply(v0, 2.0)
        b1[i0*n5 + i2] = Add with v0
        b2[i0*n5 + i2] = Maximum with v0
""",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_kernels(name: str) -> None:
    make, want = TEXTS[name]
    first = kernels_of(program_of(make())[0])[0]
    assert kernel_text(first.kernel) == want.strip()


def test_what_rows_leave_is_not_overwritten() -> None:
    make, _ = TEXTS["sums beside an element-wise result"]
    step = kernels_of(program_of(make())[0])[0]
    kernel = bound(step.kernel, step.integers)
    (blocks,) = kernel.body
    assert isinstance(blocks, Loop)
    start, rows = blocks.body
    assert isinstance(start, Loop) and isinstance(rows, Loop)
    store = start.body[0]
    assert isinstance(store, Store) and rows.axis not in store.index.axes()
    lost = Loop(rows.axis, (start,), "ordered")
    told = kernel_problems(kernel.with_body((Loop(blocks.axis, (lost,), "parallel"),)))
    assert told == [
        f"b{k} is overwritten from step to step of {rows.axis.name}" for k in (1, 2)
    ]
