"""Cells over the steps of a sequence, in layers side by side, several as one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base import trees
from treadle.base.errors import ArgumentError, AxisError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.operators import Operand
from treadle.graph.tensor import Tensor
from treadle.nn.container import ModuleList
from treadle.nn.recurrent.cell import Cell, State, first
from treadle.ops.join import concat, stack
from treadle.ops.naming import named_like, unname

__all__ = [
    "DeepTransitionCell",
]


def one_by_one(
    advance: Callable[[Any, State, Any], State],
    steps: Sequence[Any],
    state: State = None,
    mask: Any = None,
    backwards: bool = False,
) -> tuple[list[Tensor], State]:
    """Outputs in the order of the steps, and the last state; each step is recorded.

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


def concatenated(xs: Sequence[Any]) -> Any:
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


def plain_state(state: State, axes: Sequence[str | None]) -> State:
    """A state without axis names; those of its batch, if it has some, are these."""
    leaves, structure = trees.flatten(state)
    for x in leaves:
        names = x.axes if isinstance(x, Operand) else None
        if names is not None and names[1:-1] != axes[1:-1]:
            raise AxisError(
                f"a state {x.node().type} beside a batch of axes {axes[1:-1]}",
                hint="a state is (layers directions, ..., hidden): td.rename_axes",
            )
    return trees.unflatten(
        structure, [unname(x) if isinstance(x, Operand) else x for x in leaves]
    )


def named_state(state: State, axes: Sequence[str | None]) -> State:
    """A state with these axis names."""
    leaves, structure = trees.flatten(state)
    return trees.unflatten(structure, [named_like(x, tuple(axes)) for x in leaves])


def joined(states: Sequence[State]) -> State:
    """States of all layers as one, (layers directions, ...): what `parted` parts."""
    if isinstance(states[0], (tuple, list)):
        return tuple(stack(list(parts)) for parts in zip(*states, strict=True))
    return stack(list(states))


class DeepTransitionCell(Cell):
    """A cell that takes the input, then cells without input, as one step.

    Pascanu, Gulcehre, Cho and Bengio, How to construct deep recurrent neural networks,
    2014; Nematus and Marian train such GRUs (`input_size` 0 makes a cell without).

    >>> make = td.nn.NematusGRUCell
    >>> cell = td.nn.DeepTransitionCell([make(3, 4), make(0, 4), make(0, 4)])
    >>> cell(td.ones((2, 3))).shape
    (2, 4)
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        if not cells:
            raise ArgumentError("a deep transition has at least one cell")
        first, *rest = cells
        super().__init__(first.input_size, first.hidden_size)
        for k, cell in enumerate(rest, 1):
            like = cell.hidden_size == first.hidden_size and cell.states == first.states
            if cell.input_size or not like:
                raise ArgumentError(
                    f"cell {k} of a deep transition has no input and a state like the "
                    "first's",
                    hint="make it with input_size=0",
                )
        self.cells = ModuleList(cells)
        self.states = first.states

    def initial_state(self, lead: Any = (), dtype: Any = None) -> State:
        return self.cells[0].initial_state(lead, dtype)

    def project(self, x: Any) -> Any:
        return self.cells[0].project(x)

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        for k, cell in enumerate(self.cells):
            state = cell.step(None if k else projected, state, mask)
        return state

    def extra_repr(self) -> str:
        return ""
