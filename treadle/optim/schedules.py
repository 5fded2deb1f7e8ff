"""Learning rates as expressions of the count i of finished steps (0 at the first).

A schedule is a function of i, a number or a tensor; it gives a float64 scalar tensor,
so a traced or compiled step reads the rate of its own step and nothing is frozen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from treadle.base.dtypes import float64
from treadle.base.errors import ArgumentError
from treadle.base.torch import missing
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand, functions
from treadle.graph.tensor import Tensor

__all__ = [
    "Schedule",
    "by_name",
    "constant",
    "cosine",
    "cyclic",
    "exponential",
    "inverse",
    "inverse_decay",
    "inverse_sqrt",
    "natural_exponential",
    "piecewise",
    "polynomial",
    "provided",
    "sigmoid",
    "step",
    "warm_up",
]

Schedule = Callable[[Any], Tensor]


@dataclass(frozen=True)
class ScheduleFormula:
    """A schedule, equal and pickled by its name and settings, as no closure is."""

    name: str
    settings: tuple[Any, ...]
    rate: Callable[[Tensor], Tensor] = field(compare=False)

    def __post_init__(self) -> None:
        for value in self.settings:
            _single(value, f"a setting of {self.name}")

    def __call__(self, i: Any) -> Tensor:
        return self.rate(_real(i))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.settings))})"

    def __reduce__(self) -> Any:
        return by_name, (self.name, *self.settings)


def _real(i: Any) -> Tensor:
    return as_tensor(i, float64).astype(float64)


def _positive(**settings: float) -> None:
    for name, value in settings.items():
        _single(value, f"{name} of a schedule")
        if not value > 0:
            raise ArgumentError(f"{name} of a schedule is above 0, got {value}")


def _single(value: Any, what: str) -> None:
    if getattr(value, "ndim", 0):
        shape = list(value.shape)
        raise ArgumentError(f"{what} is one number, got an array {shape}")


def constant(base: float) -> Schedule:
    """base.

    >>> float(constant(0.1)(5))
    0.1
    """
    return ScheduleFormula("constant", (base,), lambda i: _real(base))


def provided(rate: Operand) -> Schedule:
    """A rate read from a Variable or placeholder when the step runs.

    >>> float(provided(td.Variable(0.5))(5))
    0.5
    """
    return ScheduleFormula("provided", (rate,), lambda i: _real(rate))


def step(base: float, size: int, gamma: float = 0.1) -> Schedule:
    """base gamma^floor(i / size).

    >>> [float(step(1.0, 10, 0.5)(i)) for i in (0, 9, 10, 20)]
    [1.0, 1.0, 0.5, 0.25]
    """
    _positive(size=size)
    return ScheduleFormula(
        "step",
        (base, size, gamma),
        lambda i: base * _power(gamma, functions.floor(i / size)),
    )


def piecewise(
    base: float, points: Sequence[int], gamma: float | Sequence[float] = 0.1
) -> Schedule:
    """base, multiplied from each of the steps `points` on by gamma (or its own gamma).

    >>> rate = piecewise(1.0, [2, 4], [0.5, 0.1])
    >>> [float(rate(i)) for i in (1, 2, 4)]
    [1.0, 0.5, 0.05]
    """
    factors = [gamma] * len(points) if isinstance(gamma, (int, float)) else list(gamma)
    if len(factors) != len(points) or list(points) != sorted(points):
        raise ArgumentError("a schedule has rising points and one gamma for each")

    def rate(i: Tensor) -> Tensor:
        value = _real(base)
        for point, factor in zip(points, factors, strict=True):
            value = functions.where(i >= point, value * factor, value)
        return value

    return ScheduleFormula("piecewise", (base, tuple(points), tuple(factors)), rate)


def exponential(base: float, gamma: float) -> Schedule:
    """base gamma^i.

    >>> float(exponential(1.0, 0.5)(3))
    0.125
    """
    return ScheduleFormula(
        "exponential", (base, gamma), lambda i: base * _power(gamma, i)
    )


def natural_exponential(base: float, k: float) -> Schedule:
    """base e^(-k i).

    >>> f"{float(natural_exponential(1.0, 0.1)(10)):.4f}"
    '0.3679'
    """
    return ScheduleFormula(
        "natural_exponential", (base, k), lambda i: base * functions.exp(i * -k)
    )


def inverse(base: float, gamma: float, power: float = 1.0) -> Schedule:
    """base (1 + gamma i)^-power.

    >>> float(inverse(1.0, 0.5)(2))
    0.5
    """
    return ScheduleFormula(
        "inverse", (base, gamma, power), lambda i: base * (1.0 + gamma * i) ** -power
    )


def inverse_decay(base: float, k: float) -> Schedule:
    """base / (1 + k i).

    >>> float(inverse_decay(1.0, 1.0)(3))
    0.25
    """
    return ScheduleFormula("inverse_decay", (base, k), lambda i: base / (1.0 + k * i))


def polynomial(
    base: float, steps: int, power: float = 1.0, final: float = 0.0
) -> Schedule:
    """(base - final) (1 - i / steps)^power + final; `final` from `steps` on.

    >>> [float(polynomial(1.0, 4)(i)) for i in (0, 1, 4, 9)]
    [1.0, 0.75, 0.0, 0.0]
    """
    _positive(steps=steps)

    def rate(i: Tensor) -> Tensor:
        left = functions.maximum(1.0 - i / steps, 0.0)
        return (base - final) * left**power + final

    return ScheduleFormula("polynomial", (base, steps, power, final), rate)


def sigmoid(base: float, gamma: float, center: float) -> Schedule:
    """base / (1 + e^(-gamma (i - center))).

    >>> float(sigmoid(1.0, 0.1, 5)(5))
    0.5
    """
    return ScheduleFormula(
        "sigmoid",
        (base, gamma, center),
        lambda i: base / (1.0 + functions.exp((i - center) * -gamma)),
    )


def inverse_sqrt(base: float, steps: int, start: int = 0) -> Schedule:
    """base sqrt(steps / (i - start + steps)) from `start` on, base before (Marian).

    >>> float(inverse_sqrt(1.0, 100)(300))
    0.5
    """
    _positive(steps=steps)

    def rate(i: Tensor) -> Tensor:
        past = functions.maximum(i - start, 0.0)
        return base * functions.sqrt(steps / (past + steps))

    return ScheduleFormula("inverse_sqrt", (base, steps, start), rate)


def cosine(base: float, steps: int, final: float = 0.0) -> Schedule:
    """final + (base - final) (1 + cos(pi i / steps)) / 2; `final` from `steps` on.

    Loshchilov and Hutter, SGDR, 2017.

    >>> [round(float(cosine(1.0, 10)(i)), 3) for i in (0, 5, 10, 20)]
    [1.0, 0.5, 0.0, 0.0]
    """
    _positive(steps=steps)

    def rate(i: Tensor) -> Tensor:
        part = functions.minimum(i / steps, 1.0)
        return final + (base - final) * (1.0 + functions.cos(part * math.pi)) / 2.0

    return ScheduleFormula("cosine", (base, steps, final), rate)


def cyclic(low: float, high: float, half: int, gamma: float = 1.0) -> Schedule:
    """A triangle from low up to high and back in 2 `half` steps; height times gamma^i.

    Smith, Cyclical learning rates for training neural networks, 2017.

    >>> [round(float(cyclic(0.0, 1.0, 2)(i)), 3) for i in range(5)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    _positive(half=half)

    def rate(i: Tensor) -> Tensor:
        cycle = functions.floor(1.0 + i / (2 * half))
        height = 1.0 - functions.abs(i / half - 2.0 * cycle + 1.0)
        height = functions.maximum(height, 0.0)
        if gamma != 1.0:
            height = height * _power(gamma, i)
        return _real(low) + (_real(high) - _real(low)) * height

    return ScheduleFormula("cyclic", (low, high, half, gamma), rate)


def warm_up(
    schedule: float | Schedule, steps: int, start: float = 0.0, cycle: int = 0
) -> Schedule:
    """`schedule` times a factor rising from `start` to 1 over the first `steps` steps.

    With `cycle` the warm-up begins again every `cycle` steps (Marian). The first step
    has the factor start + (1 - start) / steps, so that it moves something.

    >>> [float(warm_up(1.0, 4)(i)) for i in (0, 1, 3, 9)]
    [0.25, 0.5, 1.0, 1.0]
    """
    _positive(steps=steps)
    if cycle and cycle < steps:
        raise ArgumentError(f"a cycle of {cycle} steps is shorter than its warm-up")
    after = schedule if callable(schedule) else constant(schedule)

    def rate(i: Tensor) -> Tensor:
        x = i - cycle * functions.floor(i / cycle) if cycle else i
        part = functions.minimum((x + 1.0) / steps, 1.0)
        return after(i) * (start + (1.0 - start) * part)

    return ScheduleFormula("warm_up", (after, steps, start, cycle), rate)


def _power(base: float, exponent: Tensor) -> Tensor:
    """base^exponent for a number and a float64 tensor."""
    return functions.pow(_real(base), exponent)


_TABLE: dict[str, Callable[..., Schedule]] = {
    name: globals()[name] for name in __all__ if name not in ("Schedule", "by_name")
}


def by_name(name: str, *args: Any, **settings: Any) -> Schedule:
    """The schedule of that name with its settings; an error tells what is missing.

    >>> float(by_name("step", 1.0, size=10)(0))
    1.0
    """
    if name not in _TABLE:
        raise ArgumentError(
            f"there is no schedule {name!r}", hint=f"schedules: {', '.join(_TABLE)}"
        )
    try:
        return _TABLE[name](*args, **settings)
    except TypeError as error:
        raise ArgumentError(f"schedule {name!r}: {error}") from None


if not TYPE_CHECKING:  # where it would give any name a type

    def __getattr__(name: str) -> object:
        raise missing(__name__, name)


def __dir__() -> list[str]:
    return __all__
