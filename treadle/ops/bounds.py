"""Values that are refused where they are out of bounds: positions, and outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import int64
from treadle.base.errors import RunError, ShapeError
from treadle.base.symbolic import arange
from treadle.base.types import Type
from treadle.graph.leaves import constant_node
from treadle.graph.op import Array, op
from treadle.graph.operators import functions
from treadle.graph.rows import along_axes
from treadle.graph.tensor import Tensor
from treadle.ops.cast import Cast
from treadle.ops.families import Composite, some
from treadle.ops.lookup import EMBEDDING


@op(tolerance="E", differentiable=False)
class InRange(Composite):
    """Whole numbers as they are; one that is not from 0 to `last` is a RunError."""

    last: int
    what: str = "index"
    arity = 1
    takes = "integer"

    def infer(self, *types: Type) -> Type:
        return types[0]

    def numpy(self, x: Any) -> Array:
        bad = (x < 0) | (x > self.last)
        if bad.any():
            first = x[bad].flat[0]
            raise RunError(f"{self.what} {first} is not from 0 to {self.last}")
        return np.array(x)

    def expand(self, x: Tensor) -> Tensor:
        # Read from a table of all that may be, which refuses what is not in it.
        checked = EMBEDDING(constant_node(arange(self.last + 1)), x)
        return Cast(x.type.dtype)(checked)

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        return self(*xs)


@op(differentiable=False, tolerance="E")
class Outcome(Composite):
    """The place of the greatest score along `axis`, where one is above -inf."""

    axis: int
    rows = along_axes
    arity = 1
    takes = "float"

    def infer(self, t: Type) -> Type:
        if not t.shape[self.axis]:
            raise ShapeError(f"{t} has no outcome along axis {self.axis}")
        shape = (*t.shape[: self.axis], *t.shape[self.axis + 1 :])
        names = t.axes and some((*t.axes[: self.axis], *t.axes[self.axis + 1 :]))
        return Type(shape, int64, names)

    def numpy(self, x: Any) -> Array:
        if not (x.max(self.axis) > -np.inf).all():
            raise RunError(
                "no outcome is possible: all of its logits are -inf, or one is NaN",
                hint="a distribution needs a logit above -inf along its axis",
            )
        return np.asarray(x.argmax(self.axis), np.int64)

    def expand(self, x: Tensor) -> Tensor:
        n = x.type.shape[self.axis]
        possible = functions.max(x, self.axis) > -np.inf
        place = functions.argmax(x, self.axis)
        # A place outside is refused where it is looked up.
        wanted = functions.where(possible, place, n)
        return InRange(n - 1)(wanted)
