"""Variables beside parameters, one for each, and how many updates they have seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treadle.base.dtypes import accumulator
from treadle.base.errors import ModelFileError
from treadle.graph.variable import Variable
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
