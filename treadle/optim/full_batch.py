"""Line searches, conjugate gradients and Newton's method, for losses without chance.

They look at the loss in several places per step, so `step` takes a function that
builds it; what it builds is compiled once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.autodiff.gradient import grad, value_and_grad
from treadle.base.arrays import Array
from treadle.base.errors import ArgumentError
from treadle.graph.frame import no_grad
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.optim.groups import parameters_of
from treadle.runtime.evaluate import run
from treadle.runtime.store import store

Loss = Callable[[], Any]

_VARIANTS = ("polak-ribiere", "fletcher-reeves", "hestenes-stiefel", "dai-yuan",
             "conjugate-descent")  # fmt: skip
_ENOUGH, _FLAT = 1e-4, 0.1  # of Wolfe's conditions: decrease, curvature
_TRIES = 40


class FullBatch:
    """Steps along a direction as far as Wolfe's conditions ask."""

    def __init__(self, params: Any) -> None:
        self.parameters = [p for p in parameters_of(params) if p.trainable]
        if not self.parameters:
            raise ArgumentError("there is no trainable parameter to move")
        self.gradient_norm = math.inf

    def direction(self, loss: Loss, gradient: Array) -> Array:
        """The search direction, along which the loss falls."""
        raise NotImplementedError

    def step(self, loss: Loss) -> float:
        """One step against the loss that `loss()` builds; the loss after it."""
        start, (value, gradient) = self._vector(), self._at(loss)
        self.gradient_norm = float(np.linalg.norm(gradient))
        if self.gradient_norm == 0.0:
            return value
        direction = self.direction(loss, gradient)
        slope = float(direction @ gradient)
        if not slope < 0.0:
            direction, slope = -gradient, -float(gradient @ gradient)

        def along(length: float) -> tuple[float, float]:
            self._set(start + length * direction)
            value, gradient = self._at(loss)
            return value, float(gradient @ direction)

        length, after = _wolfe(along, value, slope, self._first(slope, direction))
        self._set(start + length * direction)
        return after

    def minimize(
        self, loss: Loss, steps: int = 100, tolerance: float = 1e-6
    ) -> list[float]:
        """The losses after each step, until the gradient's norm is `tolerance`.

        >>> x = td.param("x", init=[3.0, -2.0], dtype="float64")
        >>> losses = td.optim.Newton([x]).minimize(lambda: ((x - 1.0) ** 2).sum())
        >>> x.tolist()
        [1.0, 1.0]
        """
        losses: list[float] = []
        for _ in range(steps):
            losses.append(self.step(loss))
            still = len(losses) > 1 and losses[-1] == losses[-2]
            if self.gradient_norm <= tolerance or still:
                break
        return losses

    def _first(self, slope: float, direction: Array) -> float:
        """The length that is tried first."""
        return 1.0 / max(1.0, float(np.abs(direction).max()))

    # -- parameters as one vector --------------------------------------------------

    def _vector(self) -> Array:
        return np.concatenate(
            [p.numpy().astype(np.float64).ravel() for p in self.parameters]
        )

    def _set(self, vector: Array) -> None:
        pairs = zip(self.parameters, self._parts(vector), strict=True)
        store([(p, part.astype(p.dtype)) for p, part in pairs])

    def _parts(self, vector: Array) -> list[Array]:
        sizes = [math.prod(p.shape) for p in self.parameters]
        parts = np.split(vector, np.cumsum(sizes)[:-1])
        return [
            part.reshape(p.shape)
            for part, p in zip(parts, self.parameters, strict=True)
        ]

    def _at(self, loss: Loss) -> tuple[float, Array]:
        value, gradients = value_and_grad(
            as_tensor(loss()), self.parameters, unused="zero"
        )
        return float(value), joined(gradients)


def joined(tensors: list[Tensor]) -> Array:
    """The values of tensors as one vector."""
    with no_grad():
        run(tensors)
    return np.concatenate([t.numpy().astype(np.float64).ravel() for t in tensors])


def _wolfe(
    along: Callable[[float], tuple[float, float]],
    value: float,
    slope: float,
    first: float,
) -> tuple[float, float]:
    """A length at which the loss has fallen enough and the slope is flat, by bisection.

    The best length seen where there is none: 0 if the loss rises everywhere.
    """
    low, high, length = 0.0, math.inf, first
    best = 0.0, value
    for _ in range(_TRIES):
        now, its = along(length)
        if now < best[1]:
            best = length, now
        if not now <= value + _ENOUGH * length * slope:  # also where it is not finite
            high = length
        elif its < _FLAT * slope:
            low = length
        elif its > -_FLAT * slope:
            high = length
        else:
            return length, now
        length = 2.0 * length if math.isinf(high) else 0.5 * (low + high)
    return best


class ConjugateGradient(FullBatch):
    """d = -g + beta d, with the beta of `variant`, a line search at each step.

    "polak-ribiere" (1969, not below 0), "fletcher-reeves" (1964), "hestenes-stiefel"
    (1952), "dai-yuan" (1999) or "conjugate-descent" (Fletcher 1987). After as many
    steps as there are numbers, and where the loss would rise, d starts anew from -g.

    >>> x = td.param("x", init=[3.0, -2.0], dtype="float64")
    >>> cg = td.optim.ConjugateGradient([x])
    >>> losses = cg.minimize(lambda: (x * x * [1.0, 10.0]).sum())
    >>> bool(losses[-1] < 1e-9)
    True
    """

    def __init__(self, params: Any, variant: str = "polak-ribiere") -> None:
        super().__init__(params)
        if variant not in _VARIANTS:
            raise ArgumentError(
                f"there is no variant {variant!r} of conjugate gradients",
                hint=f"variants: {', '.join(_VARIANTS)}",
            )
        self.variant = variant
        self._last: tuple[Array, Array] | None = None
        self._age = 0

    def direction(self, loss: Loss, gradient: Array) -> Array:
        if self._last is None or self._age >= gradient.size:
            direction, self._age = -gradient, 0
        else:
            beta = self._beta(gradient, *self._last)
            direction = -gradient + beta * self._last[1]
            if not float(direction @ gradient) < 0.0:
                direction, self._age = -gradient, 0
        self._last, self._age = (gradient, direction), self._age + 1
        return direction

    def _beta(self, g: Array, g0: Array, d: Array) -> float:
        y = g - g0
        above, below = {
            "polak-ribiere": (g @ y, g0 @ g0),
            "fletcher-reeves": (g @ g, g0 @ g0),
            "hestenes-stiefel": (g @ y, d @ y),
            "dai-yuan": (g @ g, d @ y),
            "conjugate-descent": (g @ g, -(d @ g0)),
        }[self.variant]
        beta = float(above / below) if below else 0.0
        return max(beta, 0.0) if math.isfinite(beta) else 0.0


_SHIFT = 1e-3  # of the greatest element of the diagonal, added first where H bends down


class _SecondOrder(FullBatch):
    """A FullBatch that multiplies by the Hessian."""

    def _first(self, slope: float, direction: Array) -> float:
        return 1.0  # Newton's own length, which is right near the minimum

    def _times_hessian(self, loss: Loss, vector: Array) -> Array:
        """H v, as the derivative of the sum of g v; no Hessian is formed."""
        gradients = grad(as_tensor(loss()), self.parameters, unused="zero")
        parts = zip(self.parameters, self._parts(vector), strict=True)
        along = [as_tensor(part.astype(p.dtype)) for p, part in parts]
        products = [functions.sum(g * v) for g, v in zip(gradients, along, strict=True)]
        total = products[0]
        for product in products[1:]:
            total = total + product
        return joined(grad(total, self.parameters, unused="zero"))


class Newton(_SecondOrder):
    """d = -(H + t I)^-1 g with the whole Hessian H, for some hundreds of numbers.

    t is 0 where H is positive definite; else what is missing is found by doubling
    (Nocedal and Wright, Numerical Optimization, 2006, algorithm 3.3). A step makes a
    product with H for each number and keeps n x n of them; `NewtonCG` does not.

    >>> x = td.param("x", init=2.0, dtype="float64")
    >>> td.optim.Newton([x]).step(lambda: (x - 1.0) ** 2)
    0.0
    """

    def direction(self, loss: Loss, gradient: Array) -> Array:
        n = gradient.size
        hessian = np.empty((n, n))
        unit = np.zeros(n)
        for k in range(n):
            unit[k] = 1.0
            hessian[k] = self._times_hessian(loss, unit)
            unit[k] = 0.0
        if not np.isfinite(hessian).all():
            return -gradient
        return -_solved(0.5 * (hessian + hessian.T), gradient)


def _solved(hessian: Array, gradient: Array) -> Array:
    """(H + t I)^-1 g with a t at which the matrix is positive definite."""
    least = float(hessian.diagonal().min())
    unit = _SHIFT * max(float(np.abs(hessian).max()), 1.0)
    shift = 0.0 if least > 0.0 else unit - least
    while True:
        shifted = hessian + shift * np.eye(len(hessian))
        try:
            lower = np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            shift = max(2.0 * shift, unit)
        else:
            return np.linalg.solve(lower.T, np.linalg.solve(lower, gradient))


class NewtonCG(_SecondOrder):
    """d solves H d = -g by conjugate gradients on products with the Hessian H.

    The inner solution stops at a relative residual of min(0.5, sqrt(|g|)), after
    `inner` products, or where H is not positive (Dembo and Steihaug, Truncated-Newton
    algorithms for large-scale unconstrained optimization, 1983; line search Newton-CG
    of Nocedal and Wright). No Hessian is formed.

    >>> x = td.param("x", init=2.0, dtype="float64")
    >>> td.optim.NewtonCG([x]).step(lambda: (x - 1.0) ** 2)
    0.0
    """

    def __init__(self, params: Any, inner: int = 100) -> None:
        super().__init__(params)
        self.inner = inner

    def direction(self, loss: Loss, gradient: Array) -> Array:
        d, r = np.zeros_like(gradient), -gradient
        p, rest = r, float(gradient @ gradient)
        enough = min(0.5, rest**0.25) * math.sqrt(rest)
        for _ in range(min(self.inner, 2 * gradient.size)):
            product = self._times_hessian(loss, p)
            curvature = float(p @ product)
            if not curvature > 0.0:
                break
            length = rest / curvature
            d, r = d + length * p, r - length * product
            before, rest = rest, float(r @ r)
            if math.sqrt(rest) <= enough:
                break
            p = r + (rest / before) * p
        return d if d.any() else -gradient
