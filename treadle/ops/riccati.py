"""The algebraic equations of Riccati, by SciPy's LAPACK: the extra `linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.dtypes import complex64
from treadle.base.errors import ShapeError
from treadle.base.types import Type
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Cotangents, Mistake, Sample, op
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, operands
from treadle.ops.contract import matmul
from treadle.ops.factor import positive
from treadle.ops.matrices import (
    adjoint,
    hermitian_part,
    mirrored,
    of_stacks,
    square,
    stacked,
    well,
)
from treadle.ops.solve import Solve
from treadle.ops.sylvester import (
    DiscreteLyapunov,
    Equation,
    Lyapunov,
    each,
    scipy_linalg,
)


class Riccati(Equation):
    """An equation of a[n, n], b[n, m], and Hermitian parts of q[n, n] and r[m, m]."""

    __slots__ = ()
    arity = 4

    def infer_matrices(self, a: Type, b: Type, q: Type, r: Type) -> Any:
        n, m = square(a, "a"), b.shape[-1]
        if n and not m:
            raise ShapeError(f"b is {b}: there is nothing to control by")
        for name, t, shape in (("b", b, (n, m)), ("q", q, (n, n)), ("r", r, (m, m))):
            if t.shape[-2:] != shape:
                raise ShapeError(
                    f"{name} is {t}, not of matrices {shape[0]} by {shape[1]}",
                    hint="takes a[n, n], b[n, m], q[n, n] and r[m, m]",
                )
        return q

    @classmethod
    def samples(cls) -> list[Sample]:
        r = np.float32(2) * np.eye(2, dtype=np.float32)
        a, q = well(3, 3) * np.float32(0.3), positive(3, 3) * np.float32(0.1)
        z = well(2, 2, 2, dtype=complex64) * np.float32(0.3)
        p = positive(2, 2, 2, dtype=complex64)
        return [
            Sample(cls(), (a, a, q, q)),
            Sample(cls(), (a, well(3, 2), q, r), None, False),
            Sample(cls(), (z, z, p, p), ()),
        ]

    @classmethod
    def mistakes(cls) -> list[Mistake]:
        x, b, none = (as_tensor(np.ones((2, n), np.float32)) for n in (2, 3, 0))
        return [
            Mistake(lambda: cls()(x, b, x, x), ShapeError, "r is float32"),
            Mistake(lambda: cls()(x, none, x, none), ShapeError, "to control by"),
        ]


def _care(a: Array, b: Array, q: Array, r: Array) -> Array:
    rule = scipy_linalg().solve_continuous_are
    return rule(a, b, hermitian_part(q), hermitian_part(r))


@op()
class Care(Riccati):
    """The stabilizing x of a^H x + x a - x b r^-1 b^H x + q = 0."""

    def numpy(self, *arrays: Any) -> Array:
        return each(_care, 2, *arrays)

    def vjp(
        self, g: Any, y: Any, a: Tensor, b: Tensor, _: Tensor, r: Tensor
    ) -> Cotangents:
        gain = Solve()(mirrored(r), matmul(adjoint(b), y))
        closed = a - matmul(b, gain)
        s = Lyapunov()(closed, -mirrored(g))
        xs_, back = matmul(y, s), adjoint(gain)
        return (
            xs_ * 2.0,
            matmul(xs_, back) * -2.0,
            s,
            matmul(matmul(gain, s), back),
        )


@of_stacks
def care(a: Any, b: Any, q: Any, r: Any) -> Tensor:
    """The stabilizing x of a^H x + x a - x b r^-1 b^H x + q = 0: continuous time.

    a[..., n, n], b[..., n, m], q[..., n, n], r[..., m, m]; of q and r their Hermitian
    parts count. With k = r^-1 b^H x and s of (a - b k) s + s (a - b k)^H = -g the
    gradients are 2 x s, -2 x s k^H, s and k s k^H (Kao and Hennequin 2020).

    >>> f"{float(td.linalg.care([[0.0]], [[1.0]], [[4.0]], [[1.0]])):.4f}"
    '2.0000'
    """
    nodes = operands(*[as_float(x) for x in (a, b, q, r)])
    return Care()(*stacked(*nodes))


def _dare(a: Array, b: Array, q: Array, r: Array) -> Array:
    rule = scipy_linalg().solve_discrete_are
    return rule(a, b, hermitian_part(q), hermitian_part(r))


@op()
class Dare(Riccati):
    """The stabilizing x of x = a^H x a - a^H x b (r + b^H x b)^-1 b^H x a + q."""

    def numpy(self, *arrays: Any) -> Array:
        return each(_dare, 2, *arrays)

    def vjp(
        self, g: Any, y: Any, a: Tensor, b: Tensor, _: Tensor, r: Tensor
    ) -> Cotangents:
        through = matmul(adjoint(b), y)
        gain = Solve()(mirrored(r) + matmul(through, b), matmul(through, a))
        closed = a - matmul(b, gain)
        s = DiscreteLyapunov()(closed, mirrored(g))
        along, back = matmul(matmul(y, closed), s), adjoint(gain)
        return (
            along * 2.0,
            matmul(along, back) * -2.0,
            s,
            matmul(matmul(gain, s), back),
        )


@of_stacks
def dare(a: Any, b: Any, q: Any, r: Any) -> Tensor:
    """The stabilizing x of x = a^H x a - a^H x b (r + b^H x b)^-1 b^H x a + q.

    The equation of discrete time, with operands as of `care`. With k = (r + b^H x b)^-1
    b^H x a, c = a - b k and s = c s c^H + g the gradients are 2 x c s, -2 x c s k^H, s
    and k s k^H (Kao and Hennequin 2020).

    >>> f"{float(td.linalg.dare([[0.0]], [[1.0]], [[4.0]], [[1.0]])):.4f}"
    '4.0000'
    """
    nodes = operands(*[as_float(x) for x in (a, b, q, r)])
    return Dare()(*stacked(*nodes))
