"""Arrays of other libraries as tensors, by DLPack and without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.devices import as_device
from treadle.base.dtypes import as_dtype
from treadle.base.errors import ArgumentError, DTypeError
from treadle.graph.leaves import constant_node
from treadle.graph.operators import Operand, provide
from treadle.graph.references import untouched
from treadle.graph.tensor import Tensor
from treadle.graph.variable import variable_of

__all__ = ["from_dlpack"]

HOSTS = (1, 3)  # DLPack's kinds of memory that the host reads


@provide
def is_sole(node: Tensor) -> bool:
    """Whether the value of an evaluated node lies in memory that nothing else has."""
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
