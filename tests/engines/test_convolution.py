"""Generated convolutions and their gradients against the NumPy rules of the ops."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.numerics import unit
from treadle.engines.native.codegen.builder import Builder, Value
from treadle.engines.native.codegen.contraction import Epilogue, Site, store
from treadle.engines.native.codegen.contraction.machine import Machine, machine
from treadle.engines.native.codegen.convolution import ConvPlan, Step, plan_convolution
from treadle.engines.native.codegen.jit import compile_functions
from treadle.ops.convolution import Conv, ConvInputGradient, ConvWeightGradient
from treadle.ops.window import windows_along
from treadle.program.convolution import Convolution

Array = np.ndarray[Any, Any]
MACHINES = [machine(), Machine(32, 16, True), Machine(16, 16, False)]
X_ORDERS = {"planes": (0, 1, 2, 3), "channels": (0, 2, 3, 1), "general": (3, 1, 0, 2)}
W_ORDERS = {"planes": (0, 1, 2, 3), "channels": (0, 2, 3, 1), "outputs": (2, 3, 1, 0)}
W_ORDERS["general"] = (1, 2, 0, 3)


@dataclass(frozen=True)
class Case:
    """A convolution by its sizes, and the layouts of its operands."""

    n: int
    c: int  # of a group, like o
    o: int
    extents: tuple[int, int]
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0))
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    layouts: tuple[str, str, str] = ("planes", "planes", "planes")
    dtype: str = "float"

    @property
    def fields(self) -> Any:
        """Those of the ops: how windows slide, and groups."""
        return self.stride, self.padding, self.dilation, self.groups

    @property
    def counts(self) -> Any:
        return windows_along(self.extents, self.kernel, *self.fields[:3])

    def arrays(self) -> dict[str, Array]:
        """Random x, w and y, each inside of memory that holds nothing but sevens."""
        random = np.random.default_rng(1)
        g = self.groups
        shapes = {
            "x": (self.n, self.c * g, *self.extents),
            "w": (self.o * g, self.c, *self.kernel),
            "y": (self.n, self.o * g, *self.counts),
        }
        found = {}
        for (name, shape), layout in zip(shapes.items(), self.layouts, strict=True):
            order = (W_ORDERS if name == "w" else X_ORDERS)[layout]
            step = 2 if layout == "general" else 1
            dtype = np.float32 if self.dtype == "float" else np.float64
            gap = 3 if layout == "general" else 0
            whole = np.full([shape[a] * step + gap for a in order], 7, dtype)
            view = whole.transpose([order.index(a) for a in range(4)])
            cut = view[tuple(slice(0, n * step, step) for n in shape)]
            cut[...] = random.standard_normal(shape)
            found[name] = cut
        return found

    def problem(self, arrays: dict[str, Array]) -> Convolution:
        x, w, y = (
            tuple(s // arrays[k].itemsize for s in arrays[k].strides) for k in "xwy"
        )
        return Convolution(
            self.n,
            self.c * self.groups,
            self.o * self.groups,
            self.groups,
            self.extents,
            self.kernel,
            self.counts,
            self.stride,
            self.padding,
            self.dilation,
            x,  # type: ignore[arg-type]
            w,  # type: ignore[arg-type]
            y,  # type: ignore[arg-type]
            self.dtype,
        )


def run(
    plan: ConvPlan,
    arrays: dict[str, Array],
    cut: bool = False,
    extra: tuple[Array, ...] = (),
    integers: tuple[int, ...] = (),
) -> None:
    """Run a plan in one go, or its work items one by one by two workers in turn."""
    texts = {s.name: s.text for s in plan.steps}
    texts |= {f.name: f.text for s in plan.steps for f in (*s.functions, *s.parts)}
    functions = compile_functions(texts)
    workspace = np.full(plan.workspace + 128, 0xA5, np.uint8)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 3)
    for step in plan.steps:
        memory = np.full(2 * step.scratch + 128, 0xA5, np.uint8)
        addresses = {k: a.ctypes.data for k, a in arrays.items()}
        addresses["workspace"] = workspace.ctypes.data + -workspace.ctypes.data % 64
        addresses["scratch"] = memory.ctypes.data + -memory.ctypes.data % 64
        args = np.array(list(_table(step, addresses, functions, extra, integers)))
        call = kind(functions[step.name])
        if not cut:
            call(args.ctypes.data, 0, step.total, 0)
        for item in reversed(range(step.total if cut else 0)):
            call(args.ctypes.data, item, item + 1, item % 2)
        assert (memory[memory.size - 64 :] == 0xA5).all(), "scratch overrun"
    assert (workspace[workspace.size - 64 :] == 0xA5).all(), "workspace overrun"


def _table(
    step: Step,
    addresses: dict[str, int],
    functions: dict[str, int],
    extra: tuple[Array, ...],
    integers: tuple[int, ...],
) -> Any:
    for pointer in step.pointers:
        yield addresses[pointer.name] + pointer.shift
    yield from (functions[f.name] for f in step.functions)
    yield from step.arguments
    if step.finishes:
        yield from (a.ctypes.data for a in extra)
        yield from integers


def check(case: Case, what: str, target: Machine | None = None) -> None:
    """Class R: |y - y64| <= 2 k u (|x| * |w|), and nothing around y is touched."""
    arrays = case.arrays()
    op: Any
    if what == "y":
        op, names = Conv(*case.fields), "xw"
        terms = case.c * case.kernel[0] * case.kernel[1]
    elif what == "x":
        op, names = ConvInputGradient(case.extents, *case.fields), "yw"
        terms = case.o * case.kernel[0] * case.kernel[1]
    else:
        op, names = ConvWeightGradient(case.kernel, *case.fields), "xy"
        terms = case.n * case.counts[0] * case.counts[1]
    wide = [arrays[k].astype(np.float64) for k in names]
    want, bound = op.numpy(*wide), op.numpy(*map(np.abs, wide))
    result = arrays[what]
    whole = result
    while whole.base is not None:
        whole = whole.base
    result[...] = np.nan
    before = whole.copy()
    problem = replace(case.problem(arrays), computes=what)
    plan = plan_convolution(problem, target=target)
    run(plan, arrays)
    got = result.copy()
    limit = 2 * max(terms, 1) * unit(got.dtype) * bound
    assert (np.abs(got - want) <= limit).all()
    result[...] = np.nan
    run(plan, arrays, cut=True)
    assert got.tobytes() == result.tobytes(), "sums depend on how work is cut"
    result[...] = np.nan
    np.testing.assert_array_equal(whole, before)


PAIRS = st.sampled_from([(0, 0), (1, 1), (2, 0), (0, 3), (2, 2)])
FEW = st.sampled_from([1, 2, 3])


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(
        st.integers(0, 3),
        st.sampled_from([0, 1, 2, 3, 5, 16, 37, 64]),
        st.sampled_from([0, 1, 2, 8, 16, 33, 37, 64]),
    ),
    extents=st.tuples(
        st.sampled_from([1, 2, 3, 5, 9, 20]), st.sampled_from([1, 4, 7, 8, 13, 17, 60])
    ),
    kernel=st.tuples(
        st.sampled_from([1, 1, 2, 3, 5]), st.sampled_from([1, 1, 2, 3, 7])
    ),
    sliding=st.tuples(
        st.tuples(FEW, FEW), st.tuples(PAIRS, PAIRS), st.tuples(FEW, FEW)
    ),
    groups=st.sampled_from([1, 1, 2, 3]),
    layouts=st.tuples(
        st.sampled_from(sorted(X_ORDERS)),
        st.sampled_from(sorted(W_ORDERS)),
        st.sampled_from(sorted(X_ORDERS)),
    ),
    dtype=st.sampled_from(["float", "double"]),
    target=st.sampled_from(MACHINES),
    what=st.sampled_from("xwy"),
)
def test_any_sizes_and_layouts(
    sizes: tuple[int, int, int],
    extents: tuple[int, int],
    kernel: tuple[int, int],
    sliding: Any,
    groups: int,
    layouts: tuple[str, str, str],
    dtype: str,
    target: Machine,
    what: str,
) -> None:
    for n, k, (low, high), d in zip(extents, kernel, *sliding[1:], strict=True):
        assume(n + low + high > d * (k - 1))
    n, c, o = sizes
    stride, padding, dilation = sliding
    sliding = {"stride": stride, "padding": padding, "dilation": dilation}
    case = Case(n, c, o, extents, kernel, groups=groups, layouts=layouts, **sliding)
    check(replace(case, dtype=dtype), what, target)


SAME = ((1, 1), (1, 1))
CASES = {
    "no images": Case(0, 16, 5, (3, 4), (1, 1), layouts=("channels",) * 3),
    "no images, three by three": Case(0, 16, 5, (3, 4), (3, 3), (1, 1), SAME),
    "large map": Case(1, 3, 40, (90, 300), (3, 3), (1, 1), SAME),
    "pixels as rows": Case(3, 64, 37, (30, 31), (1, 1)),
    "pixels as rows, channels last": Case(
        3, 64, 64, (30, 31), (1, 1), layouts=("channels", "planes", "channels")
    ),
    "few pixels": Case(7, 65, 37, (6, 7), (1, 1)),
    "few pixels of doubles": Case(5, 33, 19, (7, 7), (1, 1), dtype="double"),
    "many pixels across": Case(4, 1030, 20, (13, 15), (1, 1)),
    "channels a page apart": Case(3, 35, 20, (32, 64), (1, 1), (2, 2)),
    "one pixel in two": Case(2, 37, 70, (16, 17), (1, 1), (2, 2)),
    "one dimension": Case(2, 16, 16, (1, 900), (1, 9), padding=((0, 0), (8, 0))),
    "high and narrow": Case(2, 16, 16, (300, 2), (3, 2), padding=((1, 1), (0, 1))),
    "wide rows of channels": Case(1, 1024, 16, (3, 9), (3, 3), padding=SAME),
    "more zeros than rows": Case(2, 64, 16, (3, 5), (3, 3), padding=((3, 4), (1, 0))),
    "rows of zeros between": Case(
        2, 300, 33, (4, 6), (4, 3), (2, 1), ((3, 5), (1, 1)), (2, 1)
    ),
    "many channels": Case(5, 258, 33, (5, 5), (3, 3), padding=SAME),
    "one in three": Case(2, 5, 4, (11, 10), (2, 2), (3, 4), ((1, 0), (0, 2))),
    "depthwise": Case(2, 1, 1, (9, 9), (3, 3), (2, 1), SAME, groups=20),
    "depthwise, channels last": Case(
        2,
        1,
        1,
        (9, 30),
        (3, 5),
        dilation=(2, 2),
        groups=160,
        layouts=("channels", "outputs", "channels"),
    ),
    "depthwise, in place": Case(
        2, 1, 1, (9, 30), (2, 2), groups=48, layouts=("channels", "planes", "planes")
    ),
    "groups of few channels": Case(2, 4, 4, (9, 9), (3, 3), padding=SAME, groups=8),
    "no image": Case(0, 3, 4, (5, 5), (3, 3)),
}


@pytest.mark.parametrize("what", ["y", "x", "w"])
@pytest.mark.parametrize("name", CASES)
def test_shapes_that_are_cut_in_many_ways(name: str, what: str) -> None:
    check(CASES[name], what)


def relu_with_bias(b: Builder, x: Value, site: Site) -> None:
    """max(x + bias[channel], 0) + image to y; the pixel's number to a second array.

    Integers: 1 where columns of the product are channels, channels, pixels.
    """
    count = int(x.type[1:].split()[0])
    steps = b.sequence("i64", count)
    along = b.add(b.splat(site.column, count), steps)
    row = b.splat(site.row, count)
    outputs = b.compare("ne", site.integers[0], b.i64(0))
    outputs = b.splat(outputs, count)
    channel, pixel = b.select(outputs, along, row), b.select(outputs, row, along)
    mask = site.mask or b.constant(f"<{count} x i1>", 1)
    bias = b.gather(x.type, b.offset(site.pointers[0], channel, "float"), mask)
    y = b.intrinsic("maximum", b.fadd(x, bias), b.constant(x.type, 0))
    store(b, b.fadd(y, b.splat(b.convert("sitofp", site.batch, "float"), count)), site)
    place = b.mul(b.splat(site.batch, count), b.splat(site.integers[1], count))
    place = b.mul(b.add(place, channel), b.splat(site.integers[2], count))
    place = b.offset(site.pointers[1], b.add(place, pixel), "float")
    b.scatter(b.convert("sitofp", pixel, "float"), place, mask)


@pytest.mark.parametrize("y", ["planes", "channels", "general"])
@pytest.mark.parametrize("kernel", [(3, 3), (1, 1)])
@pytest.mark.parametrize("groups", [1, 2, 37])
def test_an_epilogue_gets_every_finished_vector_once(
    y: str, kernel: tuple[int, int], groups: int
) -> None:
    layouts = ("planes", "planes", y)
    c, o = (1, 1) if groups == 37 else (8, 37)
    case = Case(3, c, o, (6, 19), kernel, groups=groups, layouts=layouts)
    arrays = case.arrays()
    random = np.random.default_rng(2)
    bias = random.standard_normal(case.o * groups).astype(np.float32)
    numbers = np.full((3, case.o * groups, *case.counts), 7, np.float32)
    epilogue = Epilogue("test: relu with bias", relu_with_bias, 2, 3)
    problem = case.problem(arrays)
    plan = plan_convolution(problem, epilogue)
    pixels = int(np.prod(case.counts))
    integers = (int(problem.along == "outputs"), case.o * groups, pixels)
    run(plan, arrays, extra=(bias, numbers), integers=integers)
    op = Conv(*case.fields)
    wide = [arrays[k].astype(np.float64) for k in "xw"]
    shift, image = bias[:, None, None], np.arange(3)[:, None, None, None]
    want = np.maximum(op.numpy(*wide) + shift, 0) + image
    bound = op.numpy(*map(np.abs, wide)) + np.abs(shift) + image
    limit = 2 * (case.c * kernel[0] * kernel[1] + 2) * unit(np.float32) * bound
    assert (np.abs(arrays["y"] - want) <= limit).all()
    flat = np.arange(pixels, dtype=np.float32).reshape(case.counts)
    np.testing.assert_array_equal(numbers, np.broadcast_to(flat, numbers.shape))


def test_kernels_hold_structure_but_no_sizes() -> None:
    names = set()
    for n, c, o, extent in [(1, 8, 16, 20), (7, 64, 33, 31), (2, 128, 256, 14)]:
        case = Case(n, c, o, (extent, extent), (3, 3), padding=SAME)
        problem = case.problem(case.arrays())
        plans = [plan_convolution(replace(problem, computes=k)) for k in "ywx"]
        steps = [s for p in plans for s in p.steps]
        names.add(tuple((s.name, *(f.name for f in s.functions)) for s in steps))
    assert len(names) == 1


def test_zeros_of_padding_are_not_multiplied_by_what_was_there_before() -> None:
    """Scratch memory full of NaN must not reach results through padding."""
    case = Case(1, 20, 20, (7, 7), (3, 3), padding=((2, 2), (2, 2)))
    for what in "xyw":
        check(case, what)
