"""The gradients that Variables hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treadle.base.options import modes
from treadle.core import native

if TYPE_CHECKING:
    from treadle.graph.tensor import Tensor
    from treadle.graph.variable import Variable


def give_gradients(
    variables: Sequence[Variable], gradients: Sequence[Tensor | None] = ()
) -> None:
    """Have Variables hold gradients, or none."""
    for around in modes.get().transactions:
        for v in variables:
            around.note_grad(v)
    if native is not None:
        native.give_gradients(variables, gradients)
        return
    every = gradients or [None] * len(variables)
    for v, gradient in zip(variables, every, strict=True):
        v._grad = gradient
