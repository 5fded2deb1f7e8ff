"""Leaves users make: arrays, some by DLPack, constants, filled and counted tensors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.base.allocate import memory_for
from treadle.base.devices import as_device
from treadle.base.dtypes import COMPLEX, DType, as_dtype, default_of
from treadle.base.errors import ArgumentError, DTypeError
from treadle.base.options import current
from treadle.base.types import Axis, as_names, as_shape
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.operators import Operand, provide
from treadle.graph.references import untouched
from treadle.graph.tensor import Tensor
from treadle.graph.variable import variable_of
from treadle.ops.cast import astype

__all__ = [
    "arange",
    "asarray",
    "constant",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def asarray(
    value: Any,
    dtype: Any = None,
    *,
    axes: Any = None,
    device: Any = None,
    copy: bool | None = None,
) -> Tensor:
    """A tensor of anything array-like; copies unless `copy=False`.

    With `copy=False` the tensor shares the memory of a NumPy array that has the dtype,
    and the caller must not change it any more.

    >>> td.asarray([[1.0, 2.0]]).type
    float32[1, 2]
    """
    as_device(device)
    if isinstance(value, Operand):
        return value.node() if dtype is None else astype(value, dtype)
    if copy is False:
        if not isinstance(value, np.ndarray):
            raise ArgumentError("copy=False takes a NumPy array")
        if as_dtype(value.dtype) != (as_dtype(dtype) if dtype else value.dtype):
            raise ArgumentError(f"copy=False keeps the dtype {value.dtype}")
        view = value.view()
        return constant_node(view, as_names(axes, view.shape))
    return as_tensor(value, dtype, axes)


def constant(value: Any, dtype: Any = None, *, axes: Any = None) -> Tensor:
    """A tensor that does not change.

    >>> float(td.constant(3.0))
    3.0
    """
    return asarray(value, dtype, axes=axes)


def full(
    shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None
) -> Tensor:
    """A tensor of one value.

    >>> td.full((2,), 7).tolist()
    [7, 7]
    """
    as_device(device)
    scalar = as_tensor(fill_value, dtype).numpy()
    if scalar.ndim:
        raise ArgumentError(f"full takes one value, not shape {scalar.shape}")
    return _filled(np.full, shape, scalar.dtype, scalar)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of zeros in the default dtype, or in `dtype`.

    >>> td.zeros((2, 3)).type
    float32[2, 3]
    """
    as_device(device)
    return _filled(np.zeros, shape, asked_dtype(dtype))


def ones(shape: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor of ones in the default dtype, or in `dtype`.

    >>> td.ones(2).tolist()
    [1.0, 1.0]
    """
    as_device(device)
    return _filled(np.ones, shape, asked_dtype(dtype))


def empty(shape: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """A tensor whose elements do not matter: zeros, for nobody can write them.

    >>> td.empty((2, 0)).shape
    (2, 0)
    """
    return zeros(shape, dtype, device=device)


def full_like(
    x: Any, fill_value: Any, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """One value in the shape, with the axis names and in the dtype of x.

    >>> td.full_like([1.0, 2.0], 7).tolist()
    [7.0, 7.0]
    """
    as_device(device)
    t = as_tensor(x).type
    filled = full(t.shape, fill_value, t.dtype if dtype is None else dtype)
    if t.axes is None:
        return filled
    return asarray(filled.numpy(), axes=t.axes, copy=False)


def zeros_like(x: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros in the shape, with the axis names and in the dtype of x.

    >>> td.zeros_like([1.0, 2.0]).tolist()
    [0.0, 0.0]
    """
    return full_like(x, 0, dtype=dtype, device=device)


def ones_like(x: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones in the shape, with the axis names and in the dtype of x.

    >>> td.ones_like([3, 4]).tolist()
    [1, 1]
    """
    return full_like(x, 1, dtype=dtype, device=device)


def empty_like(x: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """An array like another, with elements that do not matter: zeros.

    >>> td.empty_like([1.0, 2.0]).shape
    (2,)
    """
    return zeros_like(x, dtype=dtype, device=device)


def arange(
    start: Any,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    """Numbers from `start` (0 if one is given) below `stop` by `step`.

    >>> td.arange(3).tolist()
    [0, 1, 2]
    """
    as_device(device)
    if step == 0:
        raise ArgumentError("arange takes no step of 0")
    first, last = (0, start) if stop is None else (start, stop)
    whole = all(isinstance(v, (int, np.integer)) for v in (first, last, step))
    kind = as_dtype("int64") if whole else current().dtype
    for v in (first, last, step):
        if isinstance(v, Operand) or not isinstance(v, (int, float, np.number)):
            raise ArgumentError(f"arange takes numbers, not {type(v).__name__}")
    kind = as_dtype(dtype or kind)
    with memory_for(max(0, int((last - first) / step)) * kind.itemsize):
        return as_tensor(np.arange(first, last, step, dtype=kind))


def linspace(
    start: Any,
    stop: Any,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Tensor:
    """`num` numbers in equal steps from `start` to `stop`, which is left out without
    `endpoint`.

    They are computed in float64 (complex128) and rounded once.

    >>> td.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    as_device(device)
    for v in (start, stop):
        if isinstance(v, Operand) or not isinstance(
            v, (int, float, complex, np.number)
        ):
            raise ArgumentError(f"linspace takes numbers, not {type(v).__name__}")
    (count,) = as_shape((num,))
    both = isinstance(start, (complex, np.complexfloating)) or isinstance(
        stop, (complex, np.complexfloating)
    )
    default = default_of(1j if both else 1.0, current().dtype)
    kind = default if dtype is None else as_dtype(dtype)
    if both and kind not in COMPLEX:
        raise ArgumentError(f"complex numbers are no {kind.name}")
    with memory_for(count * kind.itemsize):
        return as_tensor(np.linspace(start, stop, count, endpoint, dtype=kind))


def eye(
    rows: int,
    columns: int | None = None,
    dtype: Any = None,
    *,
    k: int = 0,
    device: Any = None,
) -> Tensor:
    """The identity matrix, or ones on the k-th diagonal, above the main one for k > 0.

    >>> td.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> td.eye(2, 3, k=1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    as_device(device)
    m, n = as_shape((rows, rows if columns is None else columns))
    kind = asked_dtype(dtype)
    with memory_for(m * n * kind.itemsize):
        return as_tensor(np.eye(m, n, k, dtype=kind))


def _filled(make: Any, shape: Any, dtype: Any, *value: Any) -> Tensor:
    """A constant that a function of NumPy makes."""
    extents = _extents(shape)
    with memory_for(math.prod(extents) * dtype.itemsize):
        return constant_node(make(extents, *value, dtype=dtype), _names(shape))


def asked_dtype(dtype: Any) -> DType:
    """A dtype that is asked for; where none is, that of the options."""
    return current().dtype if dtype is None else as_dtype(dtype)


def _extents(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, Axis):
        shape = (shape,)
    if isinstance(shape, (tuple, list)):
        shape = tuple(n.length if isinstance(n, Axis) else n for n in shape)
    return as_shape(shape)


def _names(shape: Any) -> Any:
    items = shape if isinstance(shape, (tuple, list)) else (shape,)
    names = tuple(n.name if isinstance(n, Axis) else None for n in items)
    return names if any(names) else None


HOSTS = (1, 3)  # DLPack's kinds of memory that the host reads


@provide
def is_sole(node: Tensor) -> bool:
    """Return True if nothing else has the memory of a node's value."""
    return variable_of(node) is None and untouched(node)


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of an array of any library that speaks DLPack, in the same memory.

    Nobody may change that array any more, unless it is copied (`copy=True`). It is also
    copied where its elements are not in row-major order, or `copy=False` refuses it.

    >>> import numpy as np
    >>> td.from_dlpack(np.array([1.0, 2.0])).type
    float64[2]
    """
    as_device(device)
    if isinstance(x, Operand):
        return x.node()
    if not hasattr(x, "__dlpack__") or not hasattr(x, "__dlpack_device__"):
        raise ArgumentError(
            f"{type(x).__name__} does not speak DLPack", hint="td.asarray(x) copies it"
        )
    kind = int(x.__dlpack_device__()[0])
    if kind not in HOSTS:
        raise ArgumentError(
            f"the host reads no memory of DLPack's kind {kind}",
            hint="copy the array to the host before",
        )
    if isinstance(x, np.ndarray) and not x.flags.writeable:
        array = x  # NumPy hands out no read-only array to one that asks as of old
    else:
        try:
            array = np.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError) as error:
            raise DTypeError(f"NumPy takes no such array by DLPack: {error}") from None
    if as_dtype(array.dtype) != array.dtype:
        raise DTypeError(f"{array.dtype} is in the other byte order")
    ordered = array.flags.c_contiguous
    if copy is False and not ordered:
        raise ArgumentError("the elements are not in row-major order, copy=False")
    if copy or not ordered:
        return constant_node(np.array(array, order="C"))
    return constant_node(array.view())
