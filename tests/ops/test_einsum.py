"""Products against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle as td
from treadle.base.errors import AxisError, TreadleError

RNG = np.random.default_rng(0)
SPECS: list[tuple[Any, ...]] = [
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,jk->ki", (2, 3), (3, 4)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("iiii->i", (2, 2, 2, 2)),
    ("iji->j", (3, 2, 3)),
    ("ij->", (2, 3)),
    ("ba", (2, 3)),
    ("i,j", (2,), (3,)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,kl->", (2, 3), (4, 5)),
    ("...ij,...jk->...ik", (6, 2, 3), (1, 3, 4)),
    ("...ij,...jk->...ik", (5, 1, 2, 3), (6, 3, 4)),
    ("...i->...", (2, 3, 4)),
    ("i...,i...->...", (3, 2), (3, 2)),
    ("...,...->...", (), (2,)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("a,a,a->a", (3,), (3,), (3,)),
    ("a,ab,abc->abc", (2,), (2, 3), (2, 3, 4)),
    ("ea,fb,abcd,gc,hd->efgh", (2, 3), (2, 4), (3, 4, 2, 3), (2, 2), (3, 3)),
    ("ij,k->i", (2, 3), (4,)),
    ("Ab,bC", (2, 3), (3, 2)),
    ("ij,jk->ik", (2, 0), (0, 3)),
]


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_einsum_is_numpys(spec: tuple[Any, ...]) -> None:
    xs = [RNG.standard_normal(shape) for shape in spec[1:]]
    got = td.einsum(spec[0], *xs).numpy()
    want = np.einsum(spec[0], *xs)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("tensordot", ((2, 3, 4), (3, 4, 5))),
        ("kron", ((2, 3), (4, 5))),
        ("kron", ((3,), (2, 2))),
        ("outer", ((3,), (4,))),
        ("inner", ((2, 3), (4, 3))),
        ("dot", ((2, 3), (5, 3, 4))),
        ("dot", ((2, 3), (3,))),
        ("trace", ((3, 4),)),
        ("matmul", ((4, 1, 2, 3), (5, 3, 2))),
        ("matmul", ((3,), (5, 3, 2))),
    ],
)
def test_products_are_numpys(name: str, shapes: Any) -> None:
    xs = [RNG.standard_normal(shape) for shape in shapes]
    want = getattr(np, name)(*xs)
    np.testing.assert_allclose(getattr(td, name)(*xs).numpy(), want, rtol=1e-12)


@pytest.mark.parametrize("offset", range(-4, 6))
def test_diagonals_are_numpys(offset: int) -> None:
    x = RNG.standard_normal((2, 3, 4))
    got = td.diagonal(x, offset).numpy()
    assert np.array_equal(got, np.diagonal(x, offset, 1, 2))


def test_circular_products_are_those_of_the_fourier_transform() -> None:
    x, y = RNG.standard_normal((2, 7)), RNG.standard_normal(7)
    fx, fy = np.fft.fft(x), np.fft.fft(y)
    found = td.circular_convolution(x, y).numpy()
    np.testing.assert_allclose(found, np.fft.ifft(fx * fy).real, atol=1e-12)
    found = td.circular_correlation(x, y).numpy()
    np.testing.assert_allclose(found, np.fft.ifft(np.conj(fx) * fy).real, atol=1e-12)


def test_named_products_meet_by_name() -> None:
    x = td.asarray(np.ones((2, 3)), axes=("batch", "feature"))
    w = td.asarray(np.ones((3, 4)), axes=("feature", "hidden"))
    assert (x @ w).axes == ("batch", "hidden")
    assert td.dot(w, x).axes == ("hidden", "batch")
    gx, gw = td.grad(((x @ w) * 2.0).sum(), [x, w])
    assert gx.axes == x.axes and gw.axes == w.axes
    with pytest.raises(AxisError, match=r"td\.dot"):
        x @ x
    with pytest.raises(AxisError, match="name_axes"):
        x @ np.ones((3, 4))


@pytest.mark.parametrize(
    ("spec", "count"),
    [("ij,jk", 1), ("ij,jk->iz", 2), ("ij,jk->ii", 2), ("i,jk", 2), ("i+,jk", 2)],
)
def test_a_wrong_spec_is_refused(spec: str, count: int) -> None:
    with pytest.raises(TreadleError):
        td.einsum(spec, *[np.ones((2, 2))] * count)


def test_contractions_of_three_dimensions_take_stacks() -> None:
    x, y = RNG.standard_normal((5, 2, 3, 4)), RNG.standard_normal((5, 4))
    z, b = RNG.standard_normal(3), RNG.standard_normal(2)
    want = np.einsum("bijk,bk->bij", x, y)
    np.testing.assert_allclose(td.contract3d(x, y).numpy(), want)
    found = td.contract3d(x, y, z, b).numpy()
    np.testing.assert_allclose(found, want @ z + b)
    np.testing.assert_allclose(td.contract3d(x[0], y[0], z).numpy(), want[0] @ z)


def test_a_diagonal_keeps_the_names_of_what_is_in_front() -> None:
    x = td.asarray(np.ones((2, 3, 3)), axes=("n", "i", "j"))
    assert td.diagonal(x).axes == ("n", None)
    assert td.linalg.diagonal is td.diagonal


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ("ij,jk->ik", ((2, 1), (3, 4))),
        ("ij,ij->ij", ((1, 3), (2, 1))),
        ("ij,ij", ((1, 3), (2, 3))),
        ("i,i->", ((1,), (4,))),
        ("bij,bjk->bik", ((1, 2, 3), (5, 3, 1))),
        ("ab,ab,a->b", ((3, 1), (1, 4), (1,))),
        ("ii,i->i", ((3, 3), (1,))),
    ],
)
def test_extents_of_one_broadcast_as_in_numpy(spec: str, shapes: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in shapes]
    xs = [td.Parameter(x) for x in arrays]
    y = td.einsum(spec, *xs)
    np.testing.assert_allclose(y.numpy(), np.einsum(spec, *arrays), rtol=1e-12)
    for x, g in zip(arrays, td.grad((y * y).sum(), xs), strict=True):
        assert g.shape == x.shape
    td.check_gradient(lambda *xs: (td.einsum(spec, *xs) ** 2).sum(), arrays)
