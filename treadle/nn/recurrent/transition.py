"""Several cells as one step: deep transitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.nn.container import ModuleList
from treadle.nn.recurrent.cell import Cell, State

__all__ = ["DeepTransitionCell"]


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
