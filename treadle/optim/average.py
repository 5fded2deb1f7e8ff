"""Averages of the weights over the steps of training, to evaluate and to save, and
Variables beside parameters as these and others keep them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator, float64
from treadle.base.errors import ArgumentError, ModelFileError, StateError
from treadle.graph.operators import functions
from treadle.graph.tensor import Tensor
from treadle.graph.variable import Variable
from treadle.optim.groups import parameters_of
from treadle.runtime.store import store


class ParameterCompanions:
    """A Variable of zeros beside each of some parameters, and the count of updates."""

    def __init__(self, parameters: Sequence[Variable], word: str, title: str) -> None:
        """Each is named by its parameter and a `word`, all of them by a `title`."""
        self.parameters = parameters
        self._word, self._title = word, title
        self.count = Variable(np.zeros((), np.int64), name="updates")
        self._variables = [
            Variable(
                np.zeros(p.shape, accumulator(p.dtype)),
                name=f"{p.name}/{word}",
                dtype=accumulator(p.dtype),
            )
            for p in parameters
        ]

    def _named(self) -> dict[str, Variable]:
        """All of them, by what they are saved as."""
        names = [p.name for p in self.parameters]
        places = [
            name if names.count(name) == 1 else f"{name}.{k}"
            for k, name in enumerate(names)
        ]
        keys = [f"{place}/{self._word}" for place in places]
        return {"updates": self.count, **dict(zip(keys, self._variables, strict=True))}

    def state_dict(self) -> dict[str, np.ndarray[Any, Any]]:
        """The count of updates and a stored array for each parameter, by name."""
        return {name: variable.numpy() for name, variable in self._named().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave."""
        targets = self._named()
        wrong = sorted(set(targets) ^ set(state))
        wrong += [k for k in targets if np.shape(state.get(k, 0)) != targets[k].shape]
        if wrong:
            raise ModelFileError(f"{self._title} do not fit: {', '.join(wrong)}")
        store([(variable, np.array(state[k])) for k, variable in targets.items()])


class WeightAverage(ParameterCompanions):
    """Running averages of parameters; `update()` after each step takes them in.

    `swap()` exchanges weights and averages, again to go back; `with swapped():` does
    both. What has been averaged so far stays as it is while swapped.
    """

    def __init__(self, params: Any) -> None:
        super().__init__(parameters_of(params), "average", "averages")
        self.averages = self._variables
        self.is_swapped = False
        self._kept: dict[int, np.ndarray[Any, Any]] = {}
        self._stored: dict[int, np.ndarray[Any, Any]] = {}

    def weight(self, count: Tensor) -> Tensor:
        """The weight of new parameters in the next average, after `count` updates."""
        raise NotImplementedError

    def average(self, stored: Tensor, count: Tensor) -> Tensor:
        """The average to use, from the stored one."""
        return stored

    def update(self) -> None:
        """Take the parameters' present values in: a = a + weight (p - a)."""
        if self.is_swapped:
            raise StateError("the averages stand in for the weights: swap back first")
        part = self.weight(self.count.node().astype(float64))
        pairs: list[tuple[Variable, Any]] = []
        for p, a in zip(self.parameters, self.averages, strict=True):
            now = p.node().astype(a.dtype)
            pairs.append((a, a + part.astype(a.dtype) * (now - a)))
        store([*pairs, (self.count, self.count + 1)])

    def swap(self) -> None:
        """Exchange the weights and the averages."""
        if not self.is_swapped and int(self.count) == 0:
            raise StateError("nothing was averaged yet: call update() after a step")
        count = self.count.node().astype(float64)
        pairs: list[tuple[Variable, Any]] = []
        for p, a in zip(self.parameters, self.averages, strict=True):
            if self.is_swapped:
                pairs += [(p, self._kept[id(a)]), (a, self._stored[id(a)])]
            else:
                pairs.append((p, self.average(a.node(), count)))
        if not self.is_swapped:
            self._kept = {
                id(a): p.numpy()
                for p, a in zip(self.parameters, self.averages, strict=True)
            }
            self._stored = {id(a): a.numpy() for a in self.averages}
        store(pairs)
        self.is_swapped = not self.is_swapped

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Inside, the parameters are their averages.

        >>> w = td.param("w", init=1.0)
        >>> mean = td.optim.CumulativeAverage([w])
        >>> mean.update(); _ = w.assign(3.0); mean.update()
        >>> with mean.swapped():
        ...     float(w)
        2.0
        >>> float(w)
        3.0
        """
        self.swap()
        try:
            yield
        finally:
            self.swap()


class ExponentialAverage(WeightAverage):
    """a = decay a + (1 - decay) p.

    `ramp` takes the smaller of decay and (t + 1) / (t + 10) after t updates, so that
    early weights fade (Marian); `bias_correction` divides by 1 - decay^t (DyNet)
    instead of starting from the first weights.

    >>> w = td.param("w", init=2.0)
    >>> mean = td.optim.ExponentialAverage([w], decay=0.5)
    >>> mean.update()
    >>> _ = w.assign(4.0); mean.update()
    >>> with mean.swapped():
    ...     float(w)
    3.0
    """

    def __init__(
        self,
        params: Any,
        decay: float = 0.9999,
        ramp: bool = False,
        bias_correction: bool = False,
    ) -> None:
        if not 0.0 <= decay < 1.0:
            raise ArgumentError(f"decay is at least 0 and below 1, got {decay}")
        if ramp and bias_correction:
            raise ArgumentError("a ramp leaves no bias to correct: choose one")
        super().__init__(params)
        self.decay, self.ramp, self.bias_correction = decay, ramp, bias_correction

    def weight(self, count: Tensor) -> Tensor:
        part: Tensor = count * 0.0 + (1.0 - self.decay)
        if self.ramp:
            ramp = 1.0 - (count + 1.0) / (count + 10.0)
            part = functions.maximum(part, ramp)
        if not self.bias_correction:
            # The first update takes the weights whole: the average starts at them.
            part = functions.where(count > 0.0, part, 1.0)
        return part

    def average(self, stored: Tensor, count: Tensor) -> Tensor:
        if not self.bias_correction:
            return stored
        correction = 1.0 - functions.pow(count * 0.0 + self.decay, count)
        return stored / correction.astype(stored.dtype)


class CumulativeAverage(WeightAverage):
    """The plain mean of all the weights taken in: a = a + (p - a) / (t + 1).

    Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992.

    >>> w = td.param("w", init=1.0)
    >>> mean = td.optim.CumulativeAverage([w])
    >>> mean.update(); float(mean.averages[0])
    1.0
    """

    def weight(self, count: Tensor) -> Tensor:
        return 1.0 / (count + 1.0)
