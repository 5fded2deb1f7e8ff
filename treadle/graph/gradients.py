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
    variables: Sequence[Variable],
    gradients: Sequence[Tensor | None] = (),
    fresh: bool = False,
) -> bool:
    """Have Variables hold gradients, or none; `fresh` ones only where nobody holds any.
    Whether they do."""
    for around in modes.get().transactions:
        for v in variables:
            around.note_grad(v)
    if native is not None:
        return bool(native.give_gradients(variables, gradients, fresh))
    if fresh and any(v._grad is not None for v in variables):
        return False
    every = gradients or [None] * len(variables)
    for v, gradient in zip(variables, every, strict=True):
        v._grad = gradient
    return True
