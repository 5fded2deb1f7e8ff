"""Loops over rows of unequal length: text, bounds, sums and what is out of range."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treadle as td
from tests.numerics import assert_close
from tests.programs import interpreted, kernels_of, program_of
from tests.verifier import kernel_problems
from treadle.base.errors import RunError
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute
from treadle.loops.index import Index, LoopAxis
from treadle.loops.kernel import Loop, statements
from treadle.loops.parameters import bound, parameterize
from treadle.loops.text import kernel_text
from treadle.ops.segments import SegmentSum
from treadle.ops.sparse import CSRDots, CSRMatMul

UP = "select(less(b{0}[i{1} + 1], b{0}[i{1}]), -1, b{0}[i{1} + 1])"
JOIN = """\
        v0 = add(a2, a1)
        v1 = subtract(v0, a2)
        a3 = Add with add(subtract(a2, subtract(v0, v1)), subtract(a1, v1))
        a2 = Add with a1"""
GOLDEN = {
    "sums of a row wait in registers": (
        CSRMatMul(30),
        f"""
kernel csrmatmul(b0: float32, b1: int64, b2: int64, b3: float32, b4: float32 written) \
of n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, n10
  parallel i0 < n0
    vector i2 < n4 by 64
      a2: float32 = 0
      a3: float32 = 0
      serial i3 < n5 from [b2[i0]] up to [{UP.format(2, 0)}] in steps of n9
        a1: float32 = 0
        serial i1 < n1 from i3 up to i3 + n6 up to [{UP.format(2, 0)}]
          a1 = Add with multiply(b0[i1], b3[[b1[i1]]*n3 + i2])
{JOIN}
      b4[i0*n10 + i2] = select(less(0.0, abs(a3)), add(a2, a3), a2)
""",
    ),
    "sums of rows": (
        SegmentSum(),
        f"""
kernel segmentsum(b0: int64, b1: float32, b2: float32 written) \
of n0, n1, n2, n3, n4, n5, n6, n7, n8, n9
  parallel i0 < n0
    vector i2 < n3 by 64
      a2: float32 = 0
      a3: float32 = 0
      serial i3 < n4 from [b0[i0]] up to [{UP.format(0, 0)}] in steps of n8
        a1: float32 = 0
        serial i1 < n1 from i3 up to i3 + n5 up to [{UP.format(0, 0)}]
          a1 = Add with b1[i1*n2 + i2]
{JOIN}
      b2[i0*n9 + i2] = select(less(0.0, abs(a3)), add(a2, a3), a2)
""",
    ),
    "transposed, columns that are side by side share no place": (
        CSRMatMul(30, True),
        f"""
kernel csrmatmul(b0: float32, b1: int64, b2: int64, b3: float32, b4: float32 written) \
of n0, n1, n2, n3, n4, n5, n6, n7
  vector i1 < n2 by 32
    serial i0 < n0
      serial i2 < n3 from [b2[i0]] up to [{UP.format(2, 0)}]
        b4[[b1[i2]]*n5 + i1] = Add with multiply(b0[i2], b3[i0*n1 + i1])
""",
    ),
    "dots of dense rows": (
        CSRDots(),
        f"""
kernel csrdots(b0: int64, b1: int64, b2: float32, b3: float32, b4: float32 written) \
of n0, n1, n2, n3, n4, n5, n6, n7
  parallel i0 < n0
    ordered i1 < n1 from [b1[i0]] up to [{UP.format(1, 0)}]
      a0: float32 = 0
      vector i2 < n4 by 64, below 128 by 16
        a0 = Add with multiply(b2[i0*n5 + i2], b3[[b0[i1]]*n3 + i2])
      b4[i1] = a0
""",
    ),
}


def applied(
    rows: int, columns: int, width: tuple[int, ...], seed: int = 0
) -> list[tuple[Any, Any]]:
    """Each op on rows compressed, of up to 5 elements, some before and after them."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum([1, *rng.integers(0, 6, rows)])
    count = int(starts[-1]) + 2

    def drawn(*shape: int) -> Any:
        return rng.normal(size=shape).astype(np.float32)

    own = [drawn(count), rng.integers(0, columns, count), starts]
    x, y = drawn(columns, *width), drawn(rows, *width)
    return [
        (CSRMatMul(columns), [*own, x]),
        (CSRMatMul(columns, True), [*own, y]),
        (CSRDots(), [*own[1:], y, x]),
        (SegmentSum(), [starts, drawn(count, *width)]),
    ]


@pytest.mark.parametrize("name", GOLDEN)
def test_text_of_kernels(name: str) -> None:
    op, want = GOLDEN[name]
    arrays = next(a for o, a in applied(30, 30, (70,)) if o == op)
    program = program_of(op(*[constant_node(a) for a in arrays]))
    assert kernel_text(kernels_of(program)[-1].kernel) == want.strip()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 6),
    st.integers(1, 5),
    st.sampled_from([(), (1,), (3,), (70,)]),
    st.integers(0, 99),
)
def test_every_way_means_the_same(
    rows: int, columns: int, width: Any, seed: int
) -> None:
    terms = max(8, *width, 1)  # of a row, or of a dot
    for op, arrays in applied(rows, columns, width, seed):
        nodes = [constant_node(a) for a in arrays]
        y = op(*nodes)
        want = compute(op, y.type, arrays)
        found = interpreted(program_of(y), arrays)[y.serial].reshape(y.type.shape)
        assert_close(found, want, "R", terms)
        assert_close(op.expand(*nodes).numpy(), want, "R", terms)
        for arena in ("poison", "guard"):
            with td.options(engine="native", arena=arena):
                assert_close(op(*nodes).numpy(), want, "R", terms)


@pytest.mark.parametrize("width", [(), (1,), (3,), (64,), (130,), (300,)])
def test_bits_do_not_depend_on_threads(width: Any) -> None:
    for op, arrays in applied(700, 300, width):
        found = []
        for threads in (1, 2, 4):
            with td.options(engine="native", threads=threads):
                y = op(*[constant_node(a) for a in arrays])
                assert td.lower(y).fallbacks == ()
                found.append(y.numpy())
        assert all(np.array_equal(found[0], x) for x in found[1:])
        assert_close(found[0], compute(op, y.type, arrays), "R", 64)


def test_float16_is_summed_up_in_float32() -> None:
    count = 3000
    ones, ids = np.ones(count, np.float16), np.zeros(count, np.int64)
    x = np.full((1, 2), 1.0, np.float16)
    y = td.csr_matmul(ones, ids, [0, count], x)
    assert y.dtype.name == "float16" and y.tolist() == [[3000.0, 3000.0]]
    turned = td.csr_matmul(ones, ids, [0, count], x, columns=1, transposed=True)
    assert turned.tolist() == [[3000.0, 3000.0]]
    assert td.segment_sum(np.ones(count, np.float16), [0, count]).tolist() == [3000.0]


@pytest.mark.parametrize(
    ("starts", "column", "told"),
    [
        ([0, 3, 1, 4], 0, "fall at 2"),
        ([0, 1, 2, 5], 0, "start 5 is out"),
        ([-1, 1, 2, 4], 0, "start -1 is out"),
        ([0, 1, 2, 4], 3, "column 3 is out"),
        ([0, 1, 2, 4], -1, "column -1 is out"),
    ],
)
def test_what_is_out_of_range_is_told(starts: Any, column: int, told: str) -> None:
    data, columns = np.ones(4), np.array([0, 1, 2, column])
    x = np.ones((3, 2))
    ops = [
        (CSRMatMul(3), [data, columns, starts, x]),
        (CSRMatMul(3, True), [data, columns, starts, x]),
        (CSRDots(), [columns, starts, x, x]),
    ]
    if column == 0:
        ops.append((SegmentSum(), [starts, np.ones((4, 2))]))
    for op, arrays in ops:
        y = op(*[constant_node(np.asarray(a)) for a in arrays])
        with td.options(engine="native"), pytest.raises(RunError, match=told):
            y.numpy()


def kernel() -> Any:
    (op, arrays), *_ = applied(6, 5, (70,))
    (step,) = kernels_of(program_of(op(*[constant_node(a) for a in arrays])))
    return bound(step.kernel, step.integers)


def test_bounds_are_filled_again_and_shared_by_all_sizes() -> None:
    made = {parameterize(kernel())[0] for _ in range(3)}
    assert len(made) == 1


def test_wrong_bounds_are_told() -> None:
    right = kernel()
    assert kernel_problems(right) == []
    (inner,) = [s for s in statements(right.body) if isinstance(s, Loop) and s.bounds]
    lanes = next(s for s in statements(right.body) if isinstance(s, Loop) and s.lanes)

    def told(**changed: Any) -> str:
        own = replace(inner, **changed)
        around = replace(lanes, body=(own, *lanes.body[1:]))
        body = (replace(right.body[0], body=(around,)),)
        return " ".join(kernel_problems(right.with_body(body)))

    name, end = inner.axis.name, Index.of(lanes.axis)
    assert f"loop {name} ends elsewhere in each lane" in told(stop=(end,))
    assert "axis z is used outside of its loop" in told(
        start=Index.of(LoopAxis("z", 4))
    )
    outer = replace(right.body[0], stop=(Index.of(3),))
    found = kernel_problems(right.with_body((outer,)))
    assert f"parallel loop {outer.axis.name} is bounded" in found


@pytest.mark.parametrize("width", [(), (3,), (70,)])
@pytest.mark.parametrize("threads", [1, 2])
def test_operands_that_die_are_not_written_over_too_soon(
    width: Any, threads: int
) -> None:
    rng = np.random.default_rng(7)
    n = 50  # rows, columns and elements: all results are as large as their operands
    starts = np.r_[0, np.sort(rng.integers(0, n + 1, n - 1)), n]
    columns = rng.integers(0, n, n)
    data = rng.normal(size=n).astype(np.float32)
    x = rng.normal(size=(n, *width)).astype(np.float32)
    whole = np.zeros((n, n))
    np.add.at(whole, (np.repeat(np.arange(n), np.diff(starts)), columns), np.tanh(data))
    sums = np.stack([np.tanh(x)[i:j].sum(0) for i, j in itertools.pairwise(starts)])
    with td.options(engine="native", threads=threads):
        d, y = td.tanh(td.asarray(data)), td.tanh(td.asarray(x))
        found = [
            td.sin(td.segment_sum(y, starts)).numpy(),
            td.sin(td.csr_matmul(d, columns, starts, y)).numpy(),
            td.sin(td.CSR(d, columns, starts, (n, n)).T @ y).numpy(),
        ]
    wants = sums, whole @ np.tanh(x), whole.T @ np.tanh(x)
    for got, want in zip(found, wants, strict=True):
        np.testing.assert_allclose(got, np.sin(want), atol=1e-5)
