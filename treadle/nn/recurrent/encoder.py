"""Layers of tree cells over whole trees, from the leaves up and from the root down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.tensor import Tensor
from treadle.nn.container import ModuleList
from treadle.nn.linear import above_zero
from treadle.nn.module import Module
from treadle.nn.recurrent.cell import Cell, first
from treadle.nn.recurrent.lstm import LSTMCell
from treadle.ops.join import concat

__all__ = ["TreeEncoder"]

Parts = Callable[[Any], Sequence[Any]]


class TreeEncoder(Module):
    """Layers of a tree cell over trees: an output for every node, the root's last.

    `cells` is one cell or several, each layer's input the output of the one below.
    `bidirectional` adds, for each layer, an LSTM from the root down: a node's state
    from the output below it and its parent's state, by a cell for each place among the
    children up to `arity`, the last of which also serves those behind it; both outputs
    are joined (Teng and Zhang, Bidirectional tree-structured LSTM with head
    lexicalization, 2016). `children(node)` is the sequence of a node's children,
    `inputs(node)` its input, or None. Nothing recurses, so trees may be deep.

    >>> encoder = td.nn.TreeEncoder(td.nn.NaryTreeLSTMCell(2, 3), bidirectional=True)
    >>> tree = ((1.0, 2.0), 3.0)
    >>> nodes = encoder(
    ...     tree,
    ...     children=lambda node: node if isinstance(node, tuple) else (),
    ...     inputs=lambda node: None if isinstance(node, tuple) else [node, 1.0],
    ... )
    >>> len(nodes), nodes[-1][0] is tree, nodes[-1][1].shape
    (5, True, (6,))
    """

    def __init__(
        self,
        cells: Cell | Sequence[Cell],
        bidirectional: bool = False,
        arity: int | None = None,
    ) -> None:
        layers = [cells] if isinstance(cells, Cell) else list(cells)
        if not layers:
            raise ArgumentError("an encoder has at least one cell")
        self.cells, self.bidirectional = ModuleList(layers), bidirectional
        n = layers[0].hidden_size
        places = getattr(layers[0], "arity", 1) if arity is None else arity
        above_zero(arity=places)
        width = 2 * n if bidirectional else n
        for k, cell in enumerate(layers):
            if cell.hidden_size != n or (k and cell.input_size != width):
                raise ArgumentError(
                    f"cell {k} takes {cell.input_size} and gives {cell.hidden_size}, "
                    f"here all give {n}, and those above the first take {width}"
                )
        self.down = ModuleList(
            [
                ModuleList([LSTMCell(n, n) for _ in range(places)])
                for _ in (layers if bidirectional else ())
            ]
        )

    def forward(
        self, root: Any, children: Parts, inputs: Callable[[Any], Any]
    ) -> list[tuple[Any, Tensor]]:
        """(node, output) for each node, children before their parent."""
        nodes, below = _flat(root, children)
        outputs: list[Any] = [inputs(node) for node in nodes]
        for layer, cell in enumerate(self.cells):
            states: list[Any] = []
            for x, parts in zip(outputs, below, strict=True):
                states.append(cell(x, [states[k] for k in parts]))
            outputs = [first(state) for state in states]
            if self.bidirectional:
                above = self._downward(outputs, below, self.down[layer])
                pairs = zip(outputs, above, strict=True)
                outputs = [concat([up, down], -1) for up, down in pairs]
        return list(zip(nodes, outputs, strict=True))

    def _downward(
        self, outputs: list[Any], below: list[list[int]], cells: Any
    ) -> list[Any]:
        """The outputs of all nodes computed from the root downward."""
        states: list[Any] = [None] * len(outputs)
        states[-1] = cells[0](outputs[-1])
        for k in range(len(outputs) - 1, -1, -1):
            for place, part in enumerate(below[k]):
                cell = cells[min(place, len(cells) - 1)]
                states[part] = cell(outputs[part], states[k])
        return [h for h, _ in states]


def _flat(root: Any, children: Parts) -> tuple[list[Any], list[list[int]]]:
    """Nodes, children before their parent, and the positions of each one's children."""
    nodes: list[Any] = []
    below: list[list[int]] = []
    open_: list[tuple[Any, list[Any], list[int]]] = [(root, list(children(root)), [])]
    while open_:
        node, left, positions = open_[-1]
        if left and len(positions) < len(left):
            part = left[len(positions)]
            open_.append((part, list(children(part)), []))
            continue
        open_.pop()
        nodes.append(node)
        below.append(positions)
        if open_:
            open_[-1][2].append(len(nodes) - 1)
    return nodes, below
