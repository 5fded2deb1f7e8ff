"""Generated matrix products against NumPy in double precision, by a-priori bounds."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
from collections.abc import Sequence
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.numerics import unit
from treadle.base.dtypes import bfloat16
from treadle.base.symbolic import SymbolicTrace, compiled
from treadle.engines.native.codegen.builder import Builder, Value
from treadle.engines.native.codegen.contraction import (
    Epilogue,
    MatmulPlan,
    Site,
    plan_matmul,
    store,
)
from treadle.engines.native.codegen.contraction.blocking import Blocking, choose
from treadle.engines.native.codegen.contraction.kernel import FIELDS
from treadle.engines.native.codegen.contraction.machine import Machine, machine
from treadle.engines.native.codegen.texts import (
    ENTRIES,
    TABLES,
    FunctionChoice,
    place_of,
)

Array = np.ndarray[Any, Any]
DTYPES = {"float": np.float32, "double": np.float64}
SOURCES = DTYPES | {"half": np.float16, "bfloat": bfloat16, "int8": np.int8}
MACHINES = [machine(), Machine(32, 16, True), Machine(16, 16, False)]


class Compiler:
    """Machine code of texts, each compiled once."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        target = llvm.Target.from_default_triple().create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=llvm.get_host_cpu_features().flatten(),
            opt=1,
        )
        self.engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target)
        self.known: dict[str, int] = {}
        self.tables: dict[str, Array] = {}

    def address(self, name: str, text: str) -> int:
        if name not in self.known:
            for table in TABLES.findall(text.encode()):
                if table.decode() not in self.tables:
                    entries = self.tables[table.decode()] = np.zeros(ENTRIES, np.int64)
                    llvm.add_symbol(table.decode(), entries.ctypes.data)
            self.engine.add_module(llvm.parse_assembly(text))
            self.engine.finalize_object()
            self.known[name] = self.engine.get_function_address(name)
            if place := place_of(text):
                table, index = place
                self.tables[table][index] = self.known[name]
        return self.known[name]


COMPILER = Compiler()


def run(
    plan: MatmulPlan,
    a: int,
    b: int,
    c: int,
    pointers: tuple[int, ...] = (),
    integers: tuple[int, ...] = (),
    cuts: tuple[int, ...] = (),
    only: int | None = None,
) -> None:
    """Run a plan on addresses, its work items cut at `cuts`, by different workers, or
    by that one `only`."""
    workers = len(cuts) + 1
    memory = np.full(plan.scratch * workers + 128, 0xA5, np.uint8)
    scratch = memory.ctypes.data + -memory.ctypes.data % 64
    first, second = (b, a) if plan.swapped else (a, b)
    functions = [COMPILER.address(f.name, f.text) for f in plan.functions]
    for f in plan.parts:
        COMPILER.address(f.name, f.text)
    table = [first, second, c, scratch, *functions]
    args = np.array([*table, *plan.arguments, *pointers, *integers], np.int64)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    call = kind(COMPILER.address(plan.name, plan.text))
    edges = [0, *cuts, plan.total]
    for worker in reversed(range(workers)) if only is None else [only]:
        call(args.ctypes.data, edges[worker], edges[worker + 1], worker)
    assert (memory[memory.size - 64 :] == 0xA5).all(), "scratch overrun"


def strided(
    random: np.random.Generator, shape: tuple[int, int, int], layout: str, dtype: Any
) -> Array:
    """A random array inside a larger one of sentinels, its axes in a given order."""
    order = {"row": (0, 1, 2), "column": (0, 2, 1), "general": (1, 2, 0)}[layout]
    step = 2 if layout == "general" else 1
    sizes = [(shape[axis] + 3) * step for axis in order]
    whole = np.full(sizes, 7.0, dtype)
    view = whole.transpose([order.index(axis) for axis in range(3)])
    cut = view[tuple(slice(1, 1 + n * step, step) for n in shape)]
    cut[...] = random.standard_normal(shape) * (40 if dtype == np.int8 else 1)
    return cut


def steps(x: Array) -> tuple[int, int, int]:
    first, second, third = (s // x.itemsize for s in x.strides)
    return first, second, third


def check(got: Array, a: Array, b: Array, c: Array | None = None) -> None:
    """Class R: |y - y64| <= 2 k u (|A||B| + |C|)."""
    wide = [x.astype(np.float64) for x in (a, b)]
    want = wide[0] @ wide[1]
    bound = np.abs(wide[0]) @ np.abs(wide[1])
    if c is not None:
        want = want + c
        bound = bound + np.abs(c)
    terms = a.shape[-1] + (c is not None)
    assert (np.abs(got - want) <= 2 * terms * unit(got.dtype) * bound).all()


def product(
    sizes: tuple[int, int, int, int],
    layouts: tuple[str, str, str] = ("row", "row", "row"),
    dtype: str = "float",
    target: Machine | None = None,
    blocking: Blocking | None = None,
    accumulate: bool = False,
    cut: bool = False,
    blas: bool | None = None,
    sources: tuple[str, str] | None = None,
) -> Array:
    """Plan, run and check one product; nothing outside of C may change."""
    batch, m, n, k = sizes
    random = np.random.default_rng(1)
    kind = DTYPES[dtype]
    lie = [SOURCES[x] for x in sources or (dtype, dtype)]
    a = strided(random, (batch, m, k), layouts[0], lie[0])
    b = strided(random, (batch, k, n), layouts[1], lie[1])
    c = strided(random, (batch, m, n), layouts[2], kind)
    whole = c
    while whole.base is not None:
        whole = whole.base
    before, old = whole.copy(), c.copy()
    plan = plan_matmul(
        batch, m, n, k, steps(a), steps(b), steps(c), dtype, None, accumulate, target,
        blocking, blas, sources,
    )  # fmt: skip
    assert not blas or not plan.functions, "OpenBLAS was not used"
    cuts = tuple(range(1, plan.total)) if cut else ()
    run(plan, a.ctypes.data, b.ctypes.data, c.ctypes.data, cuts=cuts)
    result = c.copy()
    check(result, a, b, old if accumulate else None)
    c[...] = old
    np.testing.assert_array_equal(whole, before)
    return result


SIZES = st.sampled_from([0, 1, 2, 3, 5, 8, 13, 16, 17, 31, 32, 33, 37, 64, 67, 100])
LAYOUTS = st.sampled_from(["row", "column", "general"])


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.tuples(st.integers(0, 3), SIZES, SIZES, SIZES),
    layouts=st.tuples(LAYOUTS, LAYOUTS, LAYOUTS),
    dtype=st.sampled_from(["float", "double"]),
    target=st.sampled_from(MACHINES),
    accumulate=st.booleans(),
)
def test_any_sizes_and_strides(
    sizes: tuple[int, int, int, int],
    layouts: tuple[str, str, str],
    dtype: str,
    target: Machine,
    accumulate: bool,
) -> None:
    product(sizes, layouts, dtype, target, accumulate=accumulate)


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 2), SIZES, SIZES, SIZES),
    layouts=st.tuples(LAYOUTS, LAYOUTS, LAYOUTS),
    blocks=st.tuples(st.integers(1, 5), st.integers(1, 70), st.integers(1, 70)),
    target=st.sampled_from(MACHINES),
    tiles=st.sampled_from(["tall", "flat", "dot", "row"]),
    packed=st.booleans(),
    held=st.booleans(),
    copied=st.booleans(),
    accumulate=st.booleans(),
)
def test_any_blocking_and_any_cut_give_the_same_sums(
    sizes: tuple[int, int, int, int],
    layouts: tuple[str, str, str],
    blocks: tuple[int, int, int],
    target: Machine,
    tiles: str,
    packed: bool,
    held: bool,
    copied: bool,
    accumulate: bool,
) -> None:
    own = Blocking(tiles, *blocks, packed, copied, held)
    given = sizes, layouts, "float", target, own, accumulate
    assert product(*given).tobytes() == product(*given, True).tobytes()


@pytest.mark.parametrize("target", MACHINES, ids=lambda x: f"vectors of {x.vector}")
def test_where_scratch_is_short_blocks_are_lower_and_sums_the_same(
    target: Machine,
) -> None:
    sizes = 1, 256, 256, 1024
    random = np.random.default_rng(2)
    a, b = (random.standard_normal((256, 1024)).astype(np.float32) for _ in "ab")

    def made(room: int) -> tuple[int, bytes]:
        along_k, c = (0, 1024, 1), np.zeros((256, 256), np.float32)
        plan = plan_matmul(
            *sizes,
            along_k,
            (0, 1, 1024),
            (0, 256, 1),
            target=target,
            blocking=Blocking(packed=True, copied=True),
            scratch_limit=room,
        )
        run(plan, a.ctypes.data, b.ctypes.data, c.ctypes.data)
        check(c, a, b.T)
        return plan.scratch, c.tobytes()

    natural, sums = made(0)
    least, lower = made(1)
    assert least < natural // 3
    assert lower == sums
    assert made(natural // 2)[0] <= natural // 2


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(st.integers(8, 70), st.integers(2, 130), st.integers(1, 1200)),
    along=st.booleans(),
    target=st.sampled_from(MACHINES),
    slices=st.sampled_from([2, 4, 8]),
    together=st.sampled_from([1, 2, 3, 8]),
)
def test_slices_of_rows_are_blocks_of_even_height_with_the_same_sums(
    sizes: tuple[int, int, int],
    along: bool,
    target: Machine,
    slices: int,
    together: int,
) -> None:
    m, n, k = sizes
    random = np.random.default_rng(4)
    a, b = (random.standard_normal(x).astype(np.float32) for x in ((m, k), (k, n)))
    right = (0, n, 1) if along else (0, 1, k)
    held = b if along else np.ascontiguousarray(b.T)

    def made(count: int) -> tuple[MatmulPlan, Array]:
        c = np.full((m, n), np.nan, np.float32)
        strides = (0, k, 1), right, (0, n, 1)
        plan = plan_matmul(1, m, n, k, *strides, target=target, slices=count)
        for part in range(0, count, together):  # some in a call
            parts = part, min(part + together, count)
            ends = [plan.total * x // count for x in parts]
            rows = np.full_like(c, np.nan)
            given = a.ctypes.data, held.ctypes.data, rows.ctypes.data
            run(plan, *given, cuts=tuple(ends), only=1)
            done = ~np.isnan(rows).any(axis=1)
            first, last = np.flatnonzero(done)[[0, -1]]
            if count > 1:
                height, more = divmod(m, count)
                assert first == part * height + min(part, more)
            c[first : last + 1] = rows[first : last + 1]
        return plan, c

    plan, cut = made(slices)
    assert plan.total == slices
    assert cut.tobytes() == made(1)[1].tobytes()


@pytest.mark.parametrize(("slices", "copies"), [(1, True), (2, False), (4, False)])
def test_slices_of_few_rows_read_weights_where_they_lie(
    slices: int, copies: bool
) -> None:
    strides = (0, 128, 1), (0, 512, 1), (0, 512, 1)
    plan = plan_matmul(1, 32, 512, 128, *strides, target=MACHINES[1], slices=slices)
    packed = plan.arguments[FIELDS.index("packed")]
    assert (packed == 2) == copies
    assert plan.arguments[FIELDS.index("joined")] == (slices > 1)


@pytest.mark.parametrize(
    ("rows", "columns", "target", "terms"),
    [(16, 1024, 1, 256), (16, 1000, 1, 512), (64, 1024, 1, 1024), (2, 1024, 1, 1024),
     (16, 1024, 2, 512)],
)  # fmt: skip
def test_blocks_of_terms_have_places_in_a_cache(
    rows: int, columns: int, target: int, terms: int
) -> None:
    sizes, strides = (1, rows, columns, 1024), ((1024, 1), (columns, 1))
    assert choose(MACHINES[target], 4, sizes, *strides).block_k == terms


@settings(max_examples=100, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 2), st.just(1), st.integers(0, 1100), SIZES),
    layouts=st.tuples(LAYOUTS, st.just("row"), LAYOUTS),
    dtype=st.sampled_from(["float", "double"]),
    target=st.sampled_from(MACHINES),
    accumulate=st.booleans(),
)
def test_one_row(
    sizes: tuple[int, int, int, int],
    layouts: tuple[str, str, str],
    dtype: str,
    target: Machine,
    accumulate: bool,
) -> None:
    given = sizes, layouts, dtype, target, None, accumulate
    assert product(*given).tobytes() == product(*given, True).tobytes()


NARROW = st.sampled_from(["float", "half", "bfloat", "int8"])


@settings(max_examples=150, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 2), SIZES, SIZES, SIZES),
    layouts=st.tuples(st.sampled_from(["row", "column"]), LAYOUTS, LAYOUTS),
    sources=st.tuples(NARROW, NARROW),
    blocks=st.tuples(st.integers(1, 5), st.integers(1, 70), st.integers(1, 70)),
    target=st.sampled_from(MACHINES),
    tiles=st.sampled_from(["tall", "flat", "dot", "row", None]),
    packed=st.booleans(),
)
def test_narrow_operands_give_the_bits_of_their_floats(
    sizes: tuple[int, int, int, int],
    layouts: tuple[str, str, str],
    sources: tuple[str, str],
    blocks: tuple[int, int, int],
    target: Machine,
    tiles: str | None,
    packed: bool,
) -> None:
    if layouts[1] == "general":  # a transposed product takes it for A
        sources = sources[0], "float"
    own = None if tiles is None else Blocking(tiles, *blocks, packed)
    narrow, parts = (
        product(sizes, layouts, target=target, blocking=own, cut=cut, sources=sources)
        for cut in (False, True)
    )
    assert narrow.tobytes() == parts.tobytes()
    random = np.random.default_rng(1)
    batch, m, n, k = sizes
    shapes = (batch, m, k), (batch, k, n), (batch, m, n)
    a, b, c = [
        strided(random, shape, layout, SOURCES[x])
        for shape, layout, x in zip(shapes, layouts, (*sources, "float"), strict=True)
    ]
    wide = [widened_like(x) for x in (a, b)]
    plan = plan_matmul(
        *sizes, steps(a), steps(b), steps(c), target=target, blocking=own
    )
    run(plan, *[x.ctypes.data for x in (*wide, c)])
    assert narrow.tobytes() == c.tobytes()


@pytest.mark.parametrize("source", ["half", "bfloat", "int8"])
@pytest.mark.parametrize("rows", [1, 3])
def test_sums_along_narrow_operands_are_grouped_as_those_of_floats(
    rows: int, source: str
) -> None:
    """Vectors after the last whole line of memory were summed by themselves."""
    check = test_narrow_operands_give_the_bits_of_their_floats.hypothesis.inner_test  # type: ignore[attr-defined]
    for target in MACHINES:
        for k in (15, 31, 47, 130, 2100):
            given = (1, rows, 5, k), ("row", "column", "column"), (source, "float")
            check(*given, (1, 1, 1), target, "dot", False)


def widened_like(x: Array) -> Array:
    """x as float32, with the strides of x in elements."""
    span = 1 + sum((n - 1) * s for n, s in zip(x.shape, steps(x), strict=True))
    flat = np.zeros(max(span, 1), np.float32)
    strides = [4 * s for s in steps(x)]
    found = np.lib.stride_tricks.as_strided(flat, x.shape, strides)
    found[...] = x
    return found


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(
    "layouts", list(itertools.product(["row", "column"], repeat=3))
)
def test_products_by_openblas(
    layouts: tuple[str, str, str], accumulate: bool, dtype: str
) -> None:
    pytest.importorskip("scipy_openblas64")
    for sizes in [(2, 37, 45, 70), (1, 700, 600, 3)]:
        product(sizes, layouts, dtype, accumulate=accumulate, cut=True, blas=True)


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize(
    "layouts", list(itertools.product(["row", "column"], repeat=3))
)
def test_a_plan_for_symbolic_sizes_is_the_one_made_anew(
    layouts: tuple[str, str, str], target: Machine
) -> None:
    """Or it is none, where other sizes take other code."""
    every = [(1, 64, 100, 128), (1, 2, 100, 128), (1, 700, 100, 128), (1, 3, 9, 2000),
             (1, 64, 2, 128), (4, 64, 100, 128), (1, 2000, 700, 900),
             (1, 8, 96, 128), (1, 16, 100, 128)]  # fmt: skip

    def planned(sizes: Sequence[Any]) -> MatmulPlan:
        m, n, k = sizes[1:]
        shapes = (m, k), (k, n), (m, n)
        strides: list[Any] = [
            (x * y, y, 1) if layout == "row" else (x * y, 1, x)
            for (x, y), layout in zip(shapes, layouts, strict=True)
        ]
        return plan_matmul(*sizes, *strides, target=target)  # type: ignore[arg-type]

    served = 0
    for batch, *sizes in every:
        trace = SymbolicTrace(sizes)
        plan = planned([batch, *trace.symbols])
        wanted = [*plan.arguments, plan.total, plan.grain, plan.scratch]
        tiles = plan.functions[0]
        count = len(wanted)
        if isinstance(tiles, FunctionChoice):
            wanted.append(tiles.number)
        trace.open = False
        numbers = compiled(trace, wanted)
        assert numbers(sizes) is not None
        for other, *others in every:
            found = numbers(others) if other == batch else None
            if found is not None:
                own = planned([other, *others])
                more = [*own.arguments, own.total, own.grain, own.scratch]
                assert found[:count] == more
                functions = plan.functions
                if isinstance(tiles, FunctionChoice):
                    functions = tiles.functions[found[count]], *functions[1:]
                same = plan.name, plan.text, functions, plan.swapped
                assert same == (own.name, own.text, own.functions, own.swapped)
                served += 1
    assert served > 3 * len(every)


@pytest.mark.parametrize("k", [64, 128, 192])
def test_a_product_of_a_loop_s_step_is_cut_into_equal_shares(k: int) -> None:
    # Of three parts one thread would do two, of one part all.
    for target in MACHINES:
        cut = choose(target, 4, (1, 32, 512, k), (k, 1), (512, 1))
        assert 512 % (2 * cut.block_n) == 0 and cut.block_n < 512


def at_the_edge(values: Array) -> Array:
    """A copy of an array that ends where memory does: what follows is forbidden."""
    page = mmap.PAGESIZE
    size = -(-values.nbytes // page) * page
    memory = mmap.mmap(-1, size + page)
    place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None).mprotect
    assert protect(ctypes.c_void_p(place + size), ctypes.c_size_t(page), 0) == 0
    count = values.size
    flat = np.frombuffer(memory, values.dtype, count, size - values.nbytes)
    flat[:] = values.reshape(-1)
    return flat.reshape(values.shape)


@pytest.mark.skipif(sys.platform != "linux", reason="mprotect of Linux")
@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize(
    "sizes", [(1, 37, 45, 70), (2, 3, 67, 65), (1, 17, 5, 100), (2, 1, 67, 43)]
)
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
@pytest.mark.parametrize("source", ["float", "half", "bfloat", "int8"])
def test_nothing_past_the_end_is_read_or_written(
    target: Machine,
    sizes: tuple[int, int, int, int],
    flip_a: bool,
    flip_b: bool,
    source: str,
) -> None:
    batch, m, n, k = sizes
    random = np.random.default_rng(3)
    shapes = [(batch, *((k, m) if flip_a else (m, k)))]
    shapes += [(batch, *((n, k) if flip_b else (k, n))), (batch, m, n)]
    kinds = SOURCES[source], SOURCES[source], np.float32
    a, b, c = (
        at_the_edge((random.standard_normal(shape) * 9).astype(kind))
        for shape, kind in zip(shapes, kinds, strict=True)
    )
    a, b = (
        (a.transpose(0, 2, 1) if flip_a else a),
        b.transpose(0, 2, 1) if flip_b else b,
    )
    for tiles in ("tall", "flat", "dot", "row"):
        cut = Blocking(tiles, 1, 64, 40, ahead=True, far=True)
        plan = plan_matmul(
            *sizes, steps(a), steps(b), steps(c), target=target, blocking=cut,
            sources=(source, source),
        )  # fmt: skip
        run(plan, a.ctypes.data, b.ctypes.data, c.ctypes.data)
        check(c, a, b)


def test_the_machine_is_narrowed_by_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TREADLE_CPU", "generic")
    assert machine().vector == 16
    row = (0, 8, 1)
    names = [plan_matmul(1, 8, 8, 8, row, row, row).functions[0].name]
    monkeypatch.delenv("TREADLE_CPU")
    names.append(plan_matmul(1, 8, 8, 8, row, row, row).functions[0].name)
    assert machine().vector == 16 or names[0] != names[1]


def relu_with_bias(b: Builder, x: Value, site: Site) -> None:
    """max(x + bias[column], 0) + batch, stored to C and, negated, to a second array."""
    count = int(x.type[1:].split()[0])
    at = b.offset(site.pointers[0], site.column, "float")
    bias = b.masked_load(x.type, at, site.mask) if site.mask else b.load(x.type, at)
    y = b.intrinsic("maximum", b.fadd(x, bias), b.constant(x.type, 0))
    y = b.fadd(y, b.splat(b.convert("sitofp", site.batch, "float"), count))
    store(b, y, site)
    row = b.add(b.mul(site.batch, site.integers[1]), site.row)
    place = b.add(b.mul(row, site.integers[0]), site.column)
    other = b.offset(site.pointers[1], place, "float")
    store(b, b.fneg(y), Site(**{**vars(site), "c": other, "step": None}))


@pytest.mark.parametrize("sizes", [(2, 37, 45, 700), (1, 1, 3, 5), (3, 16, 64, 1)])
@pytest.mark.parametrize("layout", ["row", "column", "general"])
def test_an_epilogue_gets_every_finished_vector_once(
    sizes: tuple[int, int, int, int], layout: str
) -> None:
    batch, m, n, k = sizes
    random = np.random.default_rng(2)
    a = strided(random, (batch, m, k), "row", np.float32)
    b = strided(random, (batch, k, n), "column", np.float32)
    c = strided(random, (batch, m, n), layout, np.float32)
    bias = random.standard_normal(n).astype(np.float32)
    other = np.full((batch, m, n), 7, np.float32)
    epilogue = Epilogue("relu with bias", relu_with_bias, 2, 2)
    plan = plan_matmul(batch, m, n, k, steps(a), steps(b), steps(c), "float", epilogue)
    run(
        plan, a.ctypes.data, b.ctypes.data, c.ctypes.data,
        (bias.ctypes.data, other.ctypes.data), (n, m),
    )  # fmt: skip
    wide = [x.astype(np.float64) for x in (a, b)]
    number = np.arange(batch)[:, None, None]
    want = np.maximum(wide[0] @ wide[1] + bias, 0) + number
    bound = np.abs(wide[0]) @ np.abs(wide[1]) + np.abs(bias) + number
    assert (np.abs(c - want) <= 2 * (k + 2) * unit(np.float32) * bound).all()
    np.testing.assert_array_equal(other, -c)


def test_rows_from_memory_that_begin_off_sixteen_bytes_are_copied() -> None:
    m, n, k = 1002, 9, 2700  # 10.8 MB

    def copied(m: int, k: int, a: tuple[int, int]) -> bool:
        return choose(machine(), 4, (1, m, n, k), a, (n, 1)).copied

    assert copied(m, k, (1, m))
    assert not copied(1000, k, (1, 1000))  # on sixteen bytes
    assert not copied(m, k, (k, 1))  # consecutive along k
    assert not copied(m, k // 9, (1, m))  # in a near cache
    product((1, m, n, k), ("column", "row", "row"), "float")


def test_a_kernel_holds_structure_but_no_sizes() -> None:
    names = set()
    for m, n, k in [(64, 64, 64), (100, 1024, 6272), (37, 10, 1)]:
        plan = plan_matmul(1, m, n, k, (0, k, 1), (0, n, 1), (0, n, 1))
        names.add((plan.name, *(f.name for f in plan.functions)))
    assert len(names) == 1
