"""A cell over the steps of a sequence, and the states of layers side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.errors import ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor
from treadle.nn.recurrent.cell import State, first
from treadle.ops.join import concat, stack

__all__ = ["beside", "joined", "one_by_one", "parted"]


def one_by_one(
    advance: Callable[[Any, State, Any], State],
    steps: Sequence[Any],
    state: State = None,
    mask: Any = None,
    backwards: bool = False,
) -> tuple[list[Tensor], State]:
    """Outputs in the order of the steps, and the last state; each step is recorded.

    >>> import treadle as td
    >>> cell = td.nn.RNNCell(2, 3)
    >>> ys, last = one_by_one(cell.advance, td.ones((4, 2)), backwards=True)
    >>> len(ys), last is ys[0]
    (4, True)
    """
    outputs: list[Tensor] = []
    ordered = list(steps)
    for x in reversed(ordered) if backwards else ordered:
        state = advance(x, state, mask)
        outputs.append(first(state))
    return (outputs[::-1] if backwards else outputs), state


def beside(xs: Sequence[Any]) -> Any:
    """Tensors joined along the last dimension; one stays as it is."""
    return concat(list(xs), -1) if len(xs) > 1 else xs[0]


def parted(state: State, count: int) -> list[State]:
    """The state of each layer and direction; None where zeros are meant."""
    if state is None:
        return [None] * count
    if isinstance(state, (tuple, list)):
        every = [_rows(part, count) for part in state]
        return list(zip(*every, strict=True))
    return _rows(state, count)


def _rows(part: Any, count: int) -> list[Any]:
    node = part if isinstance(part, Operand) else as_tensor(part)
    shape = node.node().shape
    if not shape or shape[0] != count:
        raise ShapeError(
            f"a state is (layers directions, ..., hidden), here ({count}, ...); "
            f"got {node.node().type}"
        )
    return [node[k] for k in range(count)]


def joined(states: Sequence[State]) -> State:
    """States of all layers as one, (layers directions, ...): what `parted` parts."""
    if isinstance(states[0], (tuple, list)):
        return tuple(stack(list(parts)) for parts in zip(*states, strict=True))
    return stack(list(states))
