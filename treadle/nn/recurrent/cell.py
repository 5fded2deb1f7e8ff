"""The contract of recurrent cells: input projection, and a step of the state."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from treadle.base.errors import ArgumentError, ShapeError
from treadle.graph.leaves import as_tensor
from treadle.graph.scope import param
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Parameter
from treadle.nn import functional as F
from treadle.nn import init
from treadle.nn.linear import above_zero
from treadle.nn.module import Module
from treadle.ops import random
from treadle.ops.contract import matmul_transposed
from treadle.ops.create import zeros
from treadle.ops.naming import by_role
from treadle.ops.recurrent import parts

__all__ = ["Cell", "Gated"]

State = Any  # a tensor, or a tuple of them whose first is the output
EPS = 1e-5


class Cell(Module):
    """One step of a recurrent network: `cell(x, state)` is the next state.

    A state is a tensor of width `hidden_size`, or a tuple of `states` of them, the
    first of which is the output. A new kind of cell defines `project`, what depends on
    inputs alone and is worked out for many steps at once, and `step`.

    >>> class Leaky(td.nn.Cell):
    ...     def project(self, x):
    ...         return x
    ...     def step(self, own, state, mask=None):
    ...         return 0.5 * state + own
    >>> cell = Leaky(2, 2)
    >>> cell([1.0, 1.0], cell([4.0, 0.0])).tolist()
    [3.0, 1.0]
    """

    states: int = 1

    def __init__(self, input_size: int, hidden_size: int) -> None:
        above_zero(input_size=input_size, hidden_size=hidden_size)
        self.input_size, self.hidden_size = input_size, hidden_size

    def project(self, x: Any) -> Any:
        """The projection of inputs [..., input_size]: a tensor or several."""
        raise NotImplementedError(f"{type(self).__name__} does not define project")

    def step(self, projected: Any, state: State, mask: Any = None) -> State:
        """The next state from a projected input; `mask` scales what is read of h."""
        raise NotImplementedError(f"{type(self).__name__} does not define step")

    def initial_state(self, lead: Any = (), dtype: Any = None) -> State:
        """Zeros, for batches of shape `lead`."""
        empty = zeros((*lead, self.hidden_size), dtype)
        return empty if self.states == 1 else (empty,) * self.states

    def advance(self, x: Any, state: State = None, mask: Any = None) -> State:
        """The next state from an input; no state is zeros."""
        projected = self.project(x)
        if state is None:
            state = self.initial_state(x.shape[:-1], first(projected).dtype)
        return self.step(projected, state, mask)

    @by_role(1)
    def forward(self, x: Any, state: State = None) -> State:
        return self.advance(checked(x, self.input_size), state)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def first(parts: Any) -> Any:
    """The first of several tensors, or the one there is."""
    return parts[0] if isinstance(parts, (tuple, list)) else parts


def checked(x: Any, width: int) -> Tensor:
    """x as a tensor of inputs of that width."""
    node = as_tensor(x)
    if not node.ndim or node.shape[-1] != width:
        raise ShapeError(f"inputs have width {width}, got {node.type}").located(
            "recurrent cell"
        )
    return node


class Gated(Cell):
    """A cell of `gates` affine maps of x and h, with weights as torch has them.

    weight_ih (gates hidden, input), weight_hh (gates hidden, hidden), bias_ih, bias_hh,
    all uniform within 1 / sqrt(hidden) at first. With `layer_norm`, W x and U h are
    normalized, each over all gates, and scaled by norm_ih and norm_hh before the biases
    are added (Ba, Kiros and Hinton, Layer normalization, 2016). With `weight_noise`,
    in training normal noise of that deviation is added to the matrices at each step
    (Graves, Practical variational inference for neural networks, 2011). An
    `input_size` of 0 makes a cell without input, as deep transitions have them.

    >>> cell = td.nn.GRUCell(3, 4, layer_norm=True)
    >>> [name for name, _ in cell.named_parameters()][2:]
    ['bias_ih', 'bias_hh', 'norm_ih', 'norm_hh']
    """

    gates: ClassVar[int] = 1
    weight_ih: Any
    weight_hh: Any
    bias_ih: Any
    bias_hh: Any
    norm_ih: Any
    norm_hh: Any

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        dtype: Any = None,
        *,
        layer_norm: bool = False,
        weight_noise: float = 0.0,
    ) -> None:
        super().__init__(input_size or 1, hidden_size)
        if not weight_noise >= 0.0:
            raise ArgumentError(f"a deviation is not negative, got {weight_noise}")
        self.input_size = input_size
        self.dtype, self.weight_noise = dtype, weight_noise
        rows = self.gates * hidden_size
        self.weight_ih = self.drawn((rows, input_size)) if input_size else None
        self.weight_hh = self.drawn((rows, hidden_size))
        self.bias_ih = self.drawn((rows,)) if bias and input_size else None
        self.bias_hh = self.drawn((rows,)) if bias else None
        if layer_norm:
            self.norm_ih = self.filled((rows,), 1.0) if input_size else None
            self.norm_hh = self.filled((rows,), 1.0)
        else:
            self.norm_ih = self.norm_hh = None
        self.add_weights()

    def add_weights(self) -> None:
        """Make what a kind of cell has besides; for subclasses."""

    def drawn(self, shape: tuple[int, ...]) -> Parameter:
        """A parameter uniform within 1 / sqrt(hidden), as torch's."""
        limit = 1.0 / math.sqrt(self.hidden_size)
        drawn = init.uniform(low=-limit, high=limit)
        return param(shape=shape, init=drawn, dtype=self.dtype)

    def filled(self, shape: tuple[int, ...], value: float) -> Parameter:
        """A parameter of one value."""
        return param(shape=shape, init=value, dtype=self.dtype)

    def matrix(self, name: str) -> Any:
        """A weight as it is used: with noise in training, if there is any."""
        weight = getattr(self, name)
        if not self.weight_noise or not self.training:
            return weight
        noise = random.normal(weight.shape, 0.0, self.weight_noise, dtype=weight.dtype)
        return weight + noise

    def project(self, x: Any) -> Any:
        if not self.input_size:
            return None
        y = matmul_transposed(x, self.matrix("weight_ih"))
        return shifted(normed(y, self.norm_ih), self.bias_ih)

    def past(self, h: Any, mask: Any = None) -> Tensor:
        """The contribution of the output before to the gates."""
        y = matmul_transposed(h if mask is None else h * mask, self.matrix("weight_hh"))
        return shifted(normed(y, self.norm_hh), self.bias_hh)

    def forward(self, x: Any, state: State = None) -> State:
        if self.input_size:
            return super().forward(x, state)
        if x is not None or state is None:
            raise ArgumentError("a cell without input takes None and a state")
        return self.step(None, state)

    def split(self, gates: Tensor) -> list[Tensor]:
        """The gates one by one."""
        return parts(gates, self.gates)


def normed(y: Tensor, gain: Any, bias: Any = None) -> Tensor:
    """y normalized over its last dimension and scaled, if there is a gain."""
    return y if gain is None else F.layer_norm(y, y.shape[-1], gain, bias, EPS)


def shifted(y: Tensor, bias: Any) -> Tensor:
    """y + bias, if there is one."""
    return y if bias is None else y + bias


def total(projected: Any, past: Tensor) -> Tensor:
    """Both parts of the gates together; cells without input have one."""
    return past if projected is None else projected + past
