"""Transforms: what an optimizer is composed of, as (init, update) pairs of graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from treadle.base.dtypes import float32
from treadle.base.errors import ArgumentError
from treadle.base.types import Type
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor
from treadle.optim.moves import (
    Initial,
    Move,
    States,
    clipped,
    compensated,
    shrunk,
    subtract,
)

__all__ = ["Initial", "States", "Transform", "chain", "identity", "moving", "stateless"]

Update = Callable[[Tensor, Mapping[str, Tensor], Tensor, Tensor], tuple[Tensor, States]]


@dataclass(frozen=True, eq=False)
class Transform:
    """A pair: `init(type)` of a parameter gives its first states by name, and
    `update(gradient, states, parameter, step)` gives (direction, new states).

    All four are expressions; `step` counts the finished steps, as a float64 scalar.
    The parameter becomes parameter - lr * direction. With `rowwise`, a state that has
    the parameter's shape may be updated at some rows alone. A `fixed` one builds the
    same graph at every step, so that it is traced once; others are asked each time.
    `move` says otherwise than by subtraction how a parameter follows the direction.
    A `resting` one moves nothing where the gradient is 0, so that updates of some rows
    are what updates of all rows give.
    States named in `counts` follow from nothing but themselves: parameters that are
    always updated together have them in common.

    >>> from treadle.optim import rules, transform
    >>> heavy = transform.chain(rules.add_decayed_weights(0.1), rules.trace(0.9))
    >>> list(heavy.init(td.ones(3).type))
    ['momentum']
    """

    init: Callable[[Type], Initial]
    update: Update
    rowwise: bool = False
    fixed: bool = False
    move: Move = subtract
    counts: tuple[str, ...] = ()
    resting: bool = False

    def states(self, t: Type) -> Initial:
        """The first states of a parameter: those of the rule and of the move."""
        return {**self.init(t), **self.move.init(t)}

    @property
    def by_rows(self) -> bool:
        """Whether rows of a parameter can be changed by themselves."""
        return self.rowwise and self.move.rowwise

    @property
    def rests(self) -> bool:
        """Whether a parameter stays as it is where its gradient is 0."""
        return self.resting and self.move is subtract


def stateless(
    rule: Callable[[Tensor, Tensor, Tensor], Tensor], rowwise: bool = True
) -> Transform:
    """A transform without states: direction = rule(gradient, parameter, step).

    >>> flip = stateless(lambda gradient, parameter, step: -gradient)
    >>> x = td.ones(())
    >>> float(flip.update(x, {}, x, x)[0])
    -1.0
    """

    def update(
        gradient: Tensor, states: Mapping[str, Tensor], parameter: Tensor, step: Tensor
    ) -> tuple[Tensor, States]:
        return rule(gradient, parameter, step), {}

    return Transform(lambda _: {}, update, rowwise, is_ours(rule))


def is_ours(rule: Callable[..., Any]) -> bool:
    """Whether the library wrote a rule: a user's may look at what changes."""
    return str(getattr(rule, "__module__", "")).startswith("treadle.")


def identity() -> Transform:
    """The direction is the gradient: plain descent.

    >>> x = td.ones(())
    >>> identity().update(x, {}, x, x)[0] is x
    True
    """
    return replace(stateless(lambda gradient, parameter, step: gradient), resting=True)


def chain(*parts: Transform) -> Transform:
    """Transforms one after the other; each one's direction is the next one's gradient.

    States keep their names; a name that occurs again gets the position of its part.

    >>> from treadle.optim import rules
    >>> both = chain(rules.trace(0.9), rules.trace(0.5))
    >>> list(both.init(td.ones(()).type))
    ['momentum', 'momentum.1']
    """
    if len(parts) == 1:
        return parts[0]

    def names(t: Type) -> list[tuple[Transform, Initial, dict[str, str]]]:
        taken: set[str] = set()
        named = []
        for k, part in enumerate(parts):
            initial = part.init(t)
            outer = {x: x if x not in taken else f"{x}.{k}" for x in initial}
            taken |= set(outer.values())
            named.append((part, initial, outer))
        return named

    def init(t: Type) -> Initial:
        return {
            outer[name]: array
            for _, initial, outer in names(t)
            for name, array in initial.items()
        }

    def update(
        gradient: Tensor, states: Mapping[str, Tensor], parameter: Tensor, step: Tensor
    ) -> tuple[Tensor, States]:
        direction, changed = gradient, {}
        # Names depend on no extent, so a scalar stands for the parameter's type.
        for part, _, outer in names(Type((), parameter.type.dtype)):
            inner = {name: states[outside] for name, outside in outer.items()}
            direction, new = part.update(direction, inner, parameter, step)
            changed.update({outer[name]: value for name, value in new.items()})
        return direction, changed

    rowwise = all(part.rowwise for part in parts)
    fixed = all(part.fixed for part in parts)
    scalar = names(Type((), float32))
    counts = tuple(initial[name] for part, _, initial in scalar for name in part.counts)
    resting = all(part.resting for part in parts)
    return Transform(init, update, rowwise, fixed, counts=counts, resting=resting)


def moving(
    rule: Transform, kahan: bool, clip_weights: Any, decay_after: Any = 0.0
) -> Transform:
    """The rule with Kahan's sum in place of a plain one, with parameters that shrink
    and are clipped after it.

    >>> moving(identity(), True, None).move is compensated
    True
    """
    if kahan and rule.move is not subtract:
        raise ArgumentError("Kahan's compensation is for rules that subtract")
    move = compensated if kahan else rule.move
    if not isinstance(decay_after, (int, float)) or decay_after:
        if not isinstance(decay_after, Operand) and not 0 <= decay_after <= 1:
            raise ArgumentError(f"decay_after is from 0 to 1, got {decay_after}")
        move = shrunk(move, decay_after)
    if clip_weights is not None:
        move = clipped(move, clip_weights)
    return replace(rule, move=move)
