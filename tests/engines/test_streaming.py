"""Arrays larger than caches: results written past them, rows that wait or are fetched.

Whatever address they begin at, no bit is other than in caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import treadle as td
from tests.cases import each
from tests.interpreter import interpret
from tests.ops.samples import Sample
from tests.ops.test_contract import CASES as SAMPLES
from tests.ops.test_contract import arrays_of, results
from tests.programs import kernels_of, program_of
from tests.verifier import kernel_problems
from treadle.base import caches
from treadle.engines.base import engine
from treadle.engines.native.engine import Native
from treadle.graph.leaves import constant_node
from treadle.loops import stream
from treadle.loops.parameters import bound, parameterize
from treadle.loops.text import kernel_text

RNG = np.random.default_rng(2)
X = RNG.standard_normal((37, 203)).astype(np.float32)

CASES: dict[str, tuple[Callable[[td.Tensor], td.Tensor], Callable[[Any], Any]]] = {
    "flat": (lambda x: x * 2.0 + 1.0, lambda x: x * 2 + 1),
    "rows that begin anywhere": (
        lambda x: x - x.max(1, keepdims=True),
        lambda x: x - x.max(1, keepdims=True),
    ),
    "bytes": (lambda x: x > 0.0, lambda x: x > 0),
    "double": (lambda x: x.astype("float64") * 3.0, lambda x: x.astype("d") * 3),
}


@pytest.fixture(autouse=True)
def kernels_are_made_here() -> Iterator[None]:
    yield
    caches.clear()


def stream_from(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arrays of so many bytes be larger than caches."""
    monkeypatch.setattr(stream, "STREAM", size)
    caches.clear()


@pytest.mark.parametrize("name", CASES)
def test_streamed_results_are_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, by_numpy = CASES[name]
    stream_from(1, monkeypatch)
    y = make(td.asarray(X))
    down = td.lower(y)
    assert "streamed" in down.kernels and "!nontemporal" in down.llvm
    with td.options(optimize=False):  # no program of this structure is known yet
        np.testing.assert_array_equal(y.numpy(), by_numpy(X))


def test_an_unaligned_variable_is_updated_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream_from(1, monkeypatch)
    odd = np.zeros(1001, np.float32)[1:]
    v = td.param("v", init=1.0, shape=(1000,))
    w = td.Parameter(odd, copy=False)
    optimizer = td.optim.SGD(lr=0.25)
    for _ in range(3):
        optimizer.step((v * 2.0 + w).sum())
    np.testing.assert_array_equal(v.numpy(), np.full(1000, -0.5, np.float32))
    np.testing.assert_array_equal(w.numpy(), np.full(1000, -0.75, np.float32))


def norm(x: td.Tensor) -> td.Tensor:
    centered = x - x.mean(1, keepdims=True)
    return centered / td.sqrt((centered * centered).mean(1, keepdims=True) + 1e-5)


def pulled(f: Callable[[td.Tensor], td.Tensor], x: td.Tensor) -> tuple[td.Tensor, ...]:
    y = f(x)
    return y, *td.vjp(y, [x], td.asarray(X[::-1] * 0.5))


ROWS: dict[str, Callable[[td.Tensor], tuple[td.Tensor, ...]]] = {
    "softmax": lambda x: (td.softmax(x, 1),),
    "a softmax of what is read elsewhere": lambda x: (td.softmax(x, 1), x.max(1)),
    "norm": lambda x: (norm(x),),
    "softmax backward": lambda x: pulled(lambda x: td.softmax(x, 1), x),
    "norm backward": lambda x: pulled(norm, x),
    "in two dimensions": lambda x: (norm(x.reshape((37, 7, 29)).reshape((37, 203))),),
    "across rows": lambda x: (td.softmax(x, 0),),
    "logarithms": lambda x: (td.log_softmax(x, 1) * td.softmax(x, 1),),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_large_arrays_have_the_same_bits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = engine("native")
    assert isinstance(native, Native)

    def found(threads: int) -> list[np.ndarray[Any, Any]]:
        native.programs.clear()
        with td.options(threads=threads):
            ys = ROWS[name](td.asarray(X))
            td.evaluate(*ys)
            return [y.numpy() for y in ys]

    want = found(1)
    stream_from(1, monkeypatch)
    for threads in (1, 2):
        for a, b in zip(found(threads), want, strict=True):
            np.testing.assert_array_equal(a, b)
    native.programs.clear()


TEXTS = {
    "what is read once is fetched from the next page": (
        lambda x: x * 2.0 + 1.0,
        """
kernel add(b0: float32 written streamed, b1: float32) of n0, n1
  vector i0 < n0 by 64
    fetch b1[i0 + n1]
    b0[i0] = add(multiply(b1[i0], 2.0), 1.0)
""",
    ),
    "rows that are read once too": (
        lambda x: x + td.asarray(X[0]),
        """
kernel add(b0: float32 written streamed, b1: float32, b2: float32) of n0, n1, n2, n3, n4
  parallel i1 < n1
    vector i0 < n0 by 64
      fetch b1[i1*n3 + i0 + n4]
      b0[i1*n2 + i0] = add(b1[i1*n2 + i0], b2[i0])
""",
    ),
    "but nothing that columns are folded of": (
        lambda x: x.max(0),
        """
kernel max(b0: float32 written streamed, b1: float32) of n0, n1, n2
  vector i1 < n2 by 128
    a0: float32 = -inf
    serial i0 < n0
      a0 = Maximum with b1[i0*n1 + i1]
    b0[i1] = a0
""",
    ),
    "an exponential waits with its worker": (
        lambda x: td.softmax(x, 1),
        """
kernel max_stopgradient_exp_sum_divide(b0: float32 written streamed, b1: float32, \
b2: float32 written scratch of n5) of n0, n1, n2, n3, n4, n5
  parallel i0 < n0
    a0: float32 = -inf
    vector i1 < n2 by 64, below 128 by 16
      a0 = Maximum with b1[i0*n1 + i1]
    a1: float32 = 0
    vector i1 < n2 by 64, below 128 by 16
      fetch b1[i0*n3 + i1 + n4]
      v0 = exp(subtract(b1[i0*n1 + i1], stopgradient(a0)))
      a1 = Add with v0
      b2[i1] = v0
    vector i1 < n2 by 64, below 128 by 16
      b0[i0*n1 + i1] = divide(b2[i1], a1)
""",
    ),
    "what is read last is fetched for this row, or for the next": (
        lambda x: td.asarray(X) / (x - x.max(1, keepdims=True)).sum(1, keepdims=True),
        """
kernel max_sum_divide(b0: float32 written streamed, b1: float32, b2: float32) \
of n0, n1, n2, n3, n4
  parallel i0 < n0
    a0: float32 = -inf
    vector i1 < n2 by 64, below 128 by 16
      fetch b2[i0*n1 + i1]
      a0 = Maximum with b1[i0*n1 + i1]
    a1: float32 = 0
    vector i1 < n2 by 64, below 128 by 16
      fetch b1[i0*n3 + i1 + n4]
      a1 = Add with subtract(b1[i0*n1 + i1], a0)
    vector i1 < n2 by 64, below 128 by 16
      b0[i0*n1 + i1] = divide(b2[i0*n1 + i1], a1)
""",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_kernels_of_large_arrays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, want = TEXTS[name]
    stream_from(1, monkeypatch)
    program = program_of(make(td.asarray(X)))
    (step,) = kernels_of(program)
    assert kernel_text(step.kernel) == want.strip()
    kernel = bound(step.kernel, step.integers)
    assert kernel_problems(kernel) == []
    assert parameterize(kernel)[0].body == step.kernel.body


def test_interpreting_rows_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    x = X[:3, :40]
    kernels = []
    for large in (1 << 30, 1):
        stream_from(large, monkeypatch)
        (step,) = kernels_of(program_of(*pulled_softmax(x)))
        kernels.append(bound(step.kernel, step.integers))
    assert [a.scratch > 0 for a in kernels[1].arguments] == [False] * 4 + [True]
    given = [x.ravel(), (x * 0.5).ravel()]
    results = [[np.zeros(x.size, np.float32) for _ in range(2)] for _ in kernels]
    for kernel, own in zip(kernels, results, strict=True):
        interpret(kernel, [*own, *given])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
        assert a.any()


def pulled_softmax(x: np.ndarray[Any, Any]) -> tuple[td.Tensor, td.Tensor]:
    logits = td.asarray(x)
    y = td.softmax(logits, 1)
    (g,) = td.vjp(y, [logits], td.asarray(x * 0.5))
    return y, g


@each("sample", SAMPLES)
def test_kernels_of_every_op_hold(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is fetched lies on axes of the loop that fetches it."""
    stream_from(1, monkeypatch)
    arrays = arrays_of(sample)
    roots = results(sample.op(*[constant_node(a) for a in arrays]))
    for step in kernels_of(program_of(*roots, vector_bytes=8)):
        assert kernel_problems(bound(step.kernel, step.integers)) == []


LARGE: dict[str, tuple[Callable[..., td.Tensor], Callable[..., Any], list[Any]]] = {
    "parts of joined rows": (
        lambda *xs: td.concat(xs, axis=1) * 2.0,
        lambda *xs: np.concatenate(xs, 1) * 2,
        [(37, 40), (37, 203), (37, 96)],
    ),
    "passes over joined rows": (
        lambda *xs: (y := td.concat(xs, axis=1)) - y.max(1, keepdims=True),
        lambda *xs: (y := np.concatenate(xs, 1)) - y.max(1, keepdims=True),
        [(37, 40), (37, 203)],
    ),
    "columns folded side by side": (
        lambda x: td.max(x, 1),
        lambda x: x.max(1),
        [(37, 4, 203)],
    ),
    "columns folded twice": (
        lambda x: td.max(x - td.max(x, 1, keepdims=True), 1),
        lambda x: (x - x.max(1, keepdims=True)).max(1),
        [(37, 4, 203)],
    ),
}


@pytest.mark.parametrize("ahead", [16, 4096])
@pytest.mark.parametrize("name", LARGE)
def test_what_is_fetched(
    name: str, ahead: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, by_numpy, shapes = LARGE[name]
    stream_from(1, monkeypatch)
    monkeypatch.setattr(stream, "AHEAD", ahead)
    xs = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    y = make(*map(td.asarray, xs))
    assert "streamed" in td.lower(y).kernels
    np.testing.assert_array_equal(y.numpy(), by_numpy(*xs))
