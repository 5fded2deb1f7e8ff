"""The gradients that Variables hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.base.options import modes
from treadle.graph.tensor import Tensor, track_below

if TYPE_CHECKING:
    from treadle.graph.variable import Variable


def give_gradients(
    variables: Sequence[Variable], gradients: Sequence[Tensor | None] = ()
) -> None:
    """Have Variables hold gradients, or none."""
    # What reads a Variable is below it now: a cycle, until it is evaluated.
    waiting = [x for x in gradients if x is not None and x.stored is None]
    if waiting:
        track_below(waiting)
    for around in modes.get().transactions:
        for v in variables:
            around.note_grad(v)
    if not gradients:
        for v in variables:
            v._grad = None
        return
    for v, gradient in zip(variables, gradients, strict=True):
        v._grad = gradient
