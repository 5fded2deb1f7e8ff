"""Type promotion and inspection of the namespace, as the array API standard asks."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np

from treadle.base.devices import HOST, as_device
from treadle.base.dtypes import (
    ALL,
    COMPLEX,
    FLOATS,
    HALF,
    INTEGERS,
    DType,
    as_dtype,
    bfloat16,
    bool_,
    default_of,
    int64,
    promote,
    real_of,
    weak,
)
from treadle.base.errors import ArgumentError, DTypeError
from treadle.base.options import current
from treadle.graph.awaited import waited
from treadle.graph.leaves import SCALARS
from treadle.graph.operators import Operand, provide

__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
]


SIGNED = tuple(d for d in INTEGERS if d.kind == "i")
UNSIGNED = tuple(d for d in INTEGERS if d.kind == "u")
KINDS: dict[str, tuple[DType, ...]] = {
    "bool": (bool_,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGERS,
    "real floating": FLOATS,
    "complex floating": COMPLEX,
    "numeric": (*INTEGERS, *FLOATS, *COMPLEX),
}


@dataclass(frozen=True)
class FloatInfo:
    """The limits of a floating-point dtype, of the parts of a complex one."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True)
class IntegerInfo:
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def dtype_of(x: Any) -> DType:
    """The dtype of a tensor or an array, or the one that is given."""
    if isinstance(x, (Operand, np.ndarray, np.generic)):
        return as_dtype(x.dtype)
    return as_dtype(x)


def finfo(type: Any) -> FloatInfo:
    """The limits of the floating-point dtype `type`, or of a tensor's.

    >>> td.finfo("bfloat16").bits, td.finfo(td.float32).eps
    (16, 1.1920928955078125e-07)
    """
    dtype = real_of(dtype_of(type))
    if dtype not in FLOATS:
        raise DTypeError(f"{dtype.name} is no floating-point dtype", hint="td.iinfo")
    limits: Any = ml_dtypes.finfo if dtype == bfloat16 else np.finfo
    known = limits(dtype)
    return FloatInfo(
        bits=int(known.bits),
        eps=float(known.eps),
        max=float(known.max),
        min=float(known.min),
        smallest_normal=float(known.smallest_normal),
        dtype=dtype,
    )


def iinfo(type: Any) -> IntegerInfo:
    """The limits of the integer dtype `type`, or of a tensor's.

    >>> td.iinfo(td.int8).min, td.iinfo(td.int8).max
    (-128, 127)
    """
    dtype = dtype_of(type)
    if dtype not in INTEGERS:
        raise DTypeError(f"{dtype.name} is no integer dtype", hint="td.finfo")
    known = np.iinfo(dtype)
    return IntegerInfo(int(known.bits), int(known.max), int(known.min), dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, another dtype, or one of several of these.

    Kinds are "bool", "signed integer", "unsigned integer", "integral", "real floating",
    "complex floating" and "numeric".

    >>> td.isdtype(td.float32, "real floating"), td.isdtype(td.int8, ("bool", td.int16))
    (True, False)
    """
    resolved = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(resolved, each) for each in kind)
    if isinstance(kind, str) and kind in KINDS:
        return resolved in KINDS[kind]
    if isinstance(kind, str) and kind not in {d.name for d in ALL}:
        known = ", ".join(KINDS)
        raise ArgumentError(f"{kind!r} is no kind of dtypes", hint=f"one of {known}")
    return resolved == as_dtype(kind)


def can_cast(from_: Any, to: Any) -> bool:
    """Whether promotion leads from a dtype, or a tensor's, to another: the two combine
    to that.

    >>> td.can_cast(td.int8, td.int16), td.can_cast(td.float64, td.float32)
    (True, False)
    """
    wanted = as_dtype(to)
    return promote(dtype_of(from_), wanted) == wanted


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that tensors, arrays, dtypes and numbers combine to.

    Python's and NumPy's scalars are weak: they take the dtype of what is beside them.

    >>> td.result_type(td.int8, td.ones(2), 1.0).name
    'float32'
    """
    if not arrays_and_dtypes:
        raise ArgumentError("a result has a dtype by one array or dtype at least")
    operands = [waited(x) for x in arrays_and_dtypes]
    scalars = [x for x in operands if isinstance(x, SCALARS)]
    dtypes = [dtype_of(x) for x in operands if not isinstance(x, SCALARS)]
    default = current().dtype
    if not dtypes:
        plain = (x.item() if isinstance(x, np.generic) else x for x in scalars)
        return reduce(promote, [default_of(x, default) for x in plain])
    dtype = reduce(promote, dtypes)
    return reduce(promote, [weak(x, dtype, default) for x in scalars], dtype)


__array_api_version__ = "2025.12"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
DIMENSIONS = 64  # NumPy's limit


class NamespaceInfo:
    """The devices, dtypes and abilities of the namespace `treadle`.

    >>> td.__array_namespace_info__().default_dtypes()["real floating"].name
    'float32'
    """

    def capabilities(self) -> dict[str, Any]:
        """The capabilities, by the names that the standard gives."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": DIMENSIONS,
        }

    def default_device(self) -> str:
        """The device of values: the host, whatever engine computes them."""
        return HOST

    def devices(self) -> tuple[str, ...]:
        """The devices that `device=` takes."""
        return (HOST,)

    def default_dtypes(self, *, device: Any = None) -> dict[str, DType]:
        """The dtypes of what is made without one."""
        as_device(device)
        real = current().dtype
        return {
            "real floating": real,
            "complex floating": default_of(1j, real),
            "integral": int64,
            "indexing": int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes that the standard names, by name; of one kind or several."""
        as_device(device)
        kinds = kind if isinstance(kind, tuple) else (kind or ("bool", "numeric"),)
        kinds = kinds[0] if isinstance(kinds[0], tuple) else kinds
        for each in kinds:
            if each not in KINDS:
                known = ", ".join(KINDS)
                raise ArgumentError(
                    f"{each!r} is no kind of dtypes", hint=f"one of {known}"
                )
        return {d.name: d for each in kinds for d in KINDS[each] if d not in HALF}


def __array_namespace_info__() -> NamespaceInfo:
    """The inspection interface of the array API standard.

    >>> td.__array_namespace_info__().devices()
    ('cpu',)
    """
    return NamespaceInfo()


@provide
def array_namespace(api_version: str | None = None) -> Any:
    """The package, which is the namespace of tensors under the standard."""
    if api_version is not None and api_version not in VERSIONS:
        raise ArgumentError(
            f"there is no version {api_version!r} of the array API standard here",
            hint=f"one of {', '.join(VERSIONS)}",
        ).located("__array_namespace__")
    return sys.modules["treadle"]
