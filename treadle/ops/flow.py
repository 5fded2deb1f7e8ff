"""What passes a value on and does something else with its derivative."""

from __future__ import annotations

from typing import Any

from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Sample, op
from treadle.graph.operators import provide
from treadle.graph.tensor import Tensor
from treadle.ops.families import Elementwise, unary_samples

__all__ = ["stop_gradient"]


@op(primitive=True, differentiable=False, idempotent=True)
class StopGradient(Elementwise):
    """x, a constant for every derivative."""

    arity = 1

    def numpy(self, *arrays: Any) -> Array:
        x: Array = arrays[0]
        return x

    @classmethod
    def samples(cls) -> list[Sample]:
        return unary_samples(cls())


@provide
def stop_gradient(x: Any) -> Tensor:
    """`x` as a constant for every derivative.

    >>> import treadle as td
    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(x * td.stop_gradient(x), [x])[0])
    2.0
    """
    return StopGradient()(as_tensor(x))
