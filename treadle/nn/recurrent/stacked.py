"""The cells of a stack of layers, and their steps as functions that are traced once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from treadle.nn.recurrent.batch import LoopCell, stepping
from treadle.nn.recurrent.cell import Cell, State
from treadle.runtime.function import function


class StackedCells:
    """Cells, whose parameters stand in the stack, so that they are no parts of it."""

    def __init__(self) -> None:
        self.cells: list[Cell] = []
        self.names: list[list[tuple[str, str]]] = []
        self.calls: dict[int, Callable[..., State]] = {}
        self.loops: dict[int, LoopCell] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "calls": {}, "loops": {}}  # traces are made again

    def looped(self, k: int) -> LoopCell:
        """A cell with its step in a loop."""
        if k not in self.loops:
            cell = self.cells[k]
            self.loops[k] = LoopCell(cell, function(stepping(cell)))
        return self.loops[k]

    def call(self, k: int) -> Callable[..., State]:
        """A cell's step as a function that is traced once."""
        advance = self.calls.get(k)
        if advance is None:
            advance = self.calls[k] = partial(function(_advance), self.cells[k])
        return advance


def _advance(cell: Cell, x: Any, state: State, mask: Any) -> State:
    """A step; the cell is an argument, so that it is traced for what the cell is."""
    return cell.advance(x, state, mask)
