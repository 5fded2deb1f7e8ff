"""Samples of ops and calls that they refuse, by class: tests/ops/samples has them.

A class without samples of its own has those of its family, and refuses what each of its
families refuses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.base.dtypes import float32, kind
from treadle.graph.leaves import as_tensor
from treadle.graph.op import Array, Input, Op
from treadle.graph.tensor import Tensor


@dataclass(frozen=True)
class Sample:
    """An application of an op: inputs are Input or arrays; `exact` arrays are data.

    `differentiable` lists the positions a gradient is checked for (None: all inexact).
    """

    op: Op
    inputs: tuple[Any, ...]
    differentiable: tuple[int, ...] | None = None
    second_order: bool = True


@dataclass(frozen=True)
class Mistake:
    """A call that must raise `error` with a message that contains `says`."""

    call: Callable[[], Any]
    error: type[Exception]
    says: str


Rule = Callable[[Any], list[Any]]
_SAMPLES: dict[type[Op], Rule] = {}
_MISTAKES: dict[type[Op], Rule] = {}


def samples(cls: type[Op]) -> Callable[[Rule], Rule]:
    """Make a function the samples of an op, or of members of a family without any."""
    return lambda rule: _SAMPLES.setdefault(cls, rule)


def mistakes(cls: type[Op]) -> Callable[[Rule], Rule]:
    """Make a function the wrong calls of an op, or of each member of a family."""
    return lambda rule: _MISTAKES.setdefault(cls, rule)


def samples_of(cls: type[Op], after: type[Op] | None = None) -> list[Sample]:
    """The samples of an op; with `after`, those that it has without that class."""
    order = cls.__mro__[cls.__mro__.index(after) + 1 if after else 0 :]
    rule = next((_SAMPLES[c] for c in order if c in _SAMPLES), None)
    if rule is None:
        raise NotImplementedError(f"{cls.__name__} has no samples")
    return rule(cls)


def mistakes_of(cls: type[Op]) -> list[Mistake]:
    """The wrong calls of an op, after those of its families."""
    rules = [_MISTAKES[c] for c in reversed(cls.__mro__) if c in _MISTAKES]
    return [mistake for rule in rules for mistake in rule(cls)]


def drawn(x: Any, seed: int = 0) -> Array:
    """The array a sample's Input stands for; arrays and scalars pass through."""
    if not isinstance(x, Input):
        return np.asarray(x)
    rng = np.random.default_rng(seed + math.prod(x.shape) * 7919)
    k = kind(x.dtype)
    if k == "bool":
        return np.asarray(rng.integers(0, 2, x.shape).astype(bool))
    if k == "integer":
        low = max(int(x.low), 0) if x.dtype.kind == "u" else int(x.low)
        return np.asarray(rng.integers(low, int(x.high) + 1, x.shape), dtype=x.dtype)
    if x.apart:
        # Distinct values off zero: a shuffled grid of midpoints with a small jitter.
        n = math.prod(x.shape)
        steps = np.arange(n) + 0.5 + rng.uniform(-0.1, 0.1, n)
        grid = x.low + (x.high - x.low) * steps / max(n, 1)
        grid = np.where(np.abs(grid) < x.apart, grid + 2 * x.apart, grid)
        return np.asarray(rng.permutation(grid).reshape(x.shape), dtype=x.dtype)
    values = rng.uniform(x.low, x.high, x.shape)
    if k == "complex":
        values = values + 1j * rng.uniform(x.low, x.high, x.shape)
    return np.asarray(values, dtype=x.dtype)


def tensors_of(sample: Sample) -> list[Tensor]:
    """Constants for the inputs of a sample."""
    return [as_tensor(np.array(drawn(x, k))) for k, x in enumerate(sample.inputs)]


def replace_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """A sample's input in another shape."""
    return replace(x, shape=shape) if isinstance(x, Input) else np.resize(x, shape)


def unary_samples(
    op: Op,
    low: float = -2.0,
    high: float = 2.0,
    apart: float = 0.0,
    dtypes: Sequence[Any] = (float32,),
    second_order: bool = True,
) -> list[Sample]:
    """Samples of a one-operand op over the shapes every op must take."""
    shapes = [(2, 3), (), (0, 3), (1,), (7, 5), (3, 1, 4)]
    return [
        Sample(op, (Input(s, d, low, high, apart),), second_order=second_order)
        for d in dtypes
        for s in shapes
    ]


def binary_samples(
    op: Op,
    first: Input | None = None,
    second: Input | None = None,
    dtypes: Sequence[Any] = (float32,),
    second_order: bool = True,
) -> list[Sample]:
    """Samples of a two-operand op, broadcasting each way."""
    a, b = first or Input(), second or first or Input()
    shapes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
        ((2, 3), (2, 3)),
        ((2, 3), ()),
        ((3,), (2, 3)),
        ((4, 1), (1, 5)),
        ((0, 3), (3,)),
        ((7, 1), (7, 5)),
    ]
    return [
        Sample(
            op,
            (replace(a, shape=s, dtype=d), replace(b, shape=t, dtype=d)),
            second_order=second_order,
        )
        for d in dtypes
        for s, t in shapes
    ]
