"""Moves: how a parameter goes along the direction that a rule gave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from treadle.base.types import Type
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor

__all__ = ["Move", "clipped", "compensated", "exponentiated", "shrunk", "subtract"]

Initial = dict[str, np.ndarray[Any, Any]]
States = dict[str, Tensor]
To = Callable[[Tensor, Tensor, Tensor, Mapping[str, Tensor]], tuple[Tensor, States]]


@dataclass(frozen=True)
class Move:
    """A pair: `init(type)` of a parameter gives its first states by name, and
    `to(parameter, direction, rate, states)` gives (next value, next states).

    The value may be in the direction's dtype; it is stored in the parameter's. With
    `copies` a parameter of 16 bits is moved in a copy of 32, else as it is.
    """

    init: Callable[[Type], Initial]
    to: To
    rowwise: bool = True
    copies: bool = True


def _straight(
    p: Tensor, direction: Tensor, rate: Tensor, states: Mapping[str, Tensor]
) -> tuple[Tensor, States]:
    return p.astype(direction.type.dtype) - direction * rate, {}


def _along_kahan(
    p: Tensor, direction: Tensor, rate: Tensor, states: Mapping[str, Tensor]
) -> tuple[Tensor, States]:
    wide = p.astype(direction.type.dtype)
    y = direction * -rate - states["compensation"]
    stored = (wide + y).astype(p.type.dtype)
    lost = (stored.astype(wide.type.dtype) - wide) - y
    return stored, {"compensation": lost}


def _multiplied(
    p: Tensor, direction: Tensor, rate: Tensor, states: Mapping[str, Tensor]
) -> tuple[Tensor, States]:
    logits = functions.log(p.astype(direction.type.dtype)) - direction * rate
    value = functions.exp(logits - logits.max())
    return value / value.sum(), {}


subtract = Move(lambda _: {}, _straight)
"""p - rate direction."""

compensated = Move(
    lambda t: {"compensation": np.zeros(t.shape, t.dtype)}, _along_kahan, copies=False
)
"""p - rate direction, with what rounding lost carried on to the next step.

y = -rate direction - c, p' = p + y, c = (p' - p) - y. Kahan, Further remarks on
reducing truncation errors, 1965.
"""

exponentiated = Move(lambda _: {}, _multiplied, rowwise=False)
"""p e^(-rate direction), divided by its sum: p stays positive, with the sum 1."""


def clipped(move: Move, limit: Any) -> Move:
    """`move`, then every element brought into [-limit, limit].

    >>> p, g, rate = td.asarray([1.0]), td.asarray([-3.0]), td.asarray(1.0)
    >>> clipped(subtract, 2.0).to(p, g, rate, {})[0].tolist()
    [2.0]
    """

    def to(
        p: Tensor, direction: Tensor, rate: Tensor, states: Mapping[str, Tensor]
    ) -> tuple[Tensor, States]:
        value, new = move.to(p, direction, rate, states)
        return functions.minimum(functions.maximum(value, -limit), limit), new

    return Move(move.init, to, move.rowwise, move.copies)


def shrunk(move: Move, decay: Any) -> Move:
    """`move`, then the whole parameter times 1 - decay, whatever its gradient is.

    >>> p, g, rate = td.asarray([4.0]), td.asarray([2.0]), td.asarray(1.0)
    >>> shrunk(subtract, 0.25).to(p, g, rate, {})[0].tolist()
    [1.5]
    """

    def to(
        p: Tensor, direction: Tensor, rate: Tensor, states: Mapping[str, Tensor]
    ) -> tuple[Tensor, States]:
        value, new = move.to(p, direction, rate, states)
        return value * (1 - decay), new

    return Move(move.init, to, rowwise=False, copies=move.copies)
