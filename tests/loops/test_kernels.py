"""Kernels: their text, what holds of them, and what interpreting them gives."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import treadle as td
from tests.cases import each
from tests.numerics import assert_close
from tests.ops.samples import Sample
from tests.ops.test_contract import CASES, arrays_of, results
from tests.programs import interpreted, kernels_of, program_of
from tests.verifier import kernel_problems
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute
from treadle.graph.tensor import Tensor
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import Accumulate, Accumulated, Loop, Store
from treadle.loops.parameters import bound, parameterize
from treadle.loops.text import kernel_text
from treadle.program.program import Launch, program_text


def spread(x: Tensor) -> Tensor:
    """Row by row, over the sum of squares of what is below the greatest."""
    centered = x - x.max(1, keepdims=True)
    square = centered * centered
    return square / square.sum(1, keepdims=True)


GOLDEN = {
    "a chain is one loop": (
        lambda x: td.sqrt(td.abs(x * 2.0)) + x,
        """
kernel abs_sqrt_add(b0: float32 written, b1: float32) of n0
  vector i0 < n0 by 64
    v0 = b1[i0]
    b0[i0] = add(sqrt(abs(multiply(v0, 2.0)), flat=False), v0)
""",
    ),
    "what is divided by a sum takes three passes over a row": (
        spread,
        """
kernel max_sum_divide(b0: float32 written, b1: float32) of n0, n1, n2
  parallel i0 < n0
    a0: float32 = -inf
    vector i1 < n2 by 64
      a0 = Maximum with b1[i0*n1 + i1]
    a1: float32 = 0
    vector i1 < n2 by 64
      v0 = subtract(b1[i0*n1 + i1], a0)
      a1 = Add with multiply(v0, v0)
    vector i1 < n2 by 64
      v0 = subtract(b1[i0*n1 + i1], a0)
      b0[i0*n1 + i1] = divide(multiply(v0, v0), a1)
""",
    ),
    "an exponential waits in its result": (
        lambda x: td.softmax(x, 1),
        """
kernel max_stopgradient_exp_sum_divide(b0: float32 written, b1: float32) \
of n0, n1, n2
  parallel i0 < n0
    a0: float32 = -inf
    vector i1 < n2 by 64
      a0 = Maximum with b1[i0*n1 + i1]
    a1: float32 = 0
    vector i1 < n2 by 64
      v0 = exp(subtract(b1[i0*n1 + i1], stopgradient(a0)))
      a1 = Add with v0
      b0[i0*n1 + i1] = v0
    vector i1 < n2 by 64
      b0[i0*n1 + i1] = divide(b0[i0*n1 + i1], a1)
""",
    ),
    "a fold over rows keeps its columns side by side": (
        lambda x: td.max(x, 0),
        """
kernel max(b0: float32 written, b1: float32) of n0, n1, n2
  vector i1 < n2 by 256
    a0: float32 = -inf
    serial i0 < n0
      a0 = Maximum with b1[i0*n1 + i1]
    b0[i1] = a0
""",
    ),
    "a long sum is added up in blocks": (
        lambda x: td.sum(x, 0),
        """
kernel sum(b0: float32 written, b1: float32) of n0, n1, n2, n3, n4, n5
  vector i1 < n2 by 256
    a2: float32 = 0
    a3: float32 = 0
    serial i2 < n3 in steps of n5
      a1: float32 = 0
      serial i0 < n0 from i2 up to i2 + n4
        a1 = Add with b1[i0*n1 + i1]
      v0 = add(a2, a1)
      v1 = subtract(v0, a2)
      a3 = Add with add(subtract(a2, subtract(v0, v1)), subtract(a1, v1))
      a2 = Add with a1
    b0[i1] = select(less(0.0, abs(a3)), add(a2, a3), a2)
""",
    ),
    "movement is index arithmetic": (
        lambda x: td.permute_dims(x, (1, 0))[::2] + 1.0,
        """
kernel add(b0: float32 written, b1: float32) of n0, n1, n2, n3, n4
  parallel i1 < n2
    vector i0 < n0 by 64
      b0[i1*n4 + i0] = add(b1[i0*n1 + i1*n3], 1.0)
""",
    ),
    "a sum up to each place carries what it has so far": (
        lambda x: td.cumulative_sum(x, axis=0),
        """
kernel cumulativesum(b0: float32, b1: float32 written) of n0, n1, n2
  vector i1 < n2 by 32
    a0: float64 = 0
    serial i0 < n0
      v0 = float64(b0[i0*n1 + i1])
      b1[i0*n1 + i1] = float32(select((0 <= i0 < 1), v0, add(a0, v0)))
      a0 = select((0 <= i0 < 1), v0, add(a0, v0))
""",
    ),
    "without its own element, from the end, rows side by side": (
        lambda x: td.cumulative_prod(x, axis=1, reverse=True, exclusive=True),
        """
kernel cumulativeprod(b0: float32, b1: float32 written) of n0, n1, n2, n3
  vector i0 < n0 by 8
    a0: float32 = 1
    serial i1 < n2
      b1[i0*n1 + i1*-1 + n3] = a0
      v0 = b0[i0*n1 + i1*-1 + n3]
      a0 = select((0 <= i1 < 1), v0, multiply(a0, v0))
""",
    ),
    "a greatest element is found, and then its first place": (
        lambda x: td.argmax(x, axis=1),
        """
kernel argmax(b0: float32, b1: int64 written) of n0, n1, n2
  parallel i0 < n0
    a0: float32 = -inf
    vector i1 < n2 by 64
      v0 = b0[i0*n1 + i1]
      a0 = Maximum with v0
    a1: int32 = 2147483647
    vector i1 < n2 by 64
      v0 = b0[i0*n1 + i1]
      a1 = Minimum with select(bitwiseor(equal(v0, a0), isnan(v0)), (i1), 2147483647)
    b1[i0] = int64(a1)
""",
    ),
    "a border is a guard": (
        lambda x: td.pad(x[:, :20], ((0, 0), (1, 1))),
        """
kernel pad(b0: float32 written, b1: float32, b2: float32) of n0, n1, n2, n3, n4, n5
  parallel i0 < n0
    vector i1 < n2 by 16
      b0[i0*n5 + i1] = select((0 <= i1 + -1 < n4), b1[i0*n1 + i1 + -1] \
where 0 <= i1 + -1 < n3, b2[0])
""",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_text_of_kernels(name: str) -> None:
    make, want = GOLDEN[name]
    x = td.asarray(np.ones((300, 500), np.float32))
    (step,) = kernels_of(program_of(make(x)))
    assert kernel_text(step.kernel) == want.strip()


@each("sample", CASES)
def test_interpreting_is_the_meaning(sample: Sample) -> None:
    arrays = arrays_of(sample)
    if sum(a.size for a in arrays) > 400:
        pytest.skip("slow to interpret")
    y = sample.op(*[constant_node(a) for a in arrays])
    roots = results(y)
    program = program_of(*roots)
    if not all(isinstance(s, Launch) for s in program.steps):
        pytest.skip("not loops alone")
    want = compute(sample.op, y.type, arrays)
    wants = want if isinstance(want, tuple) else (want,)
    found = interpreted(program, arrays)
    terms = max([a.size for a in arrays], default=1)
    for r, w in zip(roots, wants, strict=True):
        got = found[r.serial].reshape(r.type.shape)
        assert_close(got, w, sample.op.traits.tolerance, terms)


def test_sizes_are_no_structure() -> None:
    kernels = set()
    for rows, columns in [(300, 500), (37, 430), (1000, 999)]:
        x = td.asarray(np.ones((rows, columns), np.float32))
        y = (x - x.max(1, keepdims=True)) * 2.0
        (step,) = kernels_of(program_of(y))
        kernels.add(step.kernel)
    assert len(kernels) == 1


def test_what_is_wrong_is_told() -> None:
    x = td.asarray(np.ones((30, 50), np.float32))
    (step,) = kernels_of(program_of(x.sum(1)))
    kernel = bound(step.kernel, step.integers)
    assert kernel_problems(kernel) == []
    stray = Store(9, Index.of(LoopAxis("z", 4)), kernel.body[0].body[1].value)  # type: ignore[union-attr]
    found = kernel_problems(kernel.with_body((*kernel.body, stray)))
    assert "b9 is no buffer" in found
    assert "a0 is read before it starts" in found
    own = kernel.body[0].body[0]  # type: ignore[union-attr]
    carried = replace(own.folds[0], combine=None)
    read = Accumulate(carried, Accumulated(carried, carried.dtype))
    late = replace(stray, value=Accumulated(carried, carried.dtype))
    lost = replace(own, body=(read, read, late), folds=(carried,))
    told = " ".join(kernel_problems(kernel.with_body((lost,))))
    assert "a0 is carried across lanes" in told
    assert "a0 is replaced twice at once" in told
    assert "a0 is read after its step" in told
    twice = Loop(kernel.body[0].axis, kernel.body, "parallel")  # type: ignore[union-attr]
    told = " ".join(kernel_problems(kernel.with_body((twice,))))
    assert "two loops, one inside the other" in told
    kept = tuple(replace(a, written=False) for a in kernel.arguments)
    plain = replace(kernel, arguments=kept)
    assert "b0 is stored to but not marked as written" in kernel_problems(plain)


def test_parameters_are_filled_again() -> None:
    x = td.asarray(np.ones((6, 10), np.float32))
    (step,) = kernels_of(program_of(td.pad(x, 2)[1:, ::3] + 1.0))
    kernel = bound(step.kernel, step.integers)
    again, integers = parameterize(kernel)
    assert tuple(integers) == step.integers
    assert again.body == step.kernel.body


def test_a_program_as_text() -> None:
    x = td.asarray(np.ones((4, 3), np.float32))
    text = program_text(program_of((x @ x.T) + 1.0))
    assert "product[1, 4, 4, 3] add(b0, b0)" in text


@each("seed", [pytest.param(k, id=f"{k // 50}/{k}") for k in range(200)])
def test_index_arithmetic_is_integer_arithmetic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes = [LoopAxis(f"i{k}", int(n)) for k, n in enumerate(rng.integers(1, 7, 3))]
    made = Index.of(int(rng.integers(0, 9)))
    at = {a: int(rng.integers(a.extent)) for a in axes}

    def known(i: Index) -> int:
        return int(i.value(at))

    value = known(made)
    for _ in range(6):
        k, n = int(rng.integers(3)), int(rng.integers(1, 12))
        step = rng.choice(["add", "scale", "quotient", "remainder", "flip"])
        if step == "add":
            made, value = made + Index.of(axes[k]) * n, value + at[axes[k]] * n
        elif step == "scale":
            made, value = made * n, value * n
        elif step == "quotient":
            made, value = made // n, value // n
        elif step == "remainder":
            made, value = made % n, value % n
        else:
            top = made.bounds()[1]
            made, value = top - made, top - value
        assert known(made) == value
        low, high = made.bounds()
        assert low <= value <= high
