"""Special values: ops at zeros, infinities, NaN and the ends of their types."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import treadle as td
from tests.ops.samples import samples_of
from tests.ops.test_contract import OPS
from treadle.base.dtypes import ALL, HALF, KINDS, bfloat16, kind
from treadle.base.errors import DTypeError
from treadle.graph.leaves import constant_node
from treadle.graph.meaning import compute
from treadle.graph.tolerance import difference
from treadle.ops.align import binary
from treadle.ops.families import Elementwise

REAL = tuple(d for d in ALL if kind(d) != "complex")
SCALARS = [
    pytest.param(op, id=f"{name}-{k}")
    for name, cls in OPS.items()
    if issubclass(cls, Elementwise)
    for k, op in enumerate(dict.fromkeys(s.op for s in samples_of(cls)))
]
WAYS = ("native", "reference", "function", "rows")


def ends(dtype: Any) -> Any:
    """What an op may get wrong: the ends of a type, and what lies beside its steps."""
    if kind(dtype) == "bool":
        return np.array([False, True])
    if kind(dtype) == "integer":
        limits, bits = np.iinfo(dtype), 8 * dtype.itemsize
        near = (0, 1, 2, 3, 7, bits - 1, bits, bits + 1, limits.max - 1, limits.max)
        least = (limits.min, limits.min + 1, -1, -2, -3, -7, -bits)
        return np.array([*near, *(least if limits.min else ())], dtype)
    limits = ml_dtypes.finfo(dtype)
    sizes = (0, 1, 0.5, 1.5, 2, 2.5, 3, 0.1, 10, 100, limits.max, limits.tiny)
    sizes = (*sizes, limits.smallest_subnormal, np.inf)
    both = [sign * float(size) for size in sizes for sign in (1, -1)]
    return np.array([*both, np.nan, 1 + float(limits.eps)]).astype(dtype)


def operands(op: Any, count: int, dtype: Any) -> list[Any]:
    """Every value beside every other; a truth where the op takes one."""
    values = ends(dtype)[:: 1 if count < 3 else 3]
    arrays = [a.reshape(-1) for a in np.meshgrid(*[values] * count)]
    for k in op.mixed:
        arrays[k] = np.arange(arrays[k].size) % 2 == 0
    return arrays


def wrong(got: Any, want: Any, tolerance: str) -> str:
    """How values differ, signs of zeros included."""
    found = difference(got, want, tolerance, 4)
    if found or want.dtype.kind not in "fV":
        return found
    zero = (got == 0) & (want == 0)
    signs = [np.signbit(x.astype(np.float64)) for x in (got, want)]
    return "zeros have other signs" if (zero & (signs[0] != signs[1])).any() else ""


@pytest.mark.parametrize("op", SCALARS)
def test_a_scalar_op_keeps_to_numpy_at_the_ends_of_every_type(op: Any) -> None:
    count = len(next(s for s in samples_of(type(op)) if s.op == op).inputs)
    dtypes = [d for d in REAL if kind(d) in KINDS[op.takes]]
    each = [operands(op, count, dtype) for dtype in dtypes]
    for dtype, arrays in zip(dtypes, each, strict=True):
        if op.name == "Pow" and dtype.kind == "i":
            arrays[1] = np.abs(arrays[1] % 7)
    ys = [op(*[constant_node(a) for a in arrays]) for arrays in each]
    with td.options(engine="native"):
        values = td.evaluate(ys)  # one program for all dtypes
    for dtype, arrays, y, value in zip(dtypes, each, ys, values, strict=True):
        want = compute(op, y.type, arrays)
        assert not wrong(value, want, op.traits.tolerance), dtype


@pytest.mark.parametrize(
    "op", [p for p in SCALARS if "float" not in KINDS[p.values[0].takes]]
)
def test_an_op_on_bits_or_truths_refuses_floats(op: Any) -> None:
    count = len(samples_of(type(op))[0].inputs)
    for dtype in (d for d in ALL if d.kind in "fVc"):
        x = td.zeros((2,), dtype=dtype)
        with pytest.raises(DTypeError, match=dtype.name):
            binary(op, x, x) if count == 2 else op(*[x] * count)


# -- casts -----------------------------------------------------------------------------


def crossing(dtype: Any) -> Any:
    """Values around the ends of all integer types, beside those of their own."""
    if dtype.kind not in "fV":
        return ends(dtype)
    powers = [s * 2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1)]
    near = [p + d for p in powers for d in (-1, -0.5, 0, 0.5, 1)]
    with np.errstate(over="ignore"):
        return np.concatenate([ends(dtype), np.array([*near, 1e30]).astype(dtype)])


def saturated(x: Any, dtype: Any) -> Any:
    """A float as Python counts it, brought to what an integer type holds."""
    limits = np.iinfo(dtype)
    if np.isnan(x):
        return 0
    if np.isinf(x):
        return limits.max if x > 0 else limits.min
    return min(max(int(x), int(limits.min)), int(limits.max))


@pytest.mark.parametrize("source", REAL, ids=str)
def test_a_cast_gives_the_same_everywhere(source: Any) -> None:
    x, targets = crossing(source), [d for d in REAL if d != source]
    ways = [_casts(x, targets, way) for way in WAYS]
    for target, *values in zip(targets, *ways, strict=True):
        want = None
        if source.kind in "fV" and target.kind in "iu":
            wide = x.astype(np.float64)
            want = np.array([saturated(v, target) for v in wide], target)
        for way, got in zip(WAYS, values, strict=True):
            want = got if want is None else want
            assert not difference(got, want, "E"), (target, way)
        with np.errstate(over="ignore"):
            assert not difference(td.asarray(x, target).numpy(), want, "E"), target


def _casts(x: Any, dtypes: Any, way: str) -> Any:
    """Casts to several dtypes, by one program."""

    def cast(dtype: Any) -> Any:
        if way == "function":
            return td.function(lambda v: td.astype(v, dtype))(td.asarray(x))
        if way == "rows":  # among others, as part of a larger kernel
            both = td.asarray(np.stack([x, x]))
            rows = [td.astype(td.where(v == v, v, v), dtype) for v in both]
            return td.stack(rows)[1]
        return td.astype(td.asarray(x), dtype)

    with td.options(engine="reference" if way == "reference" else "native"):
        return td.evaluate([cast(dtype) for dtype in dtypes])


# -- comparisons -----------------------------------------------------------------------

RELATIONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")


def large(dtype: Any) -> Any:
    """The ends of a type, with integers that narrower floats round."""
    more = [2**11 + 1, 2**24, 2**24 + 1, 2**53, 2**53 + 1, 2**63]
    if kind(dtype) == "integer":
        more = [n for n in more if n <= np.iinfo(dtype).max]
    with np.errstate(over="ignore"):
        own = np.array(more, np.uint64 if dtype.kind == "u" else None).astype(dtype)
    return ends(dtype) if kind(dtype) == "bool" else np.concatenate([ends(dtype), own])


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("first", REAL, ids=str)
def test_comparisons_are_as_exact_as_numpys(first: Any, engine: str) -> None:
    x = large(first)[:, None]
    pairs = [(name, second) for second in REAL for name in RELATIONS]
    with td.options(engine=engine):
        got = td.evaluate(
            [getattr(td, n)(x, large(second)[None]) for n, second in pairs]
        )
    for (name, second), value in zip(pairs, got, strict=True):
        both = x, large(second)[None]
        plain = [v.astype(np.float32) if v.dtype == bfloat16 else v for v in both]
        want = getattr(np, name)(*plain)
        np.testing.assert_array_equal(value, want, f"{name} {second}")


NUMBERS = (0, -1, 127, 256, 2**31, 2**53 + 1, 2**63, 2**64, 2.5, 2.0000000001, 2.0**24)


@pytest.mark.parametrize("dtype", [d for d in REAL if kind(d) == "integer"], ids=str)
def test_a_number_beside_integers_is_compared_as_it_is(dtype: Any) -> None:
    x = large(dtype)
    numbers = (*NUMBERS, np.nan, np.inf)
    sides = [xs for number in numbers for xs in ((x, number), (number, x))]
    calls = [(name, *xs) for name in RELATIONS for xs in sides]
    got = td.evaluate([getattr(td, name)(*xs) for name, *xs in calls])
    for (name, *xs), value in zip(calls, got, strict=True):
        np.testing.assert_array_equal(value, getattr(np, name)(*xs), f"{name} {xs}")


def test_a_number_of_numpys_that_does_not_fit_is_refused() -> None:
    x = td.asarray(np.array([1, 2], np.uint8))
    with pytest.raises(DTypeError, match="300 does not fit into uint8"):
        x + np.int64(300)
    assert (x < np.int64(300)).tolist() == [True, True]


# -- sums ------------------------------------------------------------------------------

FOLDS = {
    "sum": lambda m, x, **o: m.sum(x, 0, **o),
    "prod": lambda m, x, **o: m.prod(x, 0, **o),
    "cumulative_sum": lambda m, x, **o: m.cumulative_sum(x, axis=0, **o),
    "cumulative_prod": lambda m, x, **o: m.cumulative_prod(x, axis=0, **o),
    "trace": lambda m, x, **o: m.trace(x, **o),
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("way", WAYS)
def test_sums_of_small_integers_are_taken_in_64_bits(name: str, way: str) -> None:
    fold: Any = FOLDS[name]
    cases: list[tuple[Any, Any, dict[str, Any]]] = []  # operand, dtype of the fold
    for dtype in (d for d in REAL if kind(d) in ("bool", "integer")):
        x = np.full((3, 3), 1 if kind(dtype) == "bool" else 100).astype(dtype)
        cases.append((x, np.dtype("uint64" if dtype.kind == "u" else "int64"), {}))
        for own in (dtype, np.dtype(np.float64)):
            if kind(own) != "bool":
                cases.append((x, own, {"dtype": own}))
    with td.options(engine="reference" if way == "reference" else "native"):
        values = td.evaluate([_folded(fold, x, way, **o) for x, _, o in cases])
    for (x, dtype, options), got in zip(cases, values, strict=True):
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, fold(np, x, **options))
    for dtype in (*HALF, np.dtype(np.float32)):
        assert fold(td, td.ones((2, 2), dtype=dtype)).dtype == dtype


def _folded(fold: Any, x: Any, way: str, **options: Any) -> Any:
    if way == "function":
        return td.function(lambda v: fold(td, v, **options))(td.asarray(x))
    if way == "rows":
        return td.stack([fold(td, td.asarray(v), **options) for v in (x + 0, x)])[1]
    return fold(td, td.asarray(x), **options)


# -- NaN and infinities in folds and orders --------------------------------------------

ROWS = (
    [1.0, np.nan, 3.0, 2.0],
    [np.nan, 1.0, 2.0, np.nan],
    [1.0, np.inf, np.nan, -np.inf],
    [np.nan] * 4,
    [3.0, 1.0, 2.0, 3.0],
)


def greatest(x: Any) -> Any:
    """A row's order from the greatest on, which NaN is; equals keep theirs."""
    return np.array(sorted(range(len(x)), key=lambda k: (x[k] == x[k], -x[k])))


ORDERS: dict[str, tuple[Any, Any]] = {
    "sort": (td.sort, np.sort),
    "argsort": (td.argsort, lambda x: np.argsort(x, kind="stable")),
    "falling": (lambda x: td.sort(x, descending=True), lambda x: x[greatest(x)]),
    "argfalling": (lambda x: td.argsort(x, descending=True), greatest),
    "top_k": (lambda x: td.top_k(x, 2)[0], lambda x: x[greatest(x)][:2]),
    "top_k places": (lambda x: td.top_k(x, 2)[1], lambda x: greatest(x)[:2]),
    "max": (td.max, np.max),
    "min": (td.min, np.min),
    "argmax": (td.argmax, np.argmax),
    "argmin": (td.argmin, np.argmin),
    "median": (td.median, np.median),
    "quantile": (
        lambda x: td.quantile(x, 0.3, method="nearest"),
        lambda x: np.quantile(x, 0.3, method="nearest"),
    ),
    "kth_value": (lambda x: td.kth_value(x, 2), lambda x: np.sort(x)[2]),
    "cumulative_max": (td.cumulative_max, np.maximum.accumulate),
    "max_pool": (
        lambda x: td.max_pool(td.reshape(x, (1, 1, 4)), 2)[0, 0],
        lambda x: np.max(x.reshape(2, 2), 1),
    ),
    "kmax_pool": (
        lambda x: td.kmax_pool(x, 2),
        lambda x: x[np.sort(greatest(x)[:2])],
    ),
    "searchsorted": (
        lambda x: td.searchsorted(td.sort(x), x),
        lambda x: np.searchsorted(np.sort(x), x),
    ),
    "normalize": (td.normalize, lambda x: np.full(4, np.nan)),
    "clip_by_norm": (lambda x: td.clip_by_norm(x, 1.0), lambda x: np.full(4, np.nan)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ORDERS)
def test_nan_has_one_place(name: str, way: str) -> None:
    f, numpy = ORDERS[name]
    finite = name not in ("normalize", "clip_by_norm")
    rows = [row for row in ROWS if finite or np.isnan(row).any()]
    cases = list(itertools.product(rows, (*HALF, np.float32, np.float64)))
    call = td.function(lambda v: f(v))
    ys = []
    with td.options(engine="reference" if way == "reference" else "native"):
        for row, dtype in cases:
            leaf = td.asarray(np.array(row).astype(dtype))
            if way == "function":
                ys.append(call(leaf))
            elif way == "rows":
                ys.append(td.stack([f(leaf + 0), f(leaf)])[1])
            else:
                ys.append(f(leaf))
        values = td.evaluate(ys)
    for (row, _), got in zip(cases, values, strict=True):
        want = numpy(np.array(row))
        np.testing.assert_array_equal(got.astype(np.asarray(want).dtype), want)


INFINITE = {
    (np.inf, 1.0): (1.0, 0.0),
    (1.0, np.inf): (0.0, 1.0),
    (np.inf, np.inf): (0.5, 0.5),
    (np.inf, -np.inf): (1.0, 0.0),
    (-np.inf, 1.0): (0.0, 1.0),
}
LOGSUMS: dict[str, Any] = {
    "logsumexp": td.logsumexp,
    "logaddexp": lambda x: td.logaddexp(x[0], x[1]),
    "cumulative_logsumexp": lambda x: td.cumulative_logsumexp(x)[1],
    "written": lambda x: td.log(td.sum(td.exp(x))),
}


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("name", LOGSUMS)
def test_an_infinite_logarithm_has_a_derivative(name: str, engine: str) -> None:
    f = LOGSUMS[name]
    with td.options(engine=engine):
        for values, want in INFINITE.items():
            x = td.asarray(values)
            y = f(x)
            (gradient,) = td.grad(y, [x])
            assert gradient.tolist() == list(want)
            assert float(y) == pytest.approx(max(values))
        x = td.asarray([-np.inf, -np.inf])
        (gradient,) = td.grad(f(x), [x])
        assert np.isfinite(gradient.numpy()).all()


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("extreme", [td.maximum, td.minimum])
def test_a_nan_has_the_derivative_of_an_extreme(extreme: Any, engine: str) -> None:
    x = td.param("x", init=[np.nan, 0.0, np.nan, 2.0])
    y = td.param("y", init=[0.0, np.nan, np.nan, 2.0])
    with td.options(engine=engine):
        gx, gy = td.grad(extreme(x, y).sum(), [x, y])
        assert gx.tolist() == [1.0] * 4 and gy.tolist() == [1.0, 1.0, 1.0, 0.0]


# -- types that share no exact one -----------------------------------------------------


@pytest.mark.parametrize("engine", ["native", "reference"])
def test_membership_among_integers_of_any_type_is_exact(engine: str) -> None:
    """Also where only float64, which rounds them, is a common type."""
    integers = [d for d in REAL if kind(d) == "integer"]
    pairs = list(itertools.product(integers, repeat=2))
    with td.options(engine=engine):
        values = td.evaluate([td.isin(ends(a), ends(b)) for a, b in pairs])
    for (a, b), got in zip(pairs, values, strict=True):
        among = set(ends(b).tolist())
        assert got.tolist() == [v in among for v in ends(a).tolist()], (a, b)


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize("dtype", [d for d in REAL if kind(d) == "float"], ids=str)
def test_the_next_float_is_one_of_its_type(dtype: Any, engine: str) -> None:
    x, y = (a.reshape(-1) for a in np.meshgrid(ends(dtype), ends(dtype)))
    with td.options(engine=engine):
        got = td.nextafter(x, y).numpy()
    with np.errstate(over="ignore"):
        want = np.nextafter(x, y)
    np.testing.assert_array_equal(got.astype(float), want.astype(float))


@pytest.mark.parametrize("order", [-1, 161, 2**40])
def test_orders_without_a_factorial_are_refused(order: int) -> None:
    with pytest.raises(td.ArgumentError, match="from 0 to 160"):
        td.polygamma(order, 1.0)
