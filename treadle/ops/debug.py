"""Values told in the log while a graph runs, forward and backward."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import as_dtype
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Input, Sample, op
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.families import Elementwise

__all__ = ["debug"]

log = logging.getLogger("treadle")


def account(mark: Debug, x: Array) -> str:
    """What is told of a value: what it is, how large, its extremes, the values."""
    kind = "Debug Grad" if mark.gradient else "Debug"
    lines = [f"{kind}: {mark.message} op={mark.origin}"]
    shape = "x".join(map(str, x.shape)) or "scalar"
    dtype = as_dtype(mark.dtype) if mark.dtype else x.dtype
    size = f"size={x.size} type={dtype.name}"
    lines.append(f"shape={shape} {size} device=cpu bytes={x.size * dtype.itemsize}")
    if x.size:
        wide = np.abs(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))
        norm = float(np.sqrt(np.sum(np.square(wide))))
        low, high = (
            (x.min(), x.max()) if x.dtype.kind != "c" else (wide.min(), wide.max())
        )
        lines.append(
            f"min: {float(low):.8f} max: {float(high):.8f} l2-norm: {norm:.8f}"
        )
    lines.append(np.array2string(x, precision=8, threshold=100))
    return "\n".join(lines)


@op()
class Debug(Elementwise):
    """x, told in the log when it is computed; its cotangent too."""

    message: str
    origin: str = ""
    gradient: bool = False
    dtype: str = ""  # halves are computed in float32, so the array does not tell
    arity = 1

    def numpy(self, *arrays: Any) -> Array:
        x: Array = arrays[0]
        log.debug("%s", account(self, x))
        return x

    def scalar(self, *xs: Any) -> Any:
        return xs[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (Debug(self.message, self.origin, True, self.dtype)(g),)

    def rows(self, given: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return None  # what is told is of one value

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls("a value"), (Input((2, 3)),)),
            Sample(cls("nothing"), (Input((0, 3)),)),
        ]


@provide
def debug(x: Any, message: str = "") -> Tensor:
    """`x`, with its value and its gradient told in the log "treadle" at level DEBUG.

    Shape, size, type, bytes, least, greatest, L2 norm and the values; use the result
    in place of x.

    >>> import treadle as td
    >>> float(td.debug(td.constant(2.0), "two") * 3)
    6.0
    """
    node = as_tensor(x)
    return Debug(message, node.op.name, False, node.type.dtype.name)(node)
