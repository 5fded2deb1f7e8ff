"""Matrix equations, Sylvester's to Riccati's, by SciPy's LAPACK: extra `linalg`."""

from __future__ import annotations

from typing import Any

import numpy as np

from treadle.base.errors import RunError, ShapeError
from treadle.base.extras import extra
from treadle.base.types import Type
from treadle.graph.op import Array, Cotangents, op
from treadle.graph.tensor import Tensor
from treadle.ops.cast import as_float, operands
from treadle.ops.contract import matmul
from treadle.ops.matrices import (
    OfMatrices,
    adjoint,
    adjoint_of,
    hermitian_part,
    mirrored,
    of_stacks,
    square,
    stacked,
)
from treadle.ops.solve import Solve


def scipy_linalg() -> Any:
    """SciPy's linear algebra, or an error that tells how to install it."""
    return extra("scipy.linalg", "linalg")


def each(rule: Any, result: int, *arrays: Array) -> Array:
    """A rule of matrices done in double precision for each of a stack.

    The result has the shape and dtype of the operand numbered `result`.
    """
    like = arrays[result]
    wide = [a.astype(np.result_type(a.dtype, np.float64)) for a in arrays]
    results = np.empty_like(like)
    for place in np.ndindex(like.shape[:-2]):
        try:
            if results[place].size:
                results[place] = rule(*[a[place] for a in wide])
        except np.linalg.LinAlgError as error:
            raise RunError(
                str(error).rstrip("."), hint="is there a solution, and only one?"
            ) from None
    return results


def _schur(x: Array) -> Any:
    return scipy_linalg().schur(x, output="real")


def _sylvester(a: Array, b: Array, c: Array, alike: bool = False) -> Array:
    """The x of a x + x b = c by Schur factors (Bartels and Stewart, 1972).

    With `alike` b is a^H, which has the factors of a.
    """
    r, u = _schur(a)
    s, v = (r, u) if alike else _schur(adjoint_of(b))
    inner = adjoint_of(u) @ c @ v
    (solve,) = scipy_linalg().get_lapack_funcs(("trsyl",), (r, s, inner))
    y, scale, info = solve(r, s, inner, tranb="C")
    if info:
        raise RunError(
            "no unique solution: an eigenvalue of a and one of b are opposite",
            hint="of a x + x a^H these are two eigenvalues of a whose sum is 0",
        )
    return u @ (y * scale) @ adjoint_of(v)


class Equation(OfMatrices):
    """An op that SciPy computes, for a square first operand."""

    __slots__ = ()

    def infer(self, *types: Type) -> Any:
        result = super().infer(*types)
        scipy_linalg()  # where it is missing, the call that needs it fails
        return result


@op()
class Sylvester(Equation):
    """The x of a x + x b = c, for a[..., m, m], b[..., n, n] and c[..., m, n]."""

    arity = 3

    def infer_matrices(self, a: Type, b: Type, c: Type) -> Any:
        m, n = square(a, "a"), square(b, "b")
        if c.shape[-2:] != (m, n):
            raise ShapeError(f"c is {c}, beside a and b of order {m} and {n}")
        return c

    def numpy(self, *arrays: Any) -> Array:
        return each(_sylvester, 2, *arrays)

    def vjp(self, g: Any, y: Any, a: Tensor, b: Tensor, _: Tensor) -> Cotangents:
        z = Sylvester()(adjoint(a), adjoint(b), g)
        return -matmul(z, adjoint(y)), -matmul(adjoint(y), z), z


@of_stacks
def sylvester(a: Any, b: Any, c: Any) -> Tensor:
    """The x of a x + x b = c: a[..., m, m], b[..., n, n], c[..., m, n].

    Gradients of c: z of a^H z + z b^H = g; of a: -z x^H; of b: -x^H z (Kao and
    Hennequin, Automatic differentiation of Sylvester, Lyapunov, and algebraic Riccati
    equations, 2020).

    >>> td.linalg.sylvester([[1.0]], [[3.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    return Sylvester()(*stacked(*operands(as_float(a), as_float(b), as_float(c))))


class OfLyapunov(Equation):
    """An equation of a and q, both of order n."""

    __slots__ = ()
    arity = 2

    def infer_matrices(self, a: Type, q: Type) -> Any:
        n = square(a, "a")
        if q.shape[-2:] != (n, n):
            raise ShapeError(f"q is {q}, beside a of order {n}")
        return q


@op()
class Lyapunov(OfLyapunov):
    """The x of a x + x a^H = q."""

    def numpy(self, *arrays: Any) -> Array:
        return each(lambda a, q: _sylvester(a, a, q, alike=True), 1, *arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        z = Lyapunov()(adjoint(xs[0]), g)
        return -(matmul(z, adjoint(y)) + matmul(adjoint(z), y)), z


@of_stacks
def lyapunov(a: Any, q: Any) -> Tensor:
    """The x of a x + x a^H = q, for a[..., n, n] and q[..., n, n].

    Gradients of q: z of a^H z + z a = g; of a: -z x^H - z^H x (Kao and Hennequin 2020).

    >>> td.linalg.lyapunov([[2.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    return Lyapunov()(*stacked(*operands(as_float(a), as_float(q))))


def _discrete(a: Array, q: Array) -> Array:
    return scipy_linalg().solve_discrete_lyapunov(a, q)


@op()
class DiscreteLyapunov(OfLyapunov):
    """The x of x = a x a^H + q."""

    def numpy(self, *arrays: Any) -> Array:
        return each(_discrete, 1, *arrays)

    def vjp(self, g: Any, y: Any, *xs: Tensor) -> Cotangents:
        a = xs[0]
        z = DiscreteLyapunov()(adjoint(a), g)
        left = matmul(matmul(z, a), adjoint(y))
        return left + matmul(matmul(adjoint(z), a), y), z


@of_stacks
def discrete_lyapunov(a: Any, q: Any) -> Tensor:
    """The x of x = a x a^H + q, for a[..., n, n] and q[..., n, n].

    Gradients of q: z = a^H z a + g; of a: z a x^H + z^H a x (Kao and Hennequin 2020).

    >>> f"{float(td.linalg.discrete_lyapunov([[0.5]], [[3.0]])):.4f}"
    '4.0000'
    """
    return DiscreteLyapunov()(*stacked(*operands(as_float(a), as_float(q))))


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
