"""A recurrent network step by step: states that are added inputs to, as in DyNet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from treadle.base.errors import ArgumentError
from treadle.graph.tensor import Tensor
from treadle.nn.recurrent.cell import Cell, State, checked, first

__all__ = ["RecurrentState"]


class StepNetwork(Protocol):
    """The contract of step-by-step networks, as `Recurrent` is."""

    input_size: int

    @property
    def cells(self) -> Sequence[Cell]: ...

    def advance(
        self, x: Any, states: Sequence[State] | None, masks: dict[int, Any]
    ) -> tuple[list[State], Tensor]: ...

    def output_of(self, states: list[State]) -> Tensor: ...


class RecurrentState:
    """A network after some inputs; adding one makes another state, this one stays.

    So several continuations may start from one state, as in beam search. `prev` is the
    state before the last input, None at first.

    >>> start = td.nn.LSTM(3, 4, 2).initial_state()
    >>> after = start.add_input([1.0, 0.0, 0.0])
    >>> after.output().shape, len(after.h()), after.prev is start
    ((4,), 2, True)
    >>> [y.shape for y in start.transduce(td.ones((5, 3)))]
    [(4,), (4,), (4,), (4,), (4,)]
    """

    __slots__ = ("_masks", "_network", "_output", "_states", "prev")

    def __init__(
        self,
        network: StepNetwork,
        states: Sequence[State] | None,
        output: Tensor | None = None,
        prev: RecurrentState | None = None,
    ) -> None:
        self._network, self._states = network, states
        self._output, self.prev = output, prev
        # One sequence has one set of masks, whatever is added first.
        self._masks: dict[int, Any] = {} if prev is None else prev._masks

    def add_input(self, x: Any) -> RecurrentState:
        """The state after one more input."""
        node = checked(x, self._network.input_size)
        states, output = self._network.advance(node, self._states, self._masks)
        return RecurrentState(self._network, states, output, self)

    def add_inputs(self, xs: Iterable[Any]) -> list[RecurrentState]:
        """The states after each of several inputs."""
        state, states = self, []
        for x in xs:
            state = state.add_input(x)
            states.append(state)
        return states

    def transduce(self, xs: Iterable[Any]) -> list[Tensor]:
        """The outputs for several inputs."""
        return [state.output() for state in self.add_inputs(xs)]

    def output(self) -> Tensor:
        """The output of the last input."""
        if self._output is None:
            raise ArgumentError("there is no output before the first input")
        return self._output

    def s(self) -> tuple[State, ...]:
        """The state of each layer."""
        if self._states is None:
            raise ArgumentError(
                "zeros get their shape from the first input", hint="add_input first"
            )
        return tuple(self._states)

    def h(self) -> tuple[Tensor, ...]:
        """The output of each layer."""
        return tuple(first(state) for state in self.s())

    def set_s(self, states: Sequence[State]) -> RecurrentState:
        """A state with other layers' states, one for each layer."""
        count = len(self._network.cells)
        if len(states) != count:
            raise ArgumentError(
                f"{count} layers have as many states, not {len(states)}"
            )
        output = self._network.output_of(list(states))
        return RecurrentState(self._network, list(states), output, self)

    def set_h(self, outputs: Sequence[Tensor]) -> RecurrentState:
        """A state with other outputs of the layers; memories stay as they are."""
        old = self.s()
        if len(outputs) != len(old):
            raise ArgumentError(
                f"{len(old)} layers have {len(old)} outputs, not {len(outputs)}"
            )
        return self.set_s(
            [
                (h, *state[1:]) if isinstance(state, tuple) else h
                for h, state in zip(outputs, old, strict=True)
            ]
        )
