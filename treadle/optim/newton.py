"""Newton's method, with the whole Hessian or with products with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from treadle.autodiff.gradient import grad
from treadle.base.arrays import Array
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import functions
from treadle.optim.full_batch import FullBatch, Loss, joined

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
