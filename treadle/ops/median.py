"""The middle of the elements along an axis."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from treadle.base.errors import ArgumentError
from treadle.base.symbolic import arange
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor, constant_node
from treadle.graph.op import Cotangents, Input, Mistake, Sample, op
from treadle.graph.operators import functions
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, astype
from treadle.ops.families import Composite, reduced
from treadle.ops.reduce import along, spread

__all__ = ["median"]


@op(tolerance="E")
class Median(Composite):
    """The middle value along `axis`; the mean of the two middle ones of an even count.

    The derivative goes to the middle elements.
    """

    axis: int
    keepdims: bool = False
    arity = 1
    rows = along_axes
    takes = "float"

    def infer(self, *types: Type) -> Type:
        result = reduced(types[0], (self.axis,), self.keepdims)
        if types[0].shape[self.axis] == 0:
            raise ArgumentError(f"no middle of nothing: axis {self.axis} of {types[0]}")
        return result

    def numpy(self, *arrays: Any) -> Any:
        x = np.sort(arrays[0], self.axis)
        n = x.shape[self.axis]
        a, b, last = (np.take(x, [k], self.axis) for k in ((n - 1) // 2, n // 2, n - 1))
        middle = np.where(np.isnan(last), last, a if n % 2 else (a + b) / 2)
        return middle if self.keepdims else np.squeeze(middle, self.axis)

    def expand(self, *xs: Tensor) -> Tensor:
        x = functions.sort(xs[0], self.axis)
        n = x.type.shape[self.axis]
        before = (slice(None),) * self.axis
        a, b, last = (
            x[(*before, slice(k, k + 1))] for k in ((n - 1) // 2, n // 2, n - 1)
        )
        middle = a if n % 2 else (a + b) / 2.0
        value = functions.where(functions.isnan(last), last, middle)  # NaN stands last
        return cast(
            Tensor,
            value if self.keepdims else functions.squeeze(value, self.axis),
        )

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        names = xs[0].type.axes
        g, x = spread(g, xs[0], (self.axis,), self.keepdims), functions.unname(xs[0])
        n = x.type.shape[self.axis]
        order = functions.argsort(x, axis=self.axis)
        shape = [1] * x.type.ndim
        shape[self.axis] = n
        ranks = functions.reshape(constant_node(arange(n)), shape)
        middle = [functions.equal(ranks, k) for k in ((n - 1) // 2, n // 2)]
        low, high = (astype(here, x.type.dtype) * 0.5 for here in middle)
        sorted_weights = low + high
        places = functions.argsort(order, axis=self.axis)
        wide = functions.broadcast_to(sorted_weights, x.type.shape)
        mine = functions.take_along_axis(wide, places, self.axis)
        return (functions.reshape(mine, x.type.shape, axes=names) * g,)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls(1), (Input((2, 3), apart=0.01),)),
            Sample(cls(0, True), (Input((4, 5), apart=0.01),)),
            Sample(cls(0), (Input((1,), apart=0.01),)),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        empty = as_tensor(np.zeros((0, 3), np.float32))
        return [
            Mistake(lambda: median(empty, 0), ArgumentError, "of nothing"),
            Mistake(lambda: median([[1.0]], (0, 1)), ArgumentError, "one axis"),
        ]


def median(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    """The middle value along `axis`, or of all elements.

    >>> float(td.median([3.0, 1.0, 2.0]))
    2.0
    """
    node = as_float(x)
    if axis is None:
        flat = Median(0)(functions.reshape(node, (-1,)))
        return functions.reshape(flat, (1,) * node.type.ndim) if keepdims else flat
    node, axes = along(node, axis)
    if len(axes) != 1:
        raise ArgumentError("median takes one axis, or none for all").located("median")
    return Median(axes[0], keepdims)(node)
