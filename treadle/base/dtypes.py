"""Element types: NumPy's dtypes with bfloat16, and how two of them combine."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from treadle.base.caches import cached
from treadle.base.errors import DTypeError

__all__ = [
    "bfloat16",
    "complex64",
    "complex128",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

DType = np.dtype[Any]

float16: DType = np.dtype(np.float16)
bfloat16: DType = np.dtype(ml_dtypes.bfloat16)
float32: DType = np.dtype(np.float32)
float64: DType = np.dtype(np.float64)
int8: DType = np.dtype(np.int8)
int16: DType = np.dtype(np.int16)
int32: DType = np.dtype(np.int32)
int64: DType = np.dtype(np.int64)
uint8: DType = np.dtype(np.uint8)
uint16: DType = np.dtype(np.uint16)
uint32: DType = np.dtype(np.uint32)
uint64: DType = np.dtype(np.uint64)
bool_: DType = np.dtype(np.bool_)
complex64: DType = np.dtype(np.complex64)
complex128: DType = np.dtype(np.complex128)

HALF = (float16, bfloat16)
FLOATS = (*HALF, float32, float64)
INTEGERS = (int8, int16, int32, int64, uint8, uint16, uint32, uint64)
COMPLEX = (complex64, complex128)
ALL = (bool_, *INTEGERS, *FLOATS, *COMPLEX)

_KIND: dict[DType, str] = {
    bool_: "bool",
    **dict.fromkeys(INTEGERS, "integer"),
    **dict.fromkeys(FLOATS, "float"),
    **dict.fromkeys(COMPLEX, "complex"),
}
_PARTS = {complex64: float32, complex128: float64}
_RANK = {"bool": 0, "integer": 1, "float": 2, "complex": 3}
_BY_NAME = {dtype.name: dtype for dtype in ALL}
# One object each, so that `is` compares them: NumPy makes and passes on others.
OWN = {dtype: dtype for dtype in ALL}

# What a rule may ask of an operand, by the kinds it takes.
KINDS: dict[str, frozenset[str]] = {
    "any": frozenset(_RANK),
    "numeric": frozenset({"integer", "float", "complex"}),
    "real": frozenset({"bool", "integer", "float"}),
    "ordered": frozenset({"integer", "float"}),
    "inexact": frozenset({"float", "complex"}),
    "float": frozenset({"float"}),
    "integer": frozenset({"integer"}),
    "integral": frozenset({"bool", "integer"}),
    "bool": frozenset({"bool"}),
}


def kind(dtype: DType) -> str:
    """One of "bool", "integer", "float", "complex"."""
    return _KIND[dtype]


def real_of(dtype: DType) -> DType:
    """The dtype of the parts of complex numbers; any other dtype itself."""
    return _PARTS.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose parts hold the values of a float dtype.

    >>> complex_of(float16).name, complex_of(float64).name
    ('complex64', 'complex128')
    """
    if dtype in COMPLEX:
        return dtype
    return complex128 if dtype == float64 else complex64


def is_inexact(dtype: DType) -> bool:
    """Whether derivatives may flow through values of this dtype."""
    return _RANK[_KIND[dtype]] >= 2


def as_dtype(dtype: Any) -> DType:
    """The dtype behind a name, a NumPy dtype or scalar type, or bool/int/float.

    >>> as_dtype("bfloat16").name, as_dtype(bool).name
    ('bfloat16', 'bool')
    """
    if isinstance(dtype, np.dtype) and dtype in OWN:
        return OWN[dtype]
    if isinstance(dtype, str) and dtype in _BY_NAME:
        return _BY_NAME[dtype]
    try:
        native = np.dtype(dtype).newbyteorder("=")
    except TypeError:
        native = None
    if native is None or native not in OWN:
        hint = f"one of {', '.join(_BY_NAME)}"
        if isinstance(dtype, int):
            hint = "extents are one tuple: td.zeros((2, 3))"
        raise DTypeError(f"{dtype!r} is not an element type", hint=hint)
    return OWN[native]


@cached(1024)
def promote(a: DType, b: DType) -> DType:
    """The dtype two arrays combine to: the wider of one kind, the higher kind of two.

    An integer array with a float array keeps the float's width, so that labels and
    counts never turn a float32 network into a float64 one.

    >>> promote(int64, float32).name, promote(float16, bfloat16).name
    ('float32', 'float32')
    """
    if a == b:
        return a
    low, high = sorted((a, b), key=lambda d: _RANK[_KIND[d]])
    if _KIND[low] != _KIND[high]:
        if _KIND[low] == "float":
            return as_dtype(np.promote_types(low if low != bfloat16 else float32, high))
        return high
    if {a, b} == {float16, bfloat16}:
        return float32
    if {a, b} <= set(INTEGERS) and np.promote_types(a, b).kind == "f":
        return int64
    return as_dtype(np.promote_types(a, b))


def weak(scalar: Any, partner: DType, default_float: DType) -> DType:
    """The dtype a Python or NumPy scalar takes beside an array of dtype `partner`."""
    if isinstance(scalar, (bool, np.bool_)):
        return partner
    if isinstance(scalar, (int, np.integer)):
        return int64 if _KIND[partner] == "bool" else partner
    if isinstance(scalar, (float, np.floating)) or np.asarray(scalar).dtype == bfloat16:
        return partner if is_inexact(partner) else default_float
    _check_complex(scalar)
    if _KIND[partner] == "complex":
        return partner
    return complex128 if partner == float64 else complex64


def default_of(scalar: Any, default_float: DType) -> DType:
    """The dtype of a Python scalar that stands alone."""
    if isinstance(scalar, bool):
        return bool_
    if isinstance(scalar, int):
        return int64
    if isinstance(scalar, float):
        return default_float
    _check_complex(scalar)
    return complex128 if default_float == float64 else complex64


def _check_complex(scalar: Any) -> None:
    """Raise where a scalar of NumPy's is no number: text, a date, a record."""
    if not isinstance(scalar, (complex, np.complexfloating)):
        raise DTypeError(f"{scalar!r} is no number")


def accumulator(dtype: DType) -> DType:
    """The dtype a sum over `dtype` is carried in: float32 for the 16-bit floats."""
    return float32 if dtype in HALF else dtype


def converted(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """A copy of an array in another dtype, the same on every machine.

    Floats that an integer type does not hold become its nearest value, NaN 0; integers
    keep their low bits.

    >>> converted(np.array([300.7, -1.0, np.nan]), uint8).tolist()
    [255, 0, 0]
    """
    if dtype.kind not in "iu" or array.dtype not in FLOATS:
        return array.astype(dtype)
    x = array.astype(accumulator(array.dtype))
    limits = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        whole = x.astype(dtype)
    # A limit that rounds as a float rounds up, to the first value that is too large.
    whole[x >= x.dtype.type(limits.max)] = limits.max
    whole[x <= x.dtype.type(limits.min)] = limits.min
    whole[np.isnan(x)] = 0
    return whole


def _of_torch(value: Any) -> Any:
    """The memory of a tensor of torch, which makes no bfloat16 for NumPy itself."""
    value = value.detach().resolve_conj().resolve_neg().cpu()
    if str(value.dtype) == "torch.bfloat16":
        return value.view(sys.modules["torch"].int16).numpy().view(bfloat16)
    return value.numpy()


def whole(value: Any) -> Any:
    """An array, or lists of them, as given, one of torch as NumPy's; refused if
    elements of it are masked."""
    torch = getattr(sys.modules.get("torch"), "Tensor", None)
    if torch is not None and isinstance(value, torch):
        return _of_torch(value)
    # Where this is not loaded, or another thread is loading it, there is no mask.
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is None:
        return value
    if isinstance(value, (list, tuple)):
        for item in value:
            if isinstance(item, (list, tuple, np.ndarray)):
                whole(item)
    elif isinstance(value, masked) and np.any(value.mask):
        raise DTypeError(
            f"a masked array of {value.dtype} has elements without a value",
            hint="x.filled(number) gives them one; or pass x.data, and ~x.mask as a "
            "tensor of its own for td.where",
        )
    return value
