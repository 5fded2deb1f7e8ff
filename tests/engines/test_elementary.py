"""Generated elementary functions: errors, special cases, the same bits in all lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.accuracy import (
    DTYPES,
    REFERENCES,
    TWO,
    Worst,
    errors,
    over_arrays,
    source,
    sweep,
)
from treadle.engines.native.codegen.builder import F32, F64, Builder, vector
from treadle.engines.native.codegen.elementary import FUNCTIONS, ULPS
from treadle.engines.native.codegen.jit import assembly, compile_functions
from treadle.engines.native.system.host import host

Array = np.ndarray[Any, Any]
UNARY = [op for op in FUNCTIONS if op not in TWO]
BOTH = [(op, kind) for op in FUNCTIONS for kind in (F32, F64)]
WIDE = {F32: 64, F64: 16}  # lanes: several registers
STRIDE = 16381  # of float32 by bits: 2**18 points
POINTS = 1 << 13
LONG = np.longdouble
INFINITY = float("inf")
wide_long = pytest.mark.skipif(
    np.finfo(LONG).nmant < 60, reason="long double is no wider than double here"
)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> dict[str, int]:
    """All loops of these tests, compiled together on all cores."""
    texts = [source(op, kind, n) for op, kind in BOTH for n in (0, 3, WIDE[kind])]
    return compile_functions(dict(texts))


def spread(kind: str, seed: int) -> Array:
    """Floats of all magnitudes, and more of the usual ones."""
    random = np.random.default_rng(seed)
    dtype = DTYPES[kind]
    width = np.dtype(dtype).itemsize
    bits = random.integers(0, 1 << 8 * width, POINTS, dtype=np.uint64)
    powers = 2.0 ** random.integers(-52, 0, POINTS)
    return np.concatenate(
        [
            bits.astype(f"u{width}").view(dtype),
            random.uniform(-1, 1, POINTS).astype(dtype),
            random.uniform(0.5, 2, POINTS).astype(dtype),
            random.uniform(-30, 30, POINTS).astype(dtype),
            random.uniform(-750, 750, POINTS).astype(dtype),
            (1 + random.uniform(-1, 1, POINTS) * powers).astype(dtype),
        ]
    )


# -- references ------------------------------------------------------------------------


def long_erf(x: Array) -> tuple[Array, Array]:
    """erf and erfc of long doubles that were doubles.

    Below 2 by the series of positive terms, above by the continued fraction of erfc
    (Abramowitz and Stegun, 7.1.6 and 7.1.14).
    """
    a = np.minimum(np.abs(x), LONG(28))
    head = a.astype(np.float32).astype(LONG)  # its square is exact
    bell = np.exp(-head * head) * np.exp(-(a - head) * (a + head))
    small = np.minimum(a, 2)
    term = total = small
    for k in range(1, 60):
        term = term * (small * small * 2) / (2 * k + 1)
        total = total + term
    root = np.sqrt(np.arctan(LONG(1)) * 4)
    series = 2 / root * bell * total
    large, fraction = np.maximum(a, 2), np.zeros_like(a)
    for k in range(160, 0, -1):
        fraction = LONG(k) / 2 / (large + fraction)
    far = bell / root / (large + fraction)
    erf = np.where(a < 2, series, 1 - far)
    erfc = np.where(a < 2, 1 - erf, far)
    return np.copysign(erf, x), np.where(x < 0, 2 - erfc, erfc)


LONG_REFERENCES: dict[str, Callable[..., Array]] = REFERENCES | {
    "Erf": lambda x: long_erf(x)[0],
    "Erfc": lambda x: long_erf(x)[1],
}


def worst(op: str, kind: str, *arguments: Array) -> Worst:
    """The greatest error over these arguments, and where it is."""
    got = over_arrays(op, kind, WIDE[kind])(*arguments)
    with np.errstate(all="ignore"):
        want = LONG_REFERENCES[op](*(a.astype(LONG) for a in arguments))
    error = errors(got, want)
    k = int(np.argmax(error))
    return Worst(*(float(a[k]) for a in (error, arguments[0], got, want)))


# -- errors ----------------------------------------------------------------------------


@pytest.mark.parametrize("op", UNARY)
def test_bound_of_float32(op: str) -> None:
    found = sweep(op, STRIDE)
    assert found.error <= ULPS[op][F32], found


@wide_long
@pytest.mark.parametrize("op", UNARY)
def test_bound_of_float64(op: str) -> None:
    found = worst(op, F64, spread(F64, 1))
    assert found.error <= ULPS[op][F64], found


@wide_long
@pytest.mark.parametrize("op", ["Sin", "Cos", "Tan"])
def test_near_multiples_of_a_right_angle(op: str) -> None:
    random = np.random.default_rng(2)
    turns = np.exp(random.uniform(0, 700, 4000)).astype(LONG)
    near = (np.round(turns) * (np.arctan(LONG(1)) * 2)).astype(np.float64)
    # The float64 nearest to a multiple of pi / 2 (Muller et al., Handbook, 2010).
    x = np.append(near, 6381956970095103 * 2.0**797)
    assert worst(op, F64, x).error <= ULPS[op][F64]


@wide_long
@pytest.mark.parametrize("kind", [F32, F64])
def test_bound_of_powers(kind: str) -> None:
    random = np.random.default_rng(3)
    x = np.abs(spread(kind, 4))
    x = x[(x > 0) & (x < INFINITY) & (x != 1)]
    most = 104 if kind == F32 else 746
    y = random.uniform(-most, most, x.size) / np.log(x.astype(LONG))
    found = worst("Pow", kind, x, y.astype(DTYPES[kind]))
    assert found.error <= ULPS["Pow"][kind], found


@wide_long
@pytest.mark.parametrize("kind", [F32, F64])
def test_bound_of_angles(kind: str) -> None:
    y, x = spread(kind, 5), spread(kind, 6)
    random = np.random.default_rng(7)
    with np.errstate(all="ignore"):
        like_y = (y * np.exp(random.normal(size=y.size))).astype(y.dtype)
    for other in (x, like_y):
        found = worst("Atan2", kind, y, other)
        assert found.error <= ULPS["Atan2"][kind], found


# -- special cases ---------------------------------------------------------------------


def points(kind: str) -> Array:
    """Zeros, infinities, NaN, ends of the type and of domains, whole numbers."""
    limits = np.finfo(DTYPES[kind])
    least, tiny, most = limits.smallest_subnormal, limits.tiny, limits.max
    odd = 2.0**limits.nmant + 1
    values = [0, least, tiny, 1e-20, 0.5, 1, 1.5, 2, 3, 10, 104, 710, 746]
    values += [odd, 2 * odd, 1e30, most, INFINITY]
    one = np.asarray(1, DTYPES[kind])
    values += [np.nextafter(one, 0 * one), np.nextafter(one, 2 * one), np.nan]
    whole = np.array(values, DTYPES[kind])
    return np.concatenate([whole, -whole])


def special(x: Array) -> Array:
    return ~np.isfinite(x) | (x == 0)


@pytest.mark.parametrize(("op", "kind"), BOTH)
def test_special_cases_are_those_of_numpy(op: str, kind: str) -> None:
    x = points(kind)
    arguments = [v.reshape(-1) for v in np.meshgrid(x, x)] if op in TWO else [x]
    got = over_arrays(op, kind, WIDE[kind])(*arguments)
    with np.errstate(all="ignore"):
        want = REFERENCES[op](*arguments).astype(x.dtype)
    equal = (got == want) & (np.signbit(got) == np.signbit(want))
    equal |= np.isnan(got) & np.isnan(want)
    every = [*arguments, got, want]
    wrong = ~equal & np.any([special(a) for a in every], axis=0)
    assert not wrong.any(), [a[wrong] for a in every]


@pytest.mark.parametrize("kind", [F32, F64])
def test_exact_values(kind: str) -> None:
    def of(op: str, *values: float) -> float:
        arrays = [np.array([v], DTYPES[kind]) for v in values]
        return float(over_arrays(op, kind, 0)(*arrays)[0])

    assert of("Exp", 0) == of("Cos", 0) == of("Cosh", 0) == of("Erfc", 0) == 1
    assert of("Tanh", 30) == of("Erf", 7) == 1
    assert of("Expm1", -60) == -1
    assert [of("Log2", 2.0**k) for k in range(-40, 41)] == list(range(-40, 41))
    powers = [(3, 2, 9), (7, 5, 16807), (-2, 9, -512), (0.5, -4, 16), (9, 0.5, 3)]
    assert [of("Pow", x, y) for x, y, _ in powers] == [z for _, _, z in powers]


@pytest.mark.parametrize("op", ["Tanh", "Erf", "Sin", "Cos"])
def test_never_beyond_one(op: str) -> None:
    bits = np.arange(0, 1 << 32, STRIDE, dtype=np.uint64).astype(np.uint32)
    y = over_arrays(op, F32, WIDE[F32])(bits.view(np.float32))
    assert float(np.nanmax(np.abs(y))) <= 1


# -- code ------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "kind"), BOTH)
def test_bits_do_not_depend_on_lanes(op: str, kind: str) -> None:
    seeds = range(8, 9 + (op in TWO))
    ends = points(kind)
    arguments = [np.concatenate([spread(kind, k)[::7], ends]) for k in seeds]
    results = [over_arrays(op, kind, n)(*arguments) for n in (0, 3, WIDE[kind])]
    for other in results[1:]:
        nan = np.isnan(results[0]) & np.isnan(other)
        whole = f"u{other.itemsize}"
        assert np.all((results[0].view(whole) == other.view(whole)) | nan)


@settings(max_examples=40, deadline=None)
@given(
    op=st.sampled_from(sorted(FUNCTIONS)),
    kind=st.sampled_from([F32, F64]),
    lanes=st.integers(0, 80),
)
def test_type_of_the_operand(op: str, kind: str, lanes: int) -> None:
    whole = vector(kind, lanes)
    names = ["x", "y"][: 1 + (op in TWO)]
    b = Builder("f", [(n, whole) for n in names])
    assert FUNCTIONS[op](b, *(b.arguments[n] for n in names)).type == whole
    assert not any(line.strip().startswith("br ") for line in b.lines)


@pytest.mark.skipif(not host().has("fma"), reason="no fused multiply-add here")
@pytest.mark.parametrize(("op", "kind"), BOTH)
def test_no_calls(op: str, kind: str) -> None:
    _, text = source(op, kind, WIDE[kind])
    assert "call" not in assembly(text)
