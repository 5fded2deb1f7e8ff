"""The floats next to a float."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import HALF, float32, float64
from treadle.base.types import Type, broadcast_shapes
from treadle.graph.op import Array, Cotangents, Sample, common_axes, op
from treadle.graph.operators import provide
from treadle.graph.rows import lifted
from treadle.graph.tensor import Tensor
from treadle.ops.align import align
from treadle.ops.cast import as_float, operands
from treadle.ops.families import Opaque, same_dtype
from treadle.ops.sampling import binary_samples

__all__ = ["nextafter"]


@op(tolerance="E", widened=False)
class NextAfter(Opaque):
    """The float after x1 on the way to x2; x2 where they are equal."""

    arity = 2
    takes = "float"

    def infer(self, *types: Type) -> Type:
        same_dtype(types)
        shape = broadcast_shapes(*[t.shape for t in types])
        return Type(shape, types[0].dtype, common_axes(types, len(shape)))

    def numpy(self, *arrays: Any) -> Array:
        return np.nextafter(*arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g, None

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*lifted(has_rows, xs))

    @classmethod
    def samples(cls) -> list[Sample]:
        step = np.array([0.0, -0.0, 1.0, -1.0, np.inf, np.nan])
        edges = np.array([0.0, -0.0, np.inf, np.nan, 1.0, 1e-45], np.float32)
        return [
            *(
                Sample(s.op, s.inputs, ())
                for s in binary_samples(cls(), dtypes=(float32, float64))
            ),
            Sample(cls(), (edges, edges[::-1].copy()), ()),
            *(Sample(cls(), (step.astype(d), step[::-1].astype(d)), ()) for d in HALF),
        ]


@provide
def nextafter(x1: Any, x2: Any) -> Tensor:
    """The next float after x1 in the direction of x2, element by element.

    Its derivative is 1 by x1 and 0 by x2.

    >>> td.nextafter(td.asarray(1.0, "float64"), 2.0).item()
    1.0000000000000002
    """
    return NextAfter()(*align([as_float(x) for x in operands(x1, x2)]))
