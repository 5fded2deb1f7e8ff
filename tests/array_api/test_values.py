"""Dtypes and values that the array API standard prescribes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td

INF, NAN = float("inf"), float("nan")

# Function, operands, result; the sign of zeros counts.
SPECIAL: list[tuple[str, tuple[float, ...], float]] = [
    ("acos", (2.0,), NAN), ("acos", (1.0,), 0.0), ("acosh", (0.5,), NAN),
    ("acosh", (INF,), INF), ("asin", (-0.0,), -0.0), ("asinh", (-INF,), -INF),
    ("atan", (INF,), np.pi / 2), ("atanh", (-1.0,), -INF), ("atanh", (2.0,), NAN),
    ("atan2", (0.0, -0.0), np.pi), ("atan2", (-0.0, 0.0), -0.0),
    ("atan2", (1.0, -INF), np.pi), ("atan2", (INF, INF), np.pi / 4),
    ("ceil", (-0.5,), -0.0), ("floor", (-0.0,), -0.0), ("trunc", (-0.5,), -0.0),
    ("round", (0.5,), 0.0), ("round", (1.5,), 2.0), ("round", (-0.5,), -0.0),
    ("copysign", (1.0, -0.0), -1.0), ("copysign", (-INF, 1.0), INF),
    ("divide", (1.0, -0.0), -INF), ("divide", (0.0, 0.0), NAN),
    ("exp", (-INF,), 0.0), ("expm1", (-0.0,), -0.0), ("expm1", (-INF,), -1.0),
    ("hypot", (INF, NAN), INF), ("hypot", (NAN, 0.0), NAN),
    ("log", (0.0,), -INF), ("log", (-1.0,), NAN), ("log1p", (-1.0,), -INF),
    ("log1p", (-0.0,), -0.0), ("logaddexp", (NAN, 1.0), NAN),
    ("maximum", (NAN, 1.0), NAN), ("minimum", (1.0, NAN), NAN),
    ("multiply", (INF, 0.0), NAN), ("multiply", (-0.0, 3.0), -0.0),
    ("nextafter", (0.0, -0.0), -0.0), ("nextafter", (INF, INF), INF),
    ("nextafter", (NAN, 1.0), NAN), ("pow", (NAN, 0.0), 1.0),
    ("pow", (1.0, NAN), 1.0), ("pow", (-0.0, -1.0), -INF), ("pow", (-2.0, 0.5), NAN),
    ("reciprocal", (-0.0,), -INF), ("remainder", (-0.0, 3.0), 0.0),
    ("remainder", (5.0, -3.0), -1.0), ("remainder", (1.0, 0.0), NAN),
    ("sign", (NAN,), NAN), ("sign", (-0.0,), 0.0), ("sqrt", (-0.0,), -0.0),
    ("sqrt", (-1.0,), NAN), ("subtract", (INF, INF), NAN), ("tanh", (-INF,), -1.0),
    ("sin", (-0.0,), -0.0), ("sin", (INF,), NAN), ("tan", (INF,), NAN),
]  # fmt: skip


@pytest.mark.parametrize(("name", "xs", "wanted"), SPECIAL)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_special_values(
    name: str, xs: tuple[float, ...], wanted: float, dtype: str
) -> None:
    y = getattr(td, name)(*[td.asarray([x] * 5, dtype) for x in xs]).numpy()
    np.testing.assert_allclose(y, np.full(5, wanted, dtype), rtol=1e-6)
    if wanted == 0:
        assert np.array_equal(np.signbit(y), np.signbit(np.full(5, wanted)))


def test_results_of_functions_of_several_are_named() -> None:
    x = td.asarray([3.0, 1.0, 3.0])
    assert td.unique_all(x).inverse_indices.tolist() == [1, 0, 1]
    assert td.unique_counts(x).counts.tolist() == [1, 2]
    assert td.unique_inverse(x).values.tolist() == [1.0, 3.0]
    square = td.asarray([[2.0, 1.0], [1.0, 3.0]])
    assert td.linalg.eigh(square).eigenvalues.shape == (2,)
    assert td.linalg.eig(square).eigenvectors.dtype == td.complex64
    assert td.linalg.qr(square).R.shape == (2, 2)
    assert td.linalg.slogdet(square).logabsdet.shape == ()
    assert td.linalg.svd(square).Vh.shape == (2, 2)
    assert isinstance(td.unstack(x), tuple) and isinstance(td.meshgrid(x, x), tuple)


def test_what_is_made_has_the_dtype_that_is_said() -> None:
    x = td.asarray([[1, 2]], "int16", axes=("n", "c"))
    for made in (
        td.zeros_like(x),
        td.ones_like(x),
        td.empty_like(x),
        td.full_like(x, 7),
    ):
        assert made.type is x.type
    assert td.full_like(x, 7.5, dtype="float64").tolist() == [[7.5, 7.5]]
    assert td.linspace(0, 1, 3).dtype == td.float32
    assert td.linspace(0, 1j, 2).dtype == td.complex64
    assert td.linspace(1, 9, 4, dtype="int32", endpoint=False).tolist() == [1, 3, 5, 7]
    assert td.linspace(2, 3, 1).tolist() == [2.0] and td.linspace(2, 3, 0).shape == (0,)
    assert td.eye(2, 3, k=-1, dtype="int8").tolist() == [[0, 0, 0], [1, 0, 0]]
    with pytest.raises(td.ArgumentError, match="takes numbers"):
        td.linspace(td.ones(()), 2, 3)
    with pytest.raises(td.ArgumentError, match="no float32"):
        td.linspace(0, 1j, 3, dtype="float32")


def test_kinds_and_limits_of_dtypes() -> None:
    for dtype in ("float16", "float32", "float64"):
        known = np.finfo(dtype)
        limits = td.finfo(dtype)
        assert (limits.bits, limits.max, limits.eps) == (
            known.bits,
            float(known.max),
            float(known.eps),
        )
    assert td.finfo(td.zeros(2, "complex64")).dtype == td.float32
    assert td.finfo("bfloat16").smallest_normal == 2.0**-126
    assert td.iinfo(td.zeros(2, "uint16")).max == 65535
    assert td.isdtype("int8", "signed integer") and not td.isdtype("bool", "numeric")
    assert td.isdtype(td.complex64, ("integral", td.complex64))
    for wrong in (lambda: td.finfo("int8"), lambda: td.iinfo("bool")):
        with pytest.raises(td.DTypeError):
            wrong()
    with pytest.raises(td.ArgumentError, match="no kind"):
        td.isdtype("int8", "whole")
    assert td.result_type(td.int8, td.uint8) == td.int16
    assert td.result_type(td.zeros(2, "float64"), 1j) == td.complex128
    assert td.result_type(True, 2.0) == td.float32
    assert td.can_cast(td.zeros(1, "int8"), "float64") and not td.can_cast(
        "int8", "bool"
    )
    with pytest.raises(td.ArgumentError, match="one array"):
        td.result_type()


def test_membership_of_every_kind() -> None:
    rng = np.random.default_rng(0)
    for dtype in ("bool", "int8", "uint64", "float16", "float32", "complex64"):
        x = rng.integers(0, 4, (3, 5)).astype(dtype)
        y = rng.integers(0, 2, 3).astype(dtype)
        for invert in (False, True):
            found = td.isin(x, y, invert=invert).numpy()
            assert np.array_equal(found, np.isin(x, y, invert=invert)), dtype
    assert td.isin([NAN, 1.0], [NAN]).tolist() == [False, False]
    assert td.isin([1.0], td.zeros(0)).tolist() == [False]
    assert td.isin(2, [1, 2]).item() is True


def test_differences_and_scans_with_their_beginning() -> None:
    x = np.arange(12.0).reshape(3, 4) ** 2
    assert np.array_equal(td.diff(x, axis=0, n=2).numpy(), np.diff(x, 2, 0))
    joined = td.diff(x, prepend=x[:, :1], append=x[:, :2]).numpy()
    assert np.array_equal(joined, np.diff(x, prepend=x[:, :1], append=x[:, :2]))
    assert td.diff([True, True, False]).tolist() == [False, True]
    assert td.diff(x, n=0).numpy().shape == x.shape
    with pytest.raises(td.ArgumentError, match="whole number"):
        td.diff(x, n=-1)
    y = td.cumulative_sum(x, 1, include_initial=True).numpy()
    assert np.array_equal(y, np.cumulative_sum(x, axis=1, include_initial=True))
    back = td.cumulative_prod([2.0, 3.0], include_initial=True, reverse=True)
    assert back.tolist() == [6.0, 3.0, 1.0]
    for scan in (td.cumulative_sum, td.cumulative_prod):
        assert scan([2, 3], axis=None).tolist() == scan([2, 3]).tolist()
        with pytest.raises(td.AxisError, match="None"):
            scan(x, axis=None)
    assert td.searchsorted([3.0, 1.0], [2.0], sorter=[1, 0]).tolist() == [1]
    for half in (0.5, np.float32(0.5)):
        assert float(td.var([1.0, 3.0], correction=half)) == pytest.approx(2 / 1.5)
    assert float(td.var([1.0, 3.0], correction=np.float32(1))) == 2.0


def test_complete_bases() -> None:
    rng = np.random.default_rng(1)
    for shape in ((4, 2), (2, 4), (2, 5, 3)):
        x = td.asarray(rng.normal(size=shape), "float64")
        q, r = td.linalg.qr(x, mode="complete")
        assert q.shape[-1] == shape[-2] == r.shape[-2]
        np.testing.assert_allclose((q @ r).numpy(), x.numpy(), atol=1e-12)
        u, s, vh = td.linalg.svd(x)
        assert u.shape[-2:] == (shape[-2],) * 2 and vh.shape[-2:] == (shape[-1],) * 2
        one = (u @ td.matrix_transpose(u)).numpy()
        eye = np.broadcast_to(np.eye(shape[-2]), one.shape)
        np.testing.assert_allclose(one, eye, atol=1e-12)
        assert s.shape[-1] == min(shape[-2:])
    with pytest.raises(td.ArgumentError, match="'raw'"):
        td.linalg.qr(x, mode="raw")


def test_a_projection_on_the_complement_has_its_derivative() -> None:
    x = np.random.default_rng(2).normal(size=(4, 2))
    w = td.asarray(np.random.default_rng(3).normal(size=(4, 4)), "float64")

    def off(x: Any) -> Any:
        free = td.linalg.qr(x, mode="complete").Q[:, 2:]
        return (w * (free @ free.T)).sum()

    assert td.check_gradient(off, [x], order=2)


def test_indices_out_of_range_are_index_errors() -> None:
    with pytest.raises(IndexError):
        td.expand_dims(td.ones(2), 3)


@pytest.mark.parametrize(
    ("x", "wanted"),
    [
        (complex(INF, 0.0), complex(INF, 0.0)),
        (complex(-INF, INF), complex(-1.0, 0.0)),
        (complex(-INF, NAN), complex(-1.0, 0.0)),
        (complex(-0.0, 0.0), complex(0.0, 0.0)),
        (complex(1e-9, 0.0), complex(1e-9, 0.0)),
    ],
)
def test_complex_expm1_has_the_values_of_the_standard(x: complex, wanted: Any) -> None:
    y = td.expm1(td.asarray([x], "complex128")).numpy()[0]
    assert y.real == pytest.approx(wanted.real) and y.imag == wanted.imag
    assert not np.signbit(y.real) or wanted.real < 0


def test_a_truth_value_takes_all_or_nothing() -> None:
    for x in (td.asarray(3.0), td.ones((2, 3))):
        assert x[td.asarray(True)].shape == (1, *x.shape)
        assert x[np.asarray(False)].shape == (0, *x.shape)
    assert td.ones((3, 1))[td.asarray(np.zeros((3, 0), bool))].shape == (0,)
    with pytest.raises(IndexError):
        td.ones((3, 1))[td.asarray(np.zeros((2, 1), bool))]


def test_one_count_repeats_every_element() -> None:
    assert td.repeat([], [2]).shape == (0,)
    assert td.repeat([1.0, 2.0], [2]).tolist() == [1.0, 1.0, 2.0, 2.0]
