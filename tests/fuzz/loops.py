"""Random loops and branches: scans, while loops, conditions, one inside another.

`python -m tests.fuzz.loops --count 2000 --seed 0`, and with `--engine device` beside
the reference alone: values, gradients, and second
derivatives (forward over reverse) beside the reference engine's; the same bits where
the core runs the loop and where the NumPy rule does, with 1, 2 and 4 threads, and in
guarded and poisoned memory. Lengths are 0, 1 and more; threads take slices of the rows
of every second three.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np

import treadle as td
from treadle.engines.native.execution import control
from treadle.engines.native.execution.run import Run
from treadle.program import slices

__all__ = ["differing"]

LENGTHS = (0, 1, 2, 3, 7, 20)
DEEPEST = 2  # loops in loops
RTOL = 1e-8
ROW_KINDS = (0, 1, 2, 2, 4, 6, 10)  # of steps that see each row by itself, and a loop


def by_rows(seed: int) -> bool:
    """Whether all states of a seed have rows, of which threads take slices."""
    return seed // 3 % 2 == 1


class Maker:
    """Random bodies over values of a few shapes, always the same for a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.rows = int(self.rng.integers(1, 6)) + 5 * by_rows(seed)
        self.width = int(self.rng.choice([1, 3, 8, 24]))
        self.shapes = ((), (self.width,), (self.rows, self.width))
        self.draws = bool(self.rng.integers(4) == 0)
        self.by_rows = by_rows(seed)
        scale = 0.6 / np.sqrt(self.width)
        self.weights = [
            td.param(f"w{k}", init=self.rng.normal(size=(self.width,) * 2) * scale)
            for k in range(2)
        ]
        self.bias = td.param("b", init=self.rng.normal(size=self.width) * 0.3)
        self.table = td.param("t", init=self.rng.normal(size=(4, self.width)))

    def data(self, *shape: int) -> Any:
        return td.asarray(np.array(self.rng.normal(size=shape) * 0.5))

    def shape(self) -> tuple[int, ...]:
        if self.by_rows:
            return self.shapes[2]
        return self.shapes[int(self.rng.integers(len(self.shapes)))]

    def like(self, x: Any, shape: tuple[int, ...]) -> Any:
        """A value in another shape."""
        if x.ndim > len(shape):
            x = x.mean(axis=tuple(range(x.ndim - len(shape))))
        return x + td.zeros(shape, dtype="float64")

    def step(self, values: list[Any], depth: int) -> Any:
        """One more value of those there are."""
        rng, x = self.rng, values[int(self.rng.integers(len(values)))]
        y = values[int(rng.integers(len(values)))]
        kind = int(rng.integers(13 if depth < DEEPEST else 9))
        if self.by_rows:
            kind = ROW_KINDS[kind % len(ROW_KINDS)]
        if kind == 0:
            return td.tanh(x)
        if kind == 1:
            return td.tanh(x) * td.sigmoid(y) if rng.integers(2) else 0.5 * x - 0.3 * y
        if kind == 2:
            w, v = self.weights if rng.integers(2) else self.weights[::-1]
            z = self.like(x, self.shapes[2])
            if rng.integers(2):
                return z @ w + self.bias
            gate = td.sigmoid(self.like(y, self.shapes[2]) @ w + z @ v)
            return gate * td.tanh(z @ w + self.bias)
        if kind == 3:
            return td.sin(x) + self.like(
                self.table[int(rng.integers(4))], self.shapes[1]
            )
        if kind == 4:
            return td.softmax(self.like(x, self.shapes[self.by_rows + 1]), axis=-1)
        if kind == 5:
            return td.cumulative_sum(self.like(x, self.shapes[2]), axis=0) * 0.3
        if kind == 6:
            return td.exp(-(x * x)) if rng.integers(2) else td.where(x > 0, x, 0.2 * x)
        if kind == 7 and self.draws:
            return x + 0.1 * td.random.normal(x.shape, dtype="float64")
        if kind in (7, 8):
            return td.concat([self.like(x, (self.width,))[1:], self.bias[:1]])
        if kind == 9:
            chosen, other = td.tanh(x).sum() > 0, 0.5 * x
            bias, weight = self.like(self.bias, self.shapes[1]), self.weights[0]
            return td.cond(
                chosen,
                lambda v: td.sin(v) * 0.7,
                lambda v: (
                    v - (self.like(v, self.shapes[2]) @ weight).mean() + bias.sum()
                ),
                other,
            )
        if kind == 10 and not self.by_rows:
            return td.while_loop(
                lambda s: td.abs(s).sum() > 1.03,  # no sum of a softmax
                lambda s: 0.5 * td.tanh(s) + 0.01 * self.like(self.bias, s.shape).sum(),
                x,
                max_iterations=int(rng.integers(4)),
            )
        return td.tanh(self.loop(x, depth + 1)) if depth < DEEPEST else -x

    def loop(self, x: Any, depth: int) -> Any:
        """A scan that begins with a value; something of what it comes to."""
        rng = self.rng
        length = int(rng.choice(LENGTHS[: 6 - 2 * depth]))
        starts = [x, *[self.data(*self.shape()) for _ in range(rng.integers(3))]]
        given = [self.data(length, *self.shape()) for _ in range(rng.integers(1, 3))]
        plan = int(rng.integers(1 << 30))
        counts, passes = int(rng.integers(1, 5)), rng.integers(3, size=len(starts))

        def body(carry: Any, row: Any) -> Any:
            kept, self.rng = self.rng, np.random.default_rng(plan)
            values = [*carry, *row]
            for _ in range(counts):
                values.append(self.step(values, depth))
            after = [
                c if p == 0 else self.like(values[-1 - k % counts], c.shape)
                for k, (c, p) in enumerate(zip(carry, passes, strict=True))
            ]
            alike = [k for k, c in enumerate(carry) if c.shape == carry[0].shape]
            if len(alike) > 1 and passes[alike[1]] == 0:  # two change places
                after[alike[0]], after[alike[1]] = after[alike[1]], after[alike[0]]
            self.rng = kept
            return tuple(after), (after[0], values[-1], row[0])

        carry, stacks = td.scan(
            body, tuple(starts), tuple(given), reverse=bool(rng.integers(2))
        )
        pieces = [c.mean() for c in carry] + [0.1 * s.sum() for s in stacks if s.size]
        total = pieces[0]
        for piece in pieces[1:]:
            total = total + piece
        return carry[0] * 0.5 + 0.1 * total


def unbounded(make: Maker) -> Any:
    """A while loop whose length is data; derivatives do not go through it."""
    start = td.stop_gradient(make.data(*make.shape()))
    bias = make.like(make.bias, start.shape)

    def step(state: Any) -> Any:
        x, n = state
        return td.tanh(x + 0.1) * 0.9 + 0.01 * td.stop_gradient(bias), n + 1

    x, n = td.while_loop(lambda s: (s[1] < 5) & (s[0].sum() < 9.0), step, (start, 0))
    return x.mean() + n


def outcome(seed: int, order: int) -> list[Any]:
    """Values (0), gradients (1) or second derivatives (2) of the loop of a seed."""
    make = Maker(seed)
    start = td.param("x", init=np.array(make.rng.normal(size=make.shape()) * 0.5))
    found = make.loop(start, 0)
    if not order:
        return [found, unbounded(make)]
    wanted = [start, *make.weights, make.bias, make.table]
    loss = (found * found).sum() + td.sin(found).sum()
    for x in wanted:  # every one has a derivative
        loss = loss + 0.01 * (x * x).sum()
    slopes = td.grad(loss, wanted, unused="zero")
    if order == 1:
        return list(slopes)
    ahead = [make.data(*x.shape) for x in wanted]
    return list(td.jvp(slopes, wanted, ahead))


def run(seed: int, order: int, core: bool = True, **options: Any) -> list[Any]:
    """The values of an outcome, with or without the core's loops."""
    plain = patch.object(Run, "_pieces", lambda self: self.linked.watched)
    with td.options(seed=11, **options):
        graph = outcome(seed, order)
        if core:
            return [np.asarray(x) for x in td.evaluate(graph)]
        with plain:
            return [np.asarray(x) for x in td.evaluate(graph)]


def _bits(values: list[Any]) -> list[bytes]:
    return [x.tobytes() for x in values]


def differing(seed: int, order: int, engine: str = "native") -> str:
    """What differs for the loop of a seed; on others than the native engine, by more
    than rounding. Those with rows have slices at any size."""
    if not by_rows(seed):
        return _differing(seed, order, engine)
    with patch.multiple(slices, SLICE=1, PIECE=0), patch.object(control, "WORTH", 0):
        return _differing(seed, order, engine)


def _differing(seed: int, order: int, engine: str) -> str:
    first = run(seed, order, engine=engine)
    wanted = run(seed, order, engine="reference")
    ways: dict[str, Callable[[], list[Any]]] = {
        "the NumPy rule": lambda: run(seed, order, core=False, engine="native"),
        "1 thread": lambda: run(seed, order, engine="native", threads=1),
        "4 threads": lambda: run(seed, order, engine="native", threads=4),
        "guarded memory": lambda: run(seed, order, engine="native", arena="guard"),
        "poisoned memory": lambda: run(seed, order, engine="native", arena="poison"),
    }
    for k, (a, b) in enumerate(zip(first, wanted, strict=True)):
        scale = max(float(np.abs(b).max(initial=0)), 1.0)
        if a.shape != b.shape or not np.allclose(a, b, RTOL, RTOL * scale):
            return f"value {k} beside the reference: {a} and {b}"
    if engine != "native":
        return ""
    for name, way in ways.items():
        if _bits(way()) != _bits(first):
            return f"bits: {name}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", default="native")
    given = parser.parse_args()
    start, wrong = time.monotonic(), 0
    for seed in range(given.seed, given.seed + given.count):
        order = seed % 3
        try:
            found = differing(seed, order, given.engine)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found:
            wrong += 1
            print(f"seed {seed}: {found}", flush=True)
    seconds = time.monotonic() - start
    print(f"{given.count} from {given.seed}: {wrong} differ, {seconds:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
