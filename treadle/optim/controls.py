"""Gradient controls: what is done to gradients before a rule; scaling of the loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.base.dtypes import float64
from treadle.base.errors import ArgumentError
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.optim.gradients import (
    Gradient,
    NormAverage,
    all_finite,
    clip_by_norm,
    clip_by_value,
    global_norm,
    times,
)
from treadle.optim.stamp import Stamped


class LossScale:
    """The factor of the loss while it is derived; gradients are divided by it again.

    After `interval` finite steps it grows by `growth`, within `largest`; a step whose
    gradients are not finite multiplies it by `backoff`, down to `smallest`, and changes
    nothing else. `growth=1, backoff=1` keeps it. Micikevicius et al., Mixed precision
    training, 2018.

    >>> x = td.param("x", init=2.0)
    >>> opt = td.optim.SGD(lr=0.25, loss_scale=td.optim.LossScale(1024.0))
    >>> float(opt.step(x * x)), float(x), opt.loss_scale.value
    (4.0, 1.0, 1024.0)
    """

    def __init__(
        self,
        initial: float = 65536.0,
        growth: float = 2.0,
        backoff: float = 0.5,
        interval: int = 2000,
        smallest: float = 1.0,
        largest: float = 2.0**24,
    ) -> None:
        if not 0.0 < smallest <= initial <= largest:
            raise ArgumentError(
                f"a loss scale lies within {smallest} and {largest}, not {initial}"
            )
        if not (growth >= 1.0 and 0.0 < backoff <= 1.0 and interval >= 1):
            raise ArgumentError(
                "a loss scale grows by at least 1, backs off by at most 1, "
                f"after 1 step or more; got {growth}, {backoff}, {interval}"
            )
        self.growth, self.backoff, self.interval = growth, backoff, interval
        self.smallest, self.largest = smallest, largest
        self.scale = Variable(np.float32(initial), name="loss_scale")
        self.steps = Variable(np.zeros((), np.int64), name="loss_scale_steps")

    @property
    def value(self) -> float:
        """The factor of the next step."""
        return float(self.scale)

    def states(self) -> dict[str, Variable]:
        """The states that are kept, by name."""
        return {"loss_scale": self.scale, "loss_scale_steps": self.steps}

    def next(self, finite: Tensor) -> list[tuple[Variable, Any]]:
        """The scale and the count after a step."""
        scale, steps = self.scale.node(), self.steps.node() + 1
        due = steps >= self.interval
        up = functions.minimum(scale * self.growth, self.largest)
        down = functions.maximum(scale * self.backoff, self.smallest)
        after = functions.where(due, up, scale)
        kept = functions.where(due, 0, steps)
        return [
            (self.scale, functions.where(finite, after, down)),
            (self.steps, functions.where(finite, kept, 0)),
        ]


POLICIES = ("skip", "raise", "scale down")
Changes = list[tuple[Variable, Any]]
_NUMBERS = (type(None), int, float)


@dataclass(frozen=True)
class Controlled:
    """Gradients as rules see them; `hold` is True where nothing is to change now.

    `finite` tells whether all gradients are, where anybody wants to know, and `sums`
    are the next sums of gradients that wait for an update.
    """

    gradients: list[Gradient]
    hold: Tensor | None
    changes: Changes
    finite: Tensor | None
    sums: list[Tensor]


class Measures:
    """What controls ask of all gradients at once, here of those of one process."""

    whole = True  # these are all gradients: others have none
    empty = False  # others have all of them

    def finite(self, gradients: Sequence[Gradient]) -> Tensor:
        """Whether all gradients are finite."""
        return all_finite(gradients)

    def norm(self, gradients: Sequence[Gradient]) -> Tensor:
        """The norm of all gradients together."""
        return global_norm(gradients)


class Controls(Stamped):
    """In this order: loss scale, gradients that are not finite, sums over several
    steps, the average of the norm, clipping by element and by norm."""

    def __init__(
        self,
        clip_norm: Any,
        clip_value: Any,
        on_nan: str | None,
        loss_scale: LossScale | float | None,
        norms: NormAverage | None,
        accumulate: float,
    ) -> None:
        if on_nan is not None and on_nan not in POLICIES:
            raise ArgumentError(
                f"on_nan is None or one of {', '.join(POLICIES)}, not {on_nan!r}"
            )
        if not accumulate >= 1:
            raise ArgumentError(
                f"gradients are summed over 1 step or more, not {accumulate}",
                hint="Model.fit(split=2) makes two steps of each batch",
            )
        if isinstance(loss_scale, (int, float)):
            loss_scale = LossScale(
                float(loss_scale), 1.0, 1.0, smallest=1e-30, largest=1e30
            )
        if loss_scale is None and on_nan == "scale down":
            loss_scale = LossScale()
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.on_nan, self.loss_scale, self.norms = on_nan, loss_scale, norms
        self.accumulate = accumulate
        self.measures = Measures()
        self.skipped = Variable(np.zeros((), np.int64), name="skipped")
        self.gathered = Variable(np.zeros((), np.int64), name="gathered")
        self.owed = Variable(np.zeros((), np.float64), name="owed", dtype=float64)

    @property
    def gathers(self) -> bool:
        """Whether gradients of several steps are summed."""
        return self.accumulate > 1

    @property
    def measured(self) -> bool:
        """Whether anything is asked of all gradients at once."""
        return bool(self.watches or self.norms or self.clip_norm is not None)

    @property
    def watches(self) -> bool:
        """Whether gradients that are not finite are noticed."""
        return self.on_nan is not None or self.loss_scale is not None

    def raised(self, finite: Tensor | None) -> list[Tensor]:
        """The node by which a step may raise: whether all gradients are finite."""
        return [finite] if self.on_nan == "raise" and finite is not None else []

    def refuse_traces(self) -> None:
        """Raise where gradients are to be looked at, and there is nothing to see."""
        if self.on_nan == "raise":
            raise ArgumentError(
                'on_nan="raise" cannot look at values inside a traced function',
                hint='step outside of it, or let on_nan be "skip"',
            )

    def sign(self) -> tuple[Any, ...] | None:
        """The key of the graph that is made of gradients; None if not numbers alone."""
        if self.loss_scale is not None or self.norms is not None:
            return None
        if not self.measures.whole and (self.measured or self.measures.empty):
            return None
        norm, value = self.clip_norm, self.clip_value
        if type(norm) not in _NUMBERS or type(value) not in _NUMBERS:
            return None
        if self.on_nan == "raise":
            return None
        return norm, value, self.on_nan, self.accumulate

    def counts(self) -> list[Variable]:
        """The Variables that are always there."""
        return [self.skipped, self.gathered, self.owed]

    def states(self) -> dict[str, Variable]:
        """The state Variables that are no parameter's, by name."""
        states: dict[str, Variable] = {}
        if self.watches:
            states["skipped"] = self.skipped
        if self.gathers:
            states |= {"gathered": self.gathered, "owed": self.owed}
        if self.loss_scale is not None:
            states |= self.loss_scale.states()
        if self.norms is not None:
            states |= self.norms.states()
        return states

    def apply(
        self, derived: Sequence[Gradient], sums: Sequence[Tensor], flush: bool = False
    ) -> Controlled:
        """The gradients a rule is to see, from those of the loss and the sums; with
        `flush` from the sums alone, which wait no longer."""
        if flush:
            means, left, none, changes = self._flushed(derived, sums)
            return self._clipped(means, none, changes, None, left)
        gradients, changes = list(derived), []
        finite = hold = None
        if self.loss_scale is not None:
            gradients = times(gradients, 1.0 / self.loss_scale.scale.node())
        if self.watches:
            finite = self.measures.finite(gradients)
            hold = ~finite
            count = self.skipped.node()
            changes.append((self.skipped, functions.where(finite, count, count + 1)))
            if self.loss_scale is not None:
                changes += self.loss_scale.next(finite)
        later: list[Tensor] = []
        if self.gathers:
            gradients, later, hold, counts = self._gathered(gradients, sums, finite)
            changes += counts
        return self._clipped(gradients, hold, changes, finite, later)

    def _clipped(
        self,
        gradients: list[Gradient],
        hold: Tensor | None,
        changes: Changes,
        finite: Tensor | None,
        later: list[Tensor],
    ) -> Controlled:
        """The gradients and changes to apply, clipped to the norms."""
        if self.norms is not None:
            norm_changes, factor = self.norms.next(self.measures.norm(gradients))
            changes += kept_where(norm_changes, hold)
            if factor is not None:
                gradients = times(gradients, factor)
        if self.clip_value is not None:
            gradients = clip_by_value(gradients, self.clip_value)
        if self.clip_norm is not None:
            norm = self.measures.norm(gradients)
            gradients = clip_by_norm(gradients, self.clip_norm, norm)
        return Controlled(gradients, hold, changes, finite, later)

    def _gathered(
        self,
        gradients: Sequence[Gradient],
        sums: Sequence[Tensor],
        finite: Tensor | None,
    ) -> tuple[list[Gradient], list[Tensor], Tensor, Changes]:
        """The means of the gradients so far, the sums to keep, whether to wait."""
        one: Any = 1 if finite is None else functions.where(finite, 1, 0)
        count, owed = self.gathered.node() + one, self.owed.node() + one
        due = owed >= self.accumulate
        if finite is not None:
            due = due & finite
        share = 1.0 / functions.maximum(count, 1).astype(float64)
        means, later = [], []
        for gradient, before in zip(gradients, sums, strict=True):
            total = before + gradient.value
            if finite is not None:
                total = functions.where(finite, total, before)
            mean = total * share.astype(total.type.dtype)
            means.append(replace(gradient, value=mean))
            later.append(functions.where(due, 0.0, total))
        changes: Changes = [
            (self.gathered, functions.where(due, 0, count)),
            (self.owed, functions.where(due, owed - self.accumulate, owed)),
        ]
        return means, later, ~due, changes

    def _flushed(
        self, gradients: Sequence[Gradient], sums: Sequence[Tensor]
    ) -> tuple[list[Gradient], list[Tensor], Tensor, Changes]:
        """The means of what waits, no sums to keep, whether nothing waits."""
        count = self.gathered.node()
        share = 1.0 / functions.maximum(count, 1).astype(float64)
        means = [
            replace(g, value=s * share.astype(s.type.dtype))
            for g, s in zip(gradients, sums, strict=True)
        ]
        changes: Changes = [(self.gathered, 0), (self.owed, 0.0)]
        return means, [s * 0.0 for s in sums], count < 1, changes


def kept_where(changes: Changes, hold: Tensor | None) -> Changes:
    """The changes, but the old value where `hold` is true."""
    if hold is None:
        return changes
    return [(v, functions.where(hold, v.node(), x)) for v, x in changes]
