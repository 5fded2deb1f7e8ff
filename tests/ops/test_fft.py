"""Fourier transforms: values as NumPy's, derivatives as differences."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import treadle as td

RNG = np.random.default_rng(0)
NORMS = ("backward", "ortho", "forward")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
MANY = ("fftn", "ifftn", "rfftn", "irfftn")
REAL = ("rfft", "ihfft", "rfftn")  # take real numbers


def drawn(name: str, shape: tuple[int, ...]) -> Any:
    x = RNG.normal(size=shape)
    return x if name in REAL else x + 1j * RNG.normal(size=shape)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("norm", NORMS)
def test_transforms_along_one_dimension_are_numpys(name: str, norm: str) -> None:
    for n, axis in itertools.product((None, 1, 4, 7, 9), (0, 1, -1)):
        x = drawn(name, (6, 7))
        y = getattr(td.fft, name)(x, n=n, axis=axis, norm=norm).numpy()
        wanted = getattr(np.fft, name)(x, n=n, axis=axis, norm=norm)
        assert y.dtype == wanted.dtype
        np.testing.assert_allclose(y, wanted, atol=1e-12)


@pytest.mark.parametrize("name", MANY)
@pytest.mark.parametrize("norm", NORMS)
def test_transforms_along_several_dimensions_are_numpys(name: str, norm: str) -> None:
    for s, axes in ((None, None), (None, (2, 0)), ((4, 3), (0, 1)), ((3, 6), (1, 2))):
        x = drawn(name, (3, 4, 5))
        y = getattr(td.fft, name)(x, s=s, axes=axes, norm=norm).numpy()
        wanted = getattr(np.fft, name)(x, s=s, axes=axes, norm=norm)
        np.testing.assert_allclose(y, wanted, atol=1e-12)


def test_narrow_floats_and_integers_become_complex64() -> None:
    for dtype in ("float16", "bfloat16", "float32", "int8", "bool"):
        x = td.ones(4).astype(dtype)
        assert td.fft.fft(x).dtype == td.fft.rfft(x).dtype == td.complex64
    assert td.fft.irfft(td.ones(3)).dtype == td.float32
    assert td.fft.fft(td.ones(3, "float64")).dtype == td.complex128


def test_shifts_and_frequencies_are_numpys() -> None:
    x = RNG.normal(size=(4, 5))
    for axes in (None, 0, (1,), (0, 1)):
        for name in ("fftshift", "ifftshift"):
            found = getattr(td.fft, name)(x, axes=axes).numpy()
            assert np.array_equal(found, getattr(np.fft, name)(x, axes=axes))
    for n in (1, 4, 5):
        for name in ("fftfreq", "rfftfreq"):
            found = getattr(td.fft, name)(n, d=0.5, dtype="float64").numpy()
            assert np.array_equal(found, getattr(np.fft, name)(n, 0.5))


@pytest.mark.parametrize("name", (*ONE, *MANY))
@pytest.mark.parametrize("norm", NORMS)
def test_derivatives_are_adjoints(name: str, norm: str) -> None:
    transform = getattr(td.fft, name)
    for n in (4, 5):
        x = drawn(name, (n, n))
        p = td.Parameter(x)
        y = transform(p, norm=norm)
        w = RNG.normal(size=y.shape) + 1j * RNG.normal(size=y.shape)

        def loss(v: Any, w: Any = w) -> Any:
            y = transform(v, norm=norm)
            return (
                td.real(td.sum(y * td.asarray(w).astype(y.dtype)))
                if (y.dtype.kind == "c")
                else td.sum(y * w.real)
            )

        (g,) = td.grad(loss(p), [p])
        d = drawn(name, x.shape)
        slope = (float(loss(x + 1e-5 * d)) - float(loss(x - 1e-5 * d))) / 2e-5
        along = float(np.real(np.sum(np.conj(g.numpy()) * d)))
        assert along == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_rows_of_transforms_are_transforms() -> None:
    x = td.asarray(RNG.normal(size=(3, 6)))
    found = td.vmap(lambda row: td.abs(td.fft.rfft(row)))(x)
    wanted = np.abs(np.fft.rfft(x.numpy()))
    np.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)


def test_mistakes_are_refused() -> None:
    x = td.ones((2, 3))
    for error, call, said in (
        (td.ArgumentError, lambda: td.fft.fft(x, norm="whole"), "norm is one of"),
        (td.ArgumentError, lambda: td.fft.fft(x, n=0), "from 1 on"),
        (td.AxisError, lambda: td.fft.fft(x, axis=2), "out of range"),
        (td.DTypeError, lambda: td.fft.rfft(x + 1j), "takes real numbers"),
        (td.ShapeError, lambda: td.fft.irfft(td.ones(1)), "give n"),
        (td.ShapeError, lambda: td.fft.fft(td.zeros((2, 0))), "no elements"),
        (td.ArgumentError, lambda: td.fft.fftn(x, s=(2,), axes=(0, 1)), "1 lengths"),
        (td.ShapeError, lambda: td.fft.rfftn(1.0), "no dimension"),
        (td.ArgumentError, lambda: td.fft.fftfreq(-1), "from 1 on"),
    ):
        with pytest.raises(error, match=said):
            call()
