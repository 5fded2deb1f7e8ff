"""The gradients that Variables hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.base.errors import ArgumentError
from treadle.base.options import modes
from treadle.graph.tensor import Tensor, track_below

if TYPE_CHECKING:
    from treadle.graph.variable import Variable


def only_none(set_to_none: bool) -> None:
    """Refuse gradients of zeros in the place of none, as torch's `set_to_none` asks."""
    if not set_to_none:
        raise ArgumentError(
            "gradients are None after zero_grad()",
            hint="td.zeros_like(p), where p.grad is None, is what False gives",
        ).located("zero_grad")


def give_gradients(
    variables: Sequence[Variable], gradients: Sequence[Tensor | None] = ()
) -> None:
    """Have Variables hold gradients, or none."""
    gradients = gradients or [None] * len(variables)
    waiting = [x for x in gradients if x is not None and x.stored is None]
    # What reads a Variable is below it now: a cycle, until it is evaluated.
    if waiting:
        track_below(waiting)
    for around in modes.get().transactions:
        for v in variables:
            around.note_grad(v)
    for v, gradient in zip(variables, gradients, strict=True):
        v._grad = gradient
