"""Discrete Fourier transforms along one dimension, by NumPy's pocketfft.

With w = exp(-2 pi i / n): y[k] = sum over j of x[j] w^(j k), and the inverse with the
conjugate of w. `norm` tells what a sum is divided by: "backward" the inverse's by n,
"forward" the other's by n, "ortho" both by the root of n.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import COMPLEX, complex_of, real_of
from treadle.base.errors import DTypeError, ShapeError
from treadle.base.symbolic import array_of
from treadle.base.types import Type, normalize_axis
from treadle.graph.leaves import constant_node
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.operators import functions
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.families import Opaque

# Of a transform with one, its adjoint has the other.
ADJOINT = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


class AlongOne(Opaque):
    """A transform along `axis`."""

    __slots__ = ()
    arity = 1
    rows = along_axes
    axis: int
    norm: str

    def extent(self, t: Type) -> int:
        """The extent along the axis; nothing has no transform."""
        n = t.shape[normalize_axis(self.axis, t.ndim)]
        if n < 1:
            raise ShapeError(f"{t} has no elements along axis {self.axis}")
        return n


def resized(t: Type, axis: int, n: int, dtype: Any) -> Type:
    """The type with another extent along an axis."""
    shape = (*t.shape[:axis], n, *t.shape[axis + 1 :])
    return Type(shape, dtype, t.axes)


@op(linear=True)
class Fourier(AlongOne):
    """The discrete Fourier transform of complex numbers, or its inverse."""

    axis: int
    inverse: bool = False
    norm: str = "backward"

    def infer(self, t: Type) -> Type:
        self.extent(t)
        if t.dtype not in COMPLEX:
            raise DTypeError(f"{t} is not complex")
        return t

    def numpy(self, x: Any) -> Array:
        transform: Any = np.fft.ifft if self.inverse else np.fft.fft
        return transform(x, axis=self.axis, norm=self.norm).astype(x.dtype)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (Fourier(self.axis, not self.inverse, ADJOINT[self.norm])(g),)


def _weights(t: Type, axis: int, n: int, inner: float) -> Tensor:
    """1 for the frequencies that stand for themselves, `inner` for those that stand for
    their conjugates too, shaped to meet t.
    """
    size = t.shape[axis]
    w = constant_node(array_of(_alone, (size,), size, n % 2, inner, t.dtype))
    return functions.reshape(w, [size if k == axis else 1 for k in range(t.ndim)])


def _alone(size: int, odd: int, inner: float, dtype: Any) -> Array:
    w = np.full(size, inner, dtype)
    w[0] = 1
    if not odd:
        w[-1] = 1
    return w


@op(linear=True)
class RealFourier(AlongOne):
    """The n / 2 + 1 frequencies from 0 up of the transform of n real numbers."""

    axis: int
    norm: str = "backward"
    takes = "float"

    def infer(self, t: Type) -> Type:
        n = self.extent(t)
        axis = normalize_axis(self.axis, t.ndim)
        return resized(t, axis, n // 2 + 1, complex_of(t.dtype))

    def numpy(self, x: Any) -> Array:
        transform: Any = np.fft.rfft
        y: Array = transform(x, axis=self.axis, norm=self.norm)
        return y.astype(complex_of(x.dtype))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        n = xs[0].type.shape[self.axis]
        halves = g * _weights(g.type, self.axis, n, 0.5)
        return (InverseRealFourier(self.axis, n, ADJOINT[self.norm])(halves),)


@op(linear=True)
class InverseRealFourier(AlongOne):
    """The `n` real numbers whose transform begins with these n / 2 + 1 frequencies."""

    axis: int
    n: int
    norm: str = "backward"

    def infer(self, t: Type) -> Type:
        m = self.extent(t)
        if t.dtype not in COMPLEX:
            raise DTypeError(f"{t} is not complex")
        if self.n // 2 + 1 != m:
            raise ShapeError(f"{self.n} real numbers have {self.n // 2 + 1}, not {m}")
        return resized(t, normalize_axis(self.axis, t.ndim), self.n, real_of(t.dtype))

    def numpy(self, x: Any) -> Array:
        transform: Any = np.fft.irfft
        y: Array = transform(x, self.n, axis=self.axis, norm=self.norm)
        return y.astype(real_of(x.dtype))

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        spectrum = RealFourier(self.axis, ADJOINT[self.norm])(g)
        return (spectrum * _weights(spectrum.type, self.axis, self.n, 2.0),)
