"""L-BFGS with torch's signature: a closure, a history of steps, strong Wolfe."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle.base.arrays import Array
from treadle.base.errors import ArgumentError
from treadle.optim.full_batch import FullBatch, Loss

Along = Callable[[float], tuple[float, float, Array]]
_DECREASE = 1e-4  # of Wolfe's first condition
_CURVATURE = 0.9  # of his second
_BRACKETS = 25  # looks at the loss in one line search


class LBFGS(FullBatch):
    """Quasi-Newton steps from the last `history_size` changes of the gradient.

    `step(closure)` makes up to `max_iter` iterations; `closure` builds the loss. The
    first length is min(1, 1 / |g|_1) lr, later ones lr, and with
    `line_search_fn="strong_wolfe"` the start of a search by cubic interpolation.
    Ended by max|g| of `tolerance_grad`, by changes below `tolerance_change` or by
    `max_eval` looks at the loss. Returned is the loss before the step, as torch does.
    Liu and Nocedal 1989; Nocedal and Wright, algorithms 3.5, 3.6 and 7.4.

    >>> x = td.param("x", init=[3.0, -2.0], dtype="float64")
    >>> opt = td.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> round(opt.step(lambda: ((x - 1.0) ** 2 * [1.0, 10.0]).sum()), 6)
    94.0
    >>> bool(abs(x.numpy() - 1.0).max() < 1e-4)
    True
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        super().__init__(params)
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(
                f'line_search_fn is None or "strong_wolfe", not {line_search_fn!r}'
            )
        if not lr > 0:
            raise ArgumentError(f"a learning rate is above 0, got {lr}")
        self.lr = lr
        self.max_iter = max_iter
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self.tolerance_grad = tolerance_grad
        self.tolerance_change = tolerance_change
        self.history_size = history_size
        self.line_search_fn = line_search_fn
        self.iterations = self.evaluations = 0
        self._pairs: list[tuple[Array, Array]] = []  # changes of place and gradient
        self._scale = 1.0
        self._last: tuple[Array, float] | None = None  # what moved it last
        self._before: Array | None = None  # the gradient there

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients that a closure's backward() has added; none are read."""
        for p in self.parameters:
            p.zero_grad(set_to_none)

    def direction(self, loss: Loss, gradient: Array) -> Array:
        """-H g by the two loops over the history."""
        q, weights = -gradient, []
        for s, y in reversed(self._pairs):
            weights.append(float(s @ q) / float(s @ y))
            q = q - weights[-1] * y
        q = q * self._scale
        for (s, y), weight in zip(self._pairs, reversed(weights), strict=True):
            q = q + (weight - float(y @ q) / float(s @ y)) * s
        return q

    def step(self, loss: Loss) -> float:
        """Up to `max_iter` iterations against the loss that `loss()` builds."""
        value, gradient = self._at(loss)
        first, looks = value, 1
        self.evaluations += 1
        self.gradient_norm = float(np.linalg.norm(gradient))
        for iteration in range(1, self.max_iter + 1):
            if float(np.abs(gradient).max()) <= self.tolerance_grad:
                break
            direction = self._remembered(loss, gradient)
            slope = float(gradient @ direction)
            if slope > -self.tolerance_change:
                break
            start, before = self._vector(), value
            length, value, gradient, more = self._line_search(
                loss, start, direction, value, gradient, iteration < self.max_iter
            )
            self._last = direction, length
            looks += more
            self.evaluations += more
            self.gradient_norm = float(np.linalg.norm(gradient))
            small = float(np.abs(direction * length).max()) <= self.tolerance_change
            still = abs(value - before) < self.tolerance_change
            if looks >= self.max_eval or small or still:
                break
        return first

    def _remembered(self, loss: Loss, gradient: Array) -> Array:
        """The next direction, after the last move has entered the history."""
        self.iterations += 1
        if self._before is not None and self._last is not None:
            s, y = self._last[0] * self._last[1], gradient - self._before
            along = float(y @ s)
            if along > 1e-10:
                self._pairs = [*self._pairs, (s, y)][-self.history_size :]
                self._scale = along / float(y @ y)
        self._before = gradient
        return self.direction(loss, gradient)

    def _line_search(
        self,
        loss: Loss,
        start: Array,
        direction: Array,
        value: float,
        gradient: Array,
        look: bool,
    ) -> tuple[float, float, Array, int]:
        """A line search: the length, the loss and gradient there, and how often the
        loss was looked at."""
        length = self.lr
        if self.iterations == 1:
            length *= min(1.0, 1.0 / float(np.abs(gradient).sum()))

        def along(far: float) -> tuple[float, float, Array]:
            self._set(start + far * direction)
            now, g = self._at(loss)
            return now, float(g @ direction), g

        if self.line_search_fn is not None:
            here = (0.0, value, float(gradient @ direction), gradient)
            size = float(np.abs(direction).max())
            search = _StrongWolfe(along, here, size, self.tolerance_change)
            length, value, _, gradient = search.run(length)
            self._set(start + length * direction)
            return length, value, gradient, search.looks
        self._set(start + length * direction)
        if not look:
            return length, value, gradient, 0
        value, gradient = self._at(loss)
        return length, value, gradient, 1


Point = tuple[float, float, float, Array]  # length, loss, slope, gradient


class _StrongWolfe:
    """A line search: an interval that has a good length, then ever smaller ones."""

    def __init__(self, along: Along, start: Point, size: float, least: float) -> None:
        self.along, self.start, self.size, self.least = along, start, size, least
        self.looks = 0

    def _point(self, length: float) -> Point:
        self.looks += 1
        return (length, *self.along(length))

    def _falls(self, point: Point) -> bool:
        """Whether the loss has fallen enough for the length."""
        _, value, slope, _ = self.start
        return point[1] <= value + _DECREASE * point[0] * slope

    def _flat(self, point: Point) -> bool:
        return abs(point[2]) <= -_CURVATURE * self.start[2]

    def run(self, length: float) -> Point:
        """The point of a length that fulfils both conditions, or the lowest seen."""
        before, now = self.start, self._point(length)
        rounds = 0
        while rounds < _BRACKETS:
            if not self._falls(now) or (rounds > 1 and now[1] >= before[1]):
                return self._zoom(before, now, rounds)
            if self._flat(now):
                return now
            if now[2] >= 0:
                return self._zoom(before, now, rounds)
            low = now[0] + 0.01 * (now[0] - before[0])
            length = _cubic(before, now, low, now[0] * 10)
            before, now = now, self._point(length)
            rounds += 1
        return min(self.start, now, key=lambda p: p[1])

    def _zoom(self, a: Point, b: Point, rounds: int) -> Point:
        """The best point between two, of which one is too far."""
        low, high = (a, b) if a[1] <= b[1] else (b, a)
        stuck = False
        while rounds < _BRACKETS:
            if abs(high[0] - low[0]) * self.size < self.least:
                break
            left, right = sorted((low[0], high[0]))
            length = _cubic(low, high, left, right)
            edge = 0.1 * (right - left)
            if min(right - length, length - left) < edge:
                if stuck or length >= right or length <= left:
                    near = abs(length - right) < abs(length - left)
                    length, stuck = (right - edge if near else left + edge), False
                else:
                    stuck = True
            else:
                stuck = False
            now = self._point(length)
            rounds += 1
            if not self._falls(now) or now[1] >= low[1]:
                high = now
                if low[1] > high[1]:
                    low, high = high, low
                continue
            if self._flat(now):
                return now
            if now[2] * (high[0] - low[0]) >= 0:
                high = low
            low = now
        return low


def _cubic(a: Point, b: Point, low: float, high: float) -> float:
    """The minimum in [low, high] of the cubic through two losses and slopes."""
    (x1, f1, g1, _), (x2, f2, g2, _) = (a, b) if a[0] <= b[0] else (b, a)
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1 * d1 - g1 * g2
    if not square >= 0:
        return (low + high) / 2
    d2 = math.sqrt(square)
    place = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    return min(max(place, low), high)
