"""td.fft: discrete Fourier transforms, by the names of the array API standard.

Host ops: NumPy's pocketfft computes them, for any length, and their derivatives are
transforms. 16-bit floats become complex64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.base.devices import as_device
from treadle.base.dtypes import complex_of, kind
from treadle.base.errors import ArgumentError, DTypeError, ShapeError
from treadle.base.torch import missing
from treadle.base.types import as_integer, as_items, normalize_axes, resolve_axis
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.create import asked_dtype
from treadle.ops.elementwise import conj
from treadle.ops.fourier import ADJOINT, Fourier, InverseRealFourier, RealFourier

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]


def _norm(norm: Any, name: str) -> str:
    if norm not in ADJOINT:
        known = ", ".join(map(repr, ADJOINT))
        raise ArgumentError(f"norm is one of {known}, not {norm!r}").located(name)
    return str(norm)


def _length(n: Any, name: str) -> int:
    count = as_integer(n)
    if count is None or count < 1:
        raise ArgumentError(f"a length is a whole number from 1 on, not {n!r}").located(
            name
        )
    return count


def _complex(x: Any) -> Tensor:
    """The operand in a complex dtype."""
    node = as_float(x)
    return astype(node, complex_of(node.type.dtype))


def _real(x: Any, name: str) -> Tensor:
    """The operand in a real dtype that transforms know."""
    node = as_float(x)
    if kind(node.type.dtype) == "complex":
        raise DTypeError(
            f"{node.type} is complex, and {name} takes real numbers",
            hint=f"td.fft.{name.replace('rfft', 'fft').replace('ihfft', 'ifft')}",
        ).located(name)
    wide = complex_of(node.type.dtype).type(0).real.dtype
    return astype(node, wide)


def _fit(x: Tensor, axis: int, n: int) -> Tensor:
    """x cut to n elements along an axis, or with zeros behind."""
    extent = x.type.shape[axis]
    if extent > n:
        return x[(*(slice(None),) * axis, slice(n))]
    if extent == n:
        return x
    widths = [(0, n - extent if k == axis else 0) for k in range(x.type.ndim)]
    return functions.pad(x, widths)


def _along(x: Tensor, s: Any, axes: Any, name: str) -> list[tuple[int, int | None]]:
    """The dimensions to be transformed, and the lengths to which they are brought."""
    lengths = None if s is None else as_items(s)
    if s is not None and lengths is None:
        raise ArgumentError(f"s has a length for each axis, not {s!r}").located(name)
    if axes is None:
        count = x.type.ndim if lengths is None else len(lengths)
        axes = tuple(range(-count, 0))
    places = normalize_axes(axes, x.type)
    if lengths is None:
        return [(k, None) for k in places]
    if len(lengths) != len(places):
        raise ArgumentError(
            f"{len(lengths)} lengths for {len(places)} dimensions"
        ).located(name)
    targets = [
        x.type.shape[k] if n == -1 else _length(n, name)
        for k, n in zip(places, lengths, strict=True)
    ]
    return list(zip(places, targets, strict=True))


def _transform(x: Tensor, axis: int, n: int | None, inverse: bool, norm: str) -> Tensor:
    fitting = x if n is None else _fit(x, axis, n)
    return Fourier(axis, inverse, norm)(fitting)


def _along_one(x: Any, n: Any, axis: Any, norm: str, inverse: bool) -> Tensor:
    name = "ifft" if inverse else "fft"
    node = _complex(x)
    count = None if n is None else _length(n, name)
    place = resolve_axis(axis, node.type)
    return _transform(node, place, count, inverse, _norm(norm, name))


def fft(x: Any, *, n: Any = None, axis: Any = -1, norm: str = "backward") -> Tensor:
    """The discrete Fourier transform along `axis`, of n elements: complex.

    y[k] = sum over j of x[j] exp(-2 pi i j k / n). x is cut to n, or zeros follow it.
    `norm` is "backward" (undivided), "ortho" (by the root of n) or "forward" (by n).

    >>> td.fft.fft([1.0, 0.0, 0.0, 0.0]).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _along_one(x, n, axis, norm, False)


def ifft(x: Any, *, n: Any = None, axis: Any = -1, norm: str = "backward") -> Tensor:
    """The inverse of `fft`, which divides by n where that does not.

    >>> td.fft.ifft([4.0, 0.0, 0.0, 0.0]).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _along_one(x, n, axis, norm, True)


def fftn(x: Any, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The transform along several dimensions, all unless `axes` names some; `s` has the
    lengths to which they are brought.

    >>> td.fft.fftn([[1.0, 1.0], [1.0, 1.0]]).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    node = _complex(x)
    for axis, n in _along(node, s, axes, "fftn"):
        node = _transform(node, axis, n, False, _norm(norm, "fftn"))
    return node


def ifftn(x: Any, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """The inverse of `fftn`.

    >>> td.fft.ifftn([[4.0, 0.0], [0.0, 0.0]]).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    node = _complex(x)
    for axis, n in _along(node, s, axes, "ifftn"):
        node = _transform(node, axis, n, True, _norm(norm, "ifftn"))
    return node


def rfft(x: Any, *, n: Any = None, axis: Any = -1, norm: str = "backward") -> Tensor:
    """The n / 2 + 1 frequencies from 0 up of real x, as `fft` has them.

    >>> td.fft.rfft([1.0, 2.0, 3.0, 4.0]).tolist()
    [(10+0j), (-2+2j), (-2+0j)]
    """
    node = _real(x, "rfft")
    place = resolve_axis(axis, node.type)
    fitting = node if n is None else _fit(node, place, _length(n, "rfft"))
    return RealFourier(place, _norm(norm, "rfft"))(fitting)


def irfft(x: Any, *, n: Any = None, axis: Any = -1, norm: str = "backward") -> Tensor:
    """The n real numbers of which `rfft` makes x; of m frequencies 2 (m - 1) unless n
    is given.

    >>> td.fft.irfft([10.0 + 0j, -2 + 2j, -2.0 + 0j]).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return _inverse_real(_complex(x), n, axis, norm, "irfft")


def _inverse_real(x: Tensor, n: Any, axis: Any, norm: str, name: str) -> Tensor:
    place = resolve_axis(axis, x.type)
    extent = x.type.shape[place]
    if n is None and extent < 2:
        raise ShapeError(
            f"{extent} frequencies are those of 1 number at most", hint="give n"
        ).located(name, repr(x.type))
    count = 2 * (extent - 1) if n is None else _length(n, name)
    fitting = _fit(x, place, count // 2 + 1)
    return InverseRealFourier(place, count, _norm(norm, name))(fitting)


def rfftn(x: Any, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
    """`rfft` along the last of several dimensions, then `fft` along the others.

    >>> td.fft.rfftn([[1.0, 1.0], [1.0, 1.0]]).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    real = _real(x, "rfftn")
    *others, (last, n) = _dimensions(real, s, axes, "rfftn")
    node = rfft(real, n=n, axis=last, norm=norm)
    for axis, n in others:
        node = _transform(node, axis, n, False, norm)
    return node


def irfftn(
    x: Any, *, s: Any = None, axes: Any = None, norm: str = "backward"
) -> Tensor:
    """The inverse of `rfftn`; `s` has the lengths of the result.

    >>> td.fft.irfftn([[4.0, 0.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    node = _complex(x)
    *others, (last, n) = _dimensions(node, s, axes, "irfftn")
    for axis, count in others:
        node = _transform(node, axis, count, True, _norm(norm, "irfftn"))
    return _inverse_real(node, n, last, norm, "irfftn")


def _dimensions(x: Tensor, s: Any, axes: Any, name: str) -> Sequence[Any]:
    """The dimensions and lengths of `_along`, one at least."""
    along = _along(x, s, axes, name)
    if not along:
        raise ShapeError(f"{x.type} has no dimension to transform").located(name)
    return along


def hfft(x: Any, *, n: Any = None, axis: Any = -1, norm: str = "backward") -> Tensor:
    """The transform, which is real, of the Hermitian signal that begins with x.

    >>> td.fft.hfft([1.0 + 0j, 2.0 + 0j, 3.0 + 0j]).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    other = ADJOINT[_norm(norm, "hfft")]
    return _inverse_real(conj(_complex(x)), n, axis, other, "hfft")


def ihfft(x: Any, *, n: Any = None, axis: Any = -1, norm: str = "backward") -> Tensor:
    """The inverse of `hfft`: the first n / 2 + 1 elements of a Hermitian signal.

    >>> td.real(td.fft.ihfft([8.0, -2.0, 0.0, -2.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    other = ADJOINT[_norm(norm, "ihfft")]
    return conj(rfft(_real(x, "ihfft"), n=n, axis=axis, norm=other))


def fftfreq(n: int, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of `fft` in cycles per unit, of samples `d` units apart.

    >>> td.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    as_device(device)
    wanted = asked_dtype(dtype)
    return as_tensor(np.fft.fftfreq(_length(n, "fftfreq"), d), wanted)


def rfftfreq(
    n: int, *, d: float = 1.0, dtype: Any = None, device: Any = None
) -> Tensor:
    """The frequencies of `rfft` in cycles per unit, of samples `d` units apart.

    >>> td.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    as_device(device)
    wanted = asked_dtype(dtype)
    return as_tensor(np.fft.rfftfreq(_length(n, "rfftfreq"), d), wanted)


def fftshift(x: Any, *, axes: Any = None) -> Tensor:
    """x with the frequency 0 moved to the middle of the dimensions.

    >>> td.fft.fftshift([0.0, 1.0, 2.0, -2.0, -1.0]).tolist()
    [-2.0, -1.0, 0.0, 1.0, 2.0]
    """
    node = as_tensor(x)
    places = normalize_axes(axes, node.type)
    counts = tuple(node.type.shape[k] // 2 for k in places)
    return _rolled(node, counts, places)


def ifftshift(x: Any, *, axes: Any = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> td.fft.ifftshift([-2.0, -1.0, 0.0, 1.0, 2.0]).tolist()
    [0.0, 1.0, 2.0, -2.0, -1.0]
    """
    node = as_tensor(x)
    places = normalize_axes(axes, node.type)
    counts = tuple(-(node.type.shape[k] // 2) for k in places)
    return _rolled(node, counts, places)


def _rolled(x: Tensor, counts: tuple[int, ...], axes: tuple[int, ...]) -> Tensor:
    for axis, count in zip(axes, counts, strict=True):
        x = functions.roll(x, count, axis)
    return x


if not TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> Any:
        raise missing("treadle.fft", name)
