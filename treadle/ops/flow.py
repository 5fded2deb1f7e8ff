"""Gradient flow: ops that pass a value on and change its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle.base.errors import ArityError
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Input, Mistake, Sample, op
from treadle.graph.operators import functions, provide
from treadle.graph.rows import repeated, row_count
from treadle.graph.tensor import Tensor
from treadle.ops.cast import carried_wide, operands
from treadle.ops.families import Elementwise, Family

__all__ = [
    "clip_by_norm",
    "clip_gradient",
    "flip_gradient",
    "scale_gradient",
    "stop_gradient",
]


@op(primitive=True, differentiable=False, idempotent=True)
class StopGradient(Elementwise):
    """x, a constant for every derivative."""

    arity = 1

    def numpy(self, *arrays: Any) -> Array:
        return arrays[0]


@provide
def stop_gradient(x: Any) -> Tensor:
    """`x` as a constant for every derivative.

    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(x * td.stop_gradient(x), [x])[0])
    2.0
    """
    return StopGradient()(as_tensor(x))


class Passing(Family):
    """An op that hands its first operand on, whatever the others are for."""

    __slots__ = ()

    def infer(self, *types: Any) -> Any:
        if len(types) < 2:
            raise ArityError("takes a value, and what it is handed on after")
        return types[0]

    def numpy(self, *arrays: Any) -> Array:
        return arrays[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return (g, *[None] * (len(xs) - 1))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(cls(), (Input((2, 3)), Input((4,))), (0,)),
            Sample(cls(), (Input(()), Input((0,)), Input((2, 1))), (0,)),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x = as_tensor(1.0)
        return [Mistake(lambda: cls()(x), ArityError, "handed on after")]


@op(linear=True, tolerance="E")
class Again(Passing):
    """x, for those who compute from it anew once the other operands are there.

    Nothing that is computed from it is taken for what was computed from x before.
    """

    family = "control"

    def rows(self, has_rows: Sequence[bool], *xs: Tensor) -> Tensor | None:
        x = xs[0] if has_rows[0] else repeated(xs[0], row_count(has_rows, xs))
        return self(x, *xs[1:])


@op(primitive=True)
class ScaleGradient(Elementwise):
    """x; its derivative is multiplied by the second operand."""

    arity = 2
    takes = "inexact"

    def numpy(self, *arrays: Any) -> Array:
        return np.broadcast_arrays(*arrays)[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return g * xs[1], None

    @classmethod
    def samples(cls) -> list[Sample]:
        one = np.array(1.0, np.float32)
        return [
            Sample(cls(), (Input((2, 3)), one), (0,)),
            Sample(cls(), (Input((4,)), Input(())), ()),
        ]


def scale_gradient(x: Any, factor: Any) -> Tensor:
    """`x`, with the cotangent that passes back multiplied by `factor`.

    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(td.scale_gradient(x, 0.5) * 3.0, [x])[0])
    1.5
    """
    return ScaleGradient()(*operands(x, factor))


def flip_gradient(x: Any) -> Tensor:
    """`x`, with the cotangent that passes back negated (Ganin et al., 2016).

    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(td.flip_gradient(x) * 3.0, [x])[0])
    -3.0
    """
    return scale_gradient(x, -1.0)


@op(primitive=True)
class ClipGradient(Elementwise):
    """x; its derivative is held between minus and plus the second operand."""

    arity = 2
    takes = "float"

    def numpy(self, *arrays: Any) -> Array:
        return np.broadcast_arrays(*arrays)[0]

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        return functions.clip(g, -xs[1], xs[1]), None

    @classmethod
    def samples(cls) -> list[Sample]:
        wide = np.array(100.0, np.float32)
        return [
            Sample(cls(), (Input((2, 3)), wide), (0,)),
            Sample(cls(), (Input((4,)), Input((), low=0.1, high=0.2)), ()),
        ]


def clip_gradient(x: Any, limit: Any) -> Tensor:
    """`x`, with each element of the cotangent passing back held within +-limit.

    Only what comes through this use of x is clipped.

    >>> x = td.param("x", init=2.0)
    >>> float(td.grad(td.clip_gradient(x, 1.0) * 3.0 + x, [x])[0])
    2.0
    """
    return ClipGradient()(*operands(x, limit))


@carried_wide
def clip_by_norm(x: Any, limit: Any) -> Tensor:
    """`x` scaled down to the L2 norm `limit` where its norm is greater.

    >>> td.clip_by_norm([3.0, 4.0], 1.0).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    node, bound = operands(x, limit)
    size = functions.sum(node * node)
    safe = functions.where(size == 0, 1, size)
    return node * functions.minimum(1, bound / functions.sqrt(safe))
