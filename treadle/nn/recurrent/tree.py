"""Cells for trees, and layers of them from the leaves up and from the root down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.base.errors import ArgumentError
from treadle.graph.tensor import Tensor
from treadle.nn import functional as F
from treadle.nn.container import ModuleList
from treadle.nn.linear import above_zero
from treadle.nn.module import Module
from treadle.nn.recurrent.cell import Cell, Gated, State, checked, first
from treadle.nn.recurrent.lstm import LSTMCell
from treadle.nn.recurrent.sequence import one_by_one
from treadle.ops.contract import matmul_transposed
from treadle.ops.join import concat
from treadle.ops.recurrent import parts

__all__ = [
    "ChildSumTreeLSTMCell",
    "NaryTreeLSTMCell",
    "SequentialTreeCell",
    "TreeCell",
    "TreeEncoder",
]


class TreeCell(Gated):
    """One node of a tree: `cell(x, children)` is its state (h, c).

    `children` are the states of its children, none for a leaf; x may be None where
    nodes have no input of their own. Call cells from recursive Python, best in a
    `td.function`: nodes of many trees are batched by themselves.

    >>> cell = td.nn.ChildSumTreeLSTMCell(2, 3)
    >>> def encode(tree):
    ...     if isinstance(tree, float):
    ...         return cell([tree, 1.0], [])
    ...     return cell(None, [encode(part) for part in tree])
    >>> h, c = encode([0.5, [1.0, 2.0, 3.0]])
    >>> h.shape
    (3,)
    """

    gates, states = 4, 2

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: Any = None,
        *,
        forget_bias: float = 0.0,
        weight_noise: float = 0.0,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype)
        del self.bias_hh
        self.bias_hh = None
        self.weight_noise = weight_noise
        if bias:
            self.bias_ih = self.drawn((4 * hidden_size,))
        self.forget_bias = forget_bias

    def own(self, x: Any, children: Sequence[Any]) -> list[Any]:
        """The contribution of input and bias to the gates i, f, g, o."""
        if x is not None and self.input_size:
            node = checked(x, self.input_size)
            return self.split(self.project(node))
        if not children:
            raise ArgumentError("a node has an input or children, or both")
        return [0.0] * 4 if self.bias_ih is None else self.split(self.bias_ih.node())

    def combined(
        self, gates: Sequence[Any], forgets: Sequence[Any], children: Sequence[State]
    ) -> State:
        """The state from gates i, g, o and a forget gate for each child."""
        i, g, o = gates
        after = F.sigmoid(i) * F.tanh(g)
        for f, (_, c) in zip(forgets, children, strict=True):
            kept = f + self.forget_bias if self.forget_bias else f
            after = after + F.sigmoid(kept) * c
        return F.sigmoid(o) * F.tanh(after), after

    def forward(self, x: Any, children: Sequence[State] = ()) -> State:
        raise NotImplementedError(f"{type(self).__name__} does not define forward")


class ChildSumTreeLSTMCell(TreeCell):
    """A tree-LSTM for nodes with any number of children, in no order.

    With s the sum of the children's h: i, g, o = W x + U s + b, and for each child k
    f_k = W_f x + U_f h_k + b_f; c = sigmoid(i) tanh(g) + the sum of sigmoid(f_k) c_k;
    h = sigmoid(o) tanh(c). Weights hold i, f, g, o. Tai, Socher and Manning, Improved
    semantic representations from tree-structured LSTM networks, 2015, section 3.1.

    >>> cell = td.nn.ChildSumTreeLSTMCell(3, 4)
    >>> leaf = cell(td.ones(3))
    >>> [part.shape for part in cell(td.ones(3), [leaf, leaf, leaf])]
    [(4,), (4,)]
    """

    def forward(self, x: Any, children: Sequence[State] = ()) -> State:
        outputs = [h for h, _ in children]
        i, f, g, o = self.own(x, outputs)
        if not outputs:
            return self.combined((i, g, o), (), ())
        n, weight = self.hidden_size, self.matrix("weight_hh")
        summed = outputs[0]
        for h in outputs[1:]:
            summed = summed + h
        rows = concat([weight[:n], weight[2 * n :]])
        i2, g2, o2 = parts(matmul_transposed(summed, rows), 3)
        forgets = [f + matmul_transposed(h, weight[n : 2 * n]) for h in outputs]
        return self.combined((i + i2, g + g2, o + o2), forgets, children)


class NaryTreeLSTMCell(TreeCell):
    """A tree-LSTM for nodes with up to `arity` children, each with its own weights.

    i, g, o = W x + the sum of U_k h_k + b; f_k = W_f x + the sum of U_kl h_l + b_f for
    child k over all children l; c and h as in the child-sum cell. weight_ih holds i, f,
    g, o; weight_hh (3 + arity times hidden, arity times hidden) holds i, f_1, ..., g,
    o. Missing children count as zeros. With `peepholes` (DyNet) i and f_k also see the
    children's c through weight_ch, and o too. Tai, Socher and Manning 2015, section
    3.2.

    >>> cell = td.nn.NaryTreeLSTMCell(3, 4, forget_bias=1.0)
    >>> left, right = cell(td.ones(3)), cell(td.zeros(3))
    >>> [part.shape for part in cell(None, [left, right])]
    [(4,), (4,)]
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        arity: int = 2,
        bias: bool = True,
        dtype: Any = None,
        *,
        peepholes: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, dtype, **settings)
        if arity < 1:
            raise ArgumentError(f"arity is from 1 up, got {arity}")
        self.arity, n = arity, hidden_size
        self.weight_hh = self.drawn(((3 + arity) * n, arity * n))
        shape = ((2 + arity) * n, arity * n)
        self.weight_ch = self.drawn(shape) if peepholes else None

    def forward(self, x: Any, children: Sequence[State] = ()) -> State:
        count = len(children)
        if count > self.arity:
            raise ArgumentError(
                f"{count} children are more than the arity, {self.arity}",
                hint="ChildSumTreeLSTMCell takes any number",
            )
        i, f, g, o = self.own(x, children)
        if not count:
            return self.combined((i, g, o), (), ())
        past = self._from("weight_hh", [h for h, _ in children])
        i2, *fs, g2, o2 = parts(past, 3 + self.arity)
        i, o, forgets = i + i2, o + o2, [f + fk for fk in fs[:count]]
        if self.weight_ch is not None:
            seen = self._from("weight_ch", [c for _, c in children])
            i3, *fs, o3 = parts(seen, 2 + self.arity)
            i, o = i + i3, o + o3
            forgets = [f + fk for f, fk in zip(forgets, fs, strict=False)]
        return self.combined((i, g + g2, o), forgets, children)

    def _from(self, name: str, xs: list[Any]) -> Tensor:
        """A weight times the children that are there."""
        weight = self.matrix(name)
        if len(xs) < self.arity:
            weight = weight[:, : len(xs) * self.hidden_size]
        return matmul_transposed(concat(xs, -1) if len(xs) > 1 else xs[0], weight)


class SequentialTreeCell(Cell):
    """An LSTM over a node's input and its children's outputs, in their order.

    With `bidirectional` a second one starts at the last child, and both outputs, each
    half as wide, are joined: DyNet's Unidirectional and BidirectionalTreeLSTM. A state
    is the output h. Inputs are as wide as the outputs.

    >>> cell = td.nn.SequentialTreeCell(4, bidirectional=True)
    >>> leaf = cell(td.ones(4))
    >>> cell(td.ones(4), [leaf, leaf]).shape
    (4,)
    """

    def __init__(
        self, hidden_size: int, bidirectional: bool = False, **settings: Any
    ) -> None:
        if bidirectional and hidden_size % 2:
            raise ArgumentError(f"{hidden_size} is not two halves")
        super().__init__(hidden_size, hidden_size)
        half = hidden_size // 2 if bidirectional else hidden_size
        self.ahead = LSTMCell(hidden_size, half, **settings)
        self.back = LSTMCell(hidden_size, half, **settings) if bidirectional else None

    def forward(self, x: Any, children: Sequence[Any] = ()) -> Tensor:
        first = [] if x is None else [checked(x, self.input_size)]
        if not first and not children:
            raise ArgumentError("a node has an input or children, or both")
        steps = [*first, *children]
        ahead: Tensor = one_by_one(self.ahead.advance, steps)[0][-1]
        if self.back is None:
            return ahead
        steps = [*first, *reversed(children)]
        back = one_by_one(self.back.advance, steps)[0][-1]
        return concat([ahead, back], -1)


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
            for x, places in zip(outputs, below, strict=True):
                states.append(cell(x, [states[k] for k in places]))
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
